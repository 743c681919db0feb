"""cosend: classify or send.

Every site classifies what arrives there with one of its own models or sends it to a peer, and learns from late labels
which choice is best for which context.
"""

from cosend.classifiers.adapters import SeesOnly
from cosend.core.learner.learner import Learner
from cosend.core.learner.registry import Patience
from cosend.core.learner.state import learner_from, learner_state
from cosend.core.learner.values import Answer, AskPeer, Batch, Choice, LabelledData, Phase, View
from cosend.core.policy.policies import (
    CellKLUCB,
    CellThompson,
    ChangeAware,
    ContextSelection,
    CoS,
    Zooming,
    ZoomingKLUCB,
)
from cosend.errors import CosendError
from cosend.simulation.network import Network
from cosend.simulation.replay import replay
from cosend.site.context import Context
from cosend.site.messages import Decision
from cosend.site.site import Site
from cosend.stores.state_file import read_state, write_state
from cosend.version import VERSION

__all__ = [
    "Answer",
    "AskPeer",
    "Batch",
    "CellKLUCB",
    "CellThompson",
    "ChangeAware",
    "Choice",
    "CoS",
    "Context",
    "ContextSelection",
    "CosendError",
    "Decision",
    "LabelledData",
    "Learner",
    "Network",
    "Patience",
    "Phase",
    "SeesOnly",
    "Site",
    "View",
    "Zooming",
    "ZoomingKLUCB",
    "learner_from",
    "learner_state",
    "read_state",
    "replay",
    "write_state",
]
__version__ = VERSION
