"""cosend: classify or send.

Every site classifies what arrives there with one of its own models or sends it to a peer, and learns from late labels
which choice is best for which context.

>>> from cosend import Site, axes
>>> site = Site(
...     "clinic",
...     classifiers={"young": lambda visit: visit["pressure"] > 125, "old": lambda visit: visit["pressure"] > 150},
...     context=axes.Feature("age", range=(0, 100)),
... )
>>> decision = site.classify({"age": 31, "pressure": 170})
>>> decision.label
True
>>> site.learn(decision, True)  # when the truth is known
>>> site
<Site 'clinic': 2 classifiers, 0 peers, 1 item, 0 labels pending>
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cosend.errors import CosendError
from cosend.version import VERSION

if TYPE_CHECKING:  # `as` says that a name is for others too
    from cosend.algorithm.learner import Learner as Learner
    from cosend.algorithm.pending import Patience as Patience
    from cosend.algorithm.policies import CellKLUCB as CellKLUCB
    from cosend.algorithm.policies import CoS as CoS
    from cosend.algorithm.policies import MixedViews as MixedViews
    from cosend.algorithm.policies import Policy as Policy
    from cosend.algorithm.policies import Zooming as Zooming
    from cosend.algorithm.policies import ZoomingKLUCB as ZoomingKLUCB
    from cosend.algorithm.state import State as State
    from cosend.algorithm.values import Answer as Answer
    from cosend.algorithm.values import AskPeer as AskPeer
    from cosend.algorithm.values import Batch as Batch
    from cosend.algorithm.values import Cell as Cell
    from cosend.algorithm.values import Choice as Choice
    from cosend.algorithm.values import Estimate as Estimate
    from cosend.algorithm.values import Explanation as Explanation
    from cosend.algorithm.values import LabelledData as LabelledData
    from cosend.algorithm.values import Phase as Phase
    from cosend.algorithm.values import View as View
    from cosend.axes import Context as Context
    from cosend.engine.fold import Difference as Difference
    from cosend.engine.fold import fold as fold
    from cosend.engine.fold import verify as verify
    from cosend.engine.needs import Decision as Decision
    from cosend.engine.needs import Peer as Peer
    from cosend.models.adapters import Classifier as Classifier
    from cosend.models.adapters import SeesOnly as SeesOnly
    from cosend.models.vote import Vote as Vote
    from cosend.network import Network as Network
    from cosend.network import Turn as Turn
    from cosend.simulation.loop import Trace as Trace
    from cosend.simulation.simulate import simulate as simulate
    from cosend.site import Site as Site
    from cosend.store.state_file import read_state as read_state
    from cosend.store.state_file import write_state as write_state

__version__ = VERSION
# Loaded when they are first used (PEP 562): NumPy and Numba take most of the time of an import.
_PLACES = {
    "cosend.models.adapters": ("Classifier", "SeesOnly"),
    "cosend.models.vote": ("Vote",),
    "cosend.algorithm.learner": ("Learner",),
    "cosend.algorithm.pending": ("Patience",),
    "cosend.algorithm.state": ("State",),
    "cosend.algorithm.values": (
        "Answer",
        "AskPeer",
        "Batch",
        "Cell",
        "Choice",
        "Estimate",
        "Explanation",
        "LabelledData",
        "Phase",
        "View",
    ),
    "cosend.algorithm.policies": ("CellKLUCB", "CoS", "MixedViews", "Policy", "Zooming", "ZoomingKLUCB"),
    "cosend.axes": ("Context",),
    "cosend.engine.fold": ("Difference", "fold", "verify"),
    "cosend.engine.needs": ("Decision", "Peer"),
    "cosend.network": ("Network", "Turn"),
    "cosend.simulation.loop": ("Trace",),
    "cosend.simulation.simulate": ("simulate",),
    "cosend.site": ("Site",),
    "cosend.store.state_file": ("read_state", "write_state"),
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_MODULE_OF]


__all__ = ["CosendError", *_MODULE_OF]
