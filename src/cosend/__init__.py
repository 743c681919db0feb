"""cosend: classify or send.

Each site classifies its items with one of its models or asks a peer, and learns from late labels
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

if TYPE_CHECKING:
    from cosend import axes
    from cosend.algorithm.learner import Learner
    from cosend.algorithm.pending import Patience
    from cosend.algorithm.policies import CellKLUCB, CoS, MixedViews, Zooming, ZoomingKLUCB
    from cosend.engine.budget import Budget
    from cosend.engine.fold import fold, verify
    from cosend.engine.learnt_arms import Learnt
    from cosend.engine.money import Money
    from cosend.engine.needs import Decision
    from cosend.engine.scoring import Reward
    from cosend.models.adapters import Answer, SeesOnly
    from cosend.models.endpoints import Endpoint
    from cosend.network import Network
    from cosend.simulation.simulate import simulate
    from cosend.site import Site

__version__ = VERSION
# Loaded when they are first used (PEP 562): NumPy and Numba take most of the time of an import.
_MODULE_OF = {
    "Answer": "cosend.models.adapters",
    "Budget": "cosend.engine.budget",
    "CellKLUCB": "cosend.algorithm.policies",
    "CoS": "cosend.algorithm.policies",
    "Decision": "cosend.engine.needs",
    "Endpoint": "cosend.models.endpoints",
    "Learner": "cosend.algorithm.learner",
    "Learnt": "cosend.engine.learnt_arms",
    "MixedViews": "cosend.algorithm.policies",
    "Money": "cosend.engine.money",
    "Network": "cosend.network",
    "Patience": "cosend.algorithm.pending",
    "Reward": "cosend.engine.scoring",
    "SeesOnly": "cosend.models.adapters",
    "Site": "cosend.site",
    "Zooming": "cosend.algorithm.policies",
    "ZoomingKLUCB": "cosend.algorithm.policies",
    "fold": "cosend.engine.fold",
    "simulate": "cosend.simulation.simulate",
    "verify": "cosend.engine.fold",
}


def __getattr__(name: str) -> Any:
    if name == "axes":
        return import_module("cosend.axes")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), "axes", *_MODULE_OF]


__all__ = [
    "Answer",
    "Budget",
    "CellKLUCB",
    "CoS",
    "CosendError",
    "Decision",
    "Endpoint",
    "Learner",
    "Learnt",
    "MixedViews",
    "Money",
    "Network",
    "Patience",
    "Reward",
    "SeesOnly",
    "Site",
    "Zooming",
    "ZoomingKLUCB",
    "axes",
    "fold",
    "simulate",
    "verify",
]
