"""A client of the HTTP service of a site, for programs with asyncio and without.

    with Client("http://127.0.0.1:8801", token=...) as site:
        decisions = site.classify([{"age": 34}, {"age": 71}])
        ...
        site.label(decisions[0].id, "ill")

A request that fails for a reason that may pass is sent again, after a rest that grows: when the service cannot be
reached or says that it cannot answer now. That is safe. Every item has an id, its own or one that is made here, and an
id that the site has decided for gets the same decision again; a label counts once.
"""

from cosend.client.clients import AsyncClient, Client
from cosend.client.replies import Arm, Cell, Decision, Estimate, Fate, Heard, LabelCounts, Story, Summary
from cosend.client.requests import Truth

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
    "Truth",
]
