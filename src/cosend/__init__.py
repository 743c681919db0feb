"""cosend: classify or send.

Every site classifies what arrives there with one of its own models or sends it to a peer, and learns from late labels
which choice is best for which context.

>>> from cosend import Context, Site
>>> site = Site(
...     "clinic",
...     classifiers={"young": lambda visit: visit["pressure"] > 125, "old": lambda visit: visit["pressure"] > 150},
...     context=Context("age", range=(0, 100)),
... )
>>> decision = site.classify({"age": 31, "pressure": 170})
>>> decision.label
True
>>> site.learn(decision, True)  # when the truth is known
>>> site
<Site 'clinic': 2 classifiers, 0 peers, 1 item, 0 labels awaited>
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cosend.errors import CosendError
from cosend.version import VERSION

if TYPE_CHECKING:
    from cosend.algorithm.learner import Learner
    from cosend.algorithm.pending import Patience
    from cosend.algorithm.policies import CellKLUCB, CoS, MixedViews, Policy, Zooming, ZoomingKLUCB
    from cosend.algorithm.state import State
    from cosend.algorithm.values import (
        Answer,
        AskPeer,
        Batch,
        Cell,
        Choice,
        Estimate,
        Explanation,
        LabelledData,
        Phase,
        View,
    )
    from cosend.axes import Context
    from cosend.engine.fold import Difference, fold, verify
    from cosend.engine.needs import Decision, Peer
    from cosend.models.adapters import Classifier, SeesOnly
    from cosend.models.vote import Vote
    from cosend.network import Network, Turn
    from cosend.simulation.loop import Trace
    from cosend.simulation.simulate import simulate
    from cosend.site import Site
    from cosend.store.state_file import read_state, write_state

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


__all__ = [
    "Answer",
    "AskPeer",
    "Batch",
    "Cell",
    "CellKLUCB",
    "Choice",
    "Classifier",
    "CoS",
    "Context",
    "CosendError",
    "Decision",
    "Difference",
    "Estimate",
    "Explanation",
    "LabelledData",
    "Learner",
    "MixedViews",
    "Network",
    "Patience",
    "Peer",
    "Phase",
    "Policy",
    "SeesOnly",
    "Site",
    "State",
    "Trace",
    "Turn",
    "View",
    "Vote",
    "Zooming",
    "ZoomingKLUCB",
    "fold",
    "read_state",
    "simulate",
    "verify",
    "write_state",
]
