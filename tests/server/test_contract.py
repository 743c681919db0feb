"""The service does what its description says, for whatever the description allows and for what it does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import schemathesis
from hypothesis import settings
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from cosend import CoS
from cosend.axes import Category, Feature
from cosend.models.adapters import as_classifier
from cosend.runtime.running_site import RunningSite
from cosend.runtime.site_setup import Setup
from cosend.server.auth import Tokens
from cosend.server.routes import Service
from tests.node.sites import Majority, old, young
from tests.server.services import served

pytestmark = [
    pytest.mark.claims,
    pytest.mark.filterwarnings("ignore"),  # of the tools; labels that no arm can give are tried on purpose
]

CASES: Final = 500  # of each operation
TOKEN: Final = "a token that nobody else knows".replace(" ", "-")
HEADERS: Final = {"Authorization": f"Bearer {TOKEN}"}
TOKENS: Final = Tokens({TOKEN: frozenset(["admin"])})


def contract_site() -> Setup:
    models = {"young": young, "old": old, "learns": Majority()}
    return Setup(
        name="north",
        classifiers={name: as_classifier(model) for name, model in models.items()},
        axes=[Feature("age", range=(0, 100)), Category("kind")],
        policy=CoS(slices=4),
    )


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("contract"), contract_site(), TOKENS) as (address, _):
        yield address


SCHEMA = schemathesis.openapi.from_dict(Service(RunningSite(contract_site(), Path("nowhere")), TOKENS).description())


# What JSON Schema cannot say: 1e300 is allowed, the same in 301 digits is not; an id must not be taken; and scores name
# arms, which may change while a site runs.
LIMITS: Final = (
    "Expected `int`",
    "the id ",
    "an id must not be",
    "which is no arm",
    "MixedViews where there is a budget",
    "without a cost",
)


SEEN: Final[set[str]] = set()


def check(case: Any, url: str) -> None:
    # Parameters that a route does not know are passed over, as everywhere; unknown keys of a body are not.
    excluded = [negative_data_rejection] if case.method == "GET" else []
    response = case.call(base_url=url, headers=HEADERS)
    if response.status_code == 413:  # refused for its length, whatever else is right or wrong with it
        excluded += [negative_data_rejection, positive_data_acceptance]
    if response.status_code == 422 and any(limit in response.text for limit in LIMITS):
        excluded.append(positive_data_acceptance)
    if response.status_code == 200 and case.path == "/v1/classify":
        told = {each["id"] for each in response.json()["decisions"]}
        if told & SEEN:  # the answer of the first time, whatever the item is like now
            excluded.append(negative_data_rejection)
        SEEN.update(told)
    unknown = response.status_code == 200 and case.path == "/v1/labels" and not response.json()["learnt"]
    if unknown and any(is_score_beyond(each) for each in case.body["labels"]):
        excluded.append(negative_data_rejection)
    case.validate_response(response, headers=HEADERS, excluded_checks=excluded)
    if case.method == "POST" and not case.path.startswith(("/v1/classify", "/v1/labels")):
        put_back(url)


def is_score_beyond(label: Any) -> bool:
    """Tell whether a score, or one by arm, is outside [0, 1]: it is looked at with its decision."""
    scores = label.get("scores")
    given = [label.get("score"), *(scores.values() if isinstance(scores, dict) else ())]
    return any(isinstance(each, int | float) and not 0 <= each <= 1 for each in given)


def put_back(url: str) -> None:
    """Let every arm be used again: with all of them paused, nothing could be decided any more."""
    with httpx.Client(base_url=url, headers=HEADERS) as client:
        for arm in client.get("/v1/arms").json()["arms"]:
            if arm["paused"]:
                client.post(f"/v1/arms/{arm['name']}", json={"paused": False})


@SCHEMA.parametrize()
@settings(max_examples=CASES)
def test_thousands_of_cases_are_answered_as_described(case: Any, url: str) -> None:
    check(case, url)
