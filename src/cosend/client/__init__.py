"""A client of the HTTP service of a site, for programs with asyncio and without.

    with Client("http://127.0.0.1:8801", token=...) as site:
        decision = site.classify({"age": 34})
        ...
        site.learn(decision, "ill")

The verbs are those of `cosend.Site`: `classify` and `learn` for one item, `classify_many` and `learn_many` for many.

A request that fails for a reason that may pass is sent again, after a rest that grows: when the service cannot be
reached or says that it cannot answer now. That is safe. Every item has an id, its own or one that is made here, and an
id that the site has decided for gets the same decision again; a label counts once.
"""

from cosend.client.clients import AsyncClient, Client
from cosend.client.replies import Arm, Cell, Decision, Estimate, Fate, Heard, LabelCounts, Story, Summary

__all__ = [
    "Arm",
    "AsyncClient",
    "Cell",
    "Client",
    "Decision",
    "Estimate",
    "Fate",
    "Heard",
    "LabelCounts",
    "Story",
    "Summary",
]
