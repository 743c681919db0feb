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

from cosend.classifiers.adapters import Classifier, SeesOnly
from cosend.classifiers.vote import Vote
from cosend.core.learner.learner import Learner
from cosend.core.learner.registry import Patience
from cosend.core.learner.state import State
from cosend.core.learner.values import (
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
from cosend.core.policy.mixed import MixedViews
from cosend.core.policy.parts import Policy
from cosend.core.policy.policies import (
    CellKLUCB,
    CoS,
    Zooming,
    ZoomingKLUCB,
)
from cosend.errors import CosendError
from cosend.simulation.kernel.loop import Trace
from cosend.simulation.network import Network, Turn
from cosend.simulation.replay import replay
from cosend.site.context import Context
from cosend.site.fold import Difference, fold, verify
from cosend.site.messages import Decision, Peer
from cosend.site.rules import Rules
from cosend.site.site import Site
from cosend.stores.state_file import read_state, write_state
from cosend.version import VERSION

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
    "Rules",
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
    "replay",
    "verify",
    "write_state",
]
__version__ = VERSION
