"""Models behind endpoints: every protocol, everything that a server can do wrong, and secrets that nobody sees."""

from __future__ import annotations

import logging
import pickle
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from cosend import Site
from cosend.axes import Feature
from cosend.errors import ClassifierError, ModelError, NoAnswer, SettingError
from cosend.models.adapters import Failure, Predicted, answers_of, as_classifier, known_labels
from cosend.models.endpoints import MOST_BYTES, Endpoint, wait_asked_for
from cosend.models.loading import load_model
from tests.tools.endpoints import Server, endpoints

ITEMS = [{"age": age, "text": "some text"} for age in (10, 60, 30, 80)]
LABELS = ["ill", "well", "ill", "well"]
TOKEN = "a-secret-that-nobody-sees"  # noqa: S105 - of the server of the tests
QUICK_S = 0.3
REPLY = MappingProxyType({"label": "/result/0/label", "confidence": "/result/0/sure", "cost": "/result/0/cost"})


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    with endpoints() as server:
        yield server


@pytest.fixture
def server(shared: Server) -> Server:
    shared.counts.clear()
    shared.seen.clear()
    shared.most_at_once = 0
    return shared


def oip(server: Server, what: str = "right", **options: Any) -> Endpoint:
    return Endpoint(f"oip:{server.url}/{what}/v2/models/m", **{"features": ["age"], **options})


def chat(server: Server, what: str = "right", **options: Any) -> Endpoint:
    return Endpoint(f"openai:{server.url}/{what}/v1#gpt-x", **{"labels": ["ill", "well"], **options})


def mlflow(server: Server, what: str = "right", **options: Any) -> Endpoint:
    return Endpoint(f"mlflow:{server.url}/{what}/invocations", **options)


def http(server: Server, what: str = "right", **options: Any) -> Endpoint:
    return Endpoint(f"http:{server.url}/{what}/model?version=2", **{"reply": "/result/0/label", **options})


KINDS = {"oip": oip, "openai": chat, "mlflow": mlflow, "http": http}
EACH = pytest.mark.parametrize("kind", KINDS)


def reason(endpoint: Endpoint, item: Any = ITEMS[0]) -> Failure:
    """Return why an item has no label."""
    (said,) = endpoint.answers([item]).labels
    assert isinstance(said, Failure), said
    return said


# What each kind says


@EACH
def test_an_endpoint_of_every_kind_labels_items(kind: str, server: Server) -> None:
    endpoint = KINDS[kind](server)
    assert endpoint.predict(ITEMS) == LABELS
    assert endpoint.answers([]) == Predicted([])
    assert as_classifier(endpoint) is endpoint
    assert not endpoint.learns


def test_open_inference_gets_one_tensor_or_one_for_each_feature(server: Server) -> None:
    assert oip(server, features=["age", "weight"], input="x", datatype="FP32").predict([{"weight": 1.5, "age": 60}])
    tensor = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [60, 1.5]}
    assert server.seen[-1].path == "/right/v2/models/m/infer"
    assert server.seen[-1].body == {"inputs": [tensor]}
    assert oip(server, features=None).predict([[70], np.array([20.0])]) == ["well", "ill"]
    endpoint = oip(server, features=None, input="*")
    assert endpoint.predict([*ITEMS, {"age": 31.5, "text": "x"}]) == [*LABELS, "ill"]
    age, text = server.seen[-1].body["inputs"]
    assert (age["datatype"], age["shape"], age["data"][-1]) == ("FP64", [5, 1], 31.5)
    assert (text["datatype"], text["data"][0], text["parameters"]) == ("BYTES", "some text", {"content_type": "str"})
    assert endpoint.predict([{"age": True}]) == ["ill"]
    assert server.seen[-1].body["inputs"][0]["datatype"] == "BOOL"
    assert "names" in reason(endpoint, [1.0]).reason


def test_the_output_of_open_inference_is_a_label_or_a_score_for_each_label(server: Server) -> None:
    wire = oip(server, labels=["a", "b", 3], output="p")._wire
    scores = {"name": "p", "shape": [2, 3], "data": [[0.1, 0.7, 0.2], [0.0, 0.0, 1]]}
    told = wire.read({"outputs": [{"name": "other", "data": [1]}, scores]}, 2)
    assert [(each.label, each.confidence) for each in told] == [("b", 0.7), (3, 1.0)]
    (margin,) = wire.read({"outputs": [{"name": "p", "data": [-2.0, 5.0, 1.0]}]}, 1)
    assert (margin.label, margin.confidence) == ("b", None)  # which is no probability
    (one,) = wire.read({"outputs": [{"name": "p", "data": [[3.0]]}]}, 1)
    assert repr(one.label) == "3"  # as it is given
    (bad,) = wire.read({"outputs": [{"name": "p", "data": ["c"]}]}, 1)
    assert bad == Failure("the reply says 'c'; the labels are 'a', 'b', 3", "label")
    (bad,) = wire.read({"outputs": [{"name": "p", "data": [0.5, 0.5]}]}, 1)
    assert "there are 3" in bad.reason


def test_a_language_model_gets_a_prompt_and_its_words_become_a_label(server: Server) -> None:
    assert chat(server).predict(ITEMS) == LABELS  # it says " ill.\n"
    system, user = server.seen[-1].body["messages"]
    assert system["content"].endswith("one of these labels, and nothing else: ill, well")
    assert (user["role"], user["content"].partition("\n")[2]) == ("user", "text: some text")
    assert server.seen[-1].body.keys() == {"model", "messages"}
    asked = chat(server, template="{{age}}: age: {age} {text}", system="Be brief.", max_tokens=5, temperature=0.0)
    assert asked.predict(ITEMS[:1]) == ["ill"]
    assert server.seen[-1].body == {
        "model": "gpt-x",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "{age}: age: 10 some text"},
        ],
        "max_tokens": 5,
        "temperature": 0.0,
    }
    assert chat(server, labels=None, parse=r"(?i)(ILL|WELL)").predict(ITEMS[:1]) == ["ill"]
    assert chat(server, labels=None).predict(["age: 20"]) == ["ill."]  # its words, stripped
    assert chat(server, labels=None, parse="w").predict(["age: 70"]) == ["w"]


def read_by(server: Server, text: Any, **options: Any) -> Any:
    """Return what an endpoint makes of the words of a language model."""
    wire = chat(server, **options)._wire
    (answer,) = wire.read({"choices": [{"message": {"content": text}}]}, 1)
    return answer.label


def test_words_are_read_as_a_label_of_the_list_or_at_a_pointer_or_not_at_all(server: Server) -> None:
    assert read_by(server, ' "SPAM". ', labels=["spam", "ham"]) == "spam"
    assert read_by(server, "2", labels=[1, 2]) == 2
    assert read_by(server, '```json\n{"a": [{"b/c": 7}]}\n```', labels=None, parse="/a/0/b~1c") == 7
    assert read_by(server, '{"label": "x"}', labels=["X"], parse="/label") == "X"
    wrong: dict[str, tuple[Any, dict[str, Any]]] = {
        "the labels are": ("not spam", {"labels": ["spam", "ham"]}),
        "parse finds nothing": ("hello", {"parse": "(x)"}),
        "is not JSON": ("hello", {"parse": "/label"}),
        "has nothing at /label": ('{"l": 1}', {"parse": "/label"}),
        "which is not a label": ('{"label": [1]}', {"parse": "/label"}),
        "in which there is no label": ("  ", {"labels": None}),
        "instead of a text": (None, {}),
    }
    for sentence, (text, options) in wrong.items():
        with pytest.raises(Exception, match=sentence):
            read_by(server, text, **options)


ATTACKS = ["{age.__class__}", "{age!r}", "{age:>1000000}", "{0}", "{age[0]}"]


@pytest.mark.parametrize("template", ATTACKS)
def test_a_template_reaches_nothing_but_features_by_their_whole_name(template: str, server: Server) -> None:
    failure = reason(chat(server, template=template))
    assert (failure.kind, failure.reason) == (
        "item",
        f"an item has no feature {template[1:-1]!r}; it has 'age', 'text'",
    )
    assert not server.seen  # nothing was sent
    item = {template[1:-1]: "age: 3"}
    assert chat(server, template=template).predict([item]) == ["ill"]


def test_the_features_of_a_template_are_put_in_once(server: Server) -> None:
    chat(server, template="{text} age: {age}").predict([{"age": np.int64(10), "text": "{age} {{x}}"}])
    assert server.seen[-1].body["messages"][-1]["content"] == "{age} {{x}} age: 10"


def test_mlflow_gets_records_and_gives_predictions(server: Server) -> None:
    assert mlflow(server, features=["age"]).predict(ITEMS) == LABELS
    assert server.seen[-1].body == {"dataframe_records": [{"age": item["age"]} for item in ITEMS]}
    wire = mlflow(server, reply="/candidates/0")._wire
    assert wire.body([wire.row([1, 2])]).keys() == {"inputs"}
    (answer,) = wire.read([{"candidates": ["a"]}], 1)
    assert answer.label == "a"
    (answer,) = mlflow(server, labels=["a", "b"])._wire.read({"predictions": [[0.2, 0.8]]}, 1)
    assert (answer.label, answer.confidence) == ("b", 0.8)


def test_json_goes_to_pointers_and_comes_from_pointers(server: Server) -> None:
    endpoint = http(server, reply=REPLY)
    assert endpoint.answers(ITEMS) == Predicted(LABELS, [0.75] * 4, [0.004] * 4)
    assert server.seen[-1].path == "/right/model?version=2"
    assert endpoint._wire.row({"a": 1}) is not None
    placed = http(server, request={"/age": "age", "/in/0/t~1x": "text", "/in/0/other": "age"})
    assert placed.predict(ITEMS) == LABELS
    assert {"t/x": "some text", "other": 80} in [seen.body["in"][0] for seen in server.seen if "in" in seen.body]
    inside = http(server, request="/instances/0", hide=["text"])
    assert reason(inside).reason.startswith("the endpoint cannot be reached")  # this server has no age there
    assert server.seen[-1].body == {"instances": [{"age": 10}]}
    wire = http(server, reply=REPLY)._wire
    for bad in ({"sure": 2}, {"sure": "x"}, {"cost": -1}):
        told = {"result": [{"label": "x", "sure": 0.5, "cost": 0.1, **bad}]}
        with pytest.raises(Exception, match=r"a number in \[0, 1\] is needed"):
            wire.read(told, 1)


# What a call costs


def test_tokens_times_prices_are_the_cost_of_an_answer(server: Server) -> None:
    told = chat(server, price_in=2.0, price_out=8.0).answers(ITEMS)  # the server counts 1,000 and 10
    assert told.costs is not None
    assert [*told.costs] == [pytest.approx(0.00208)] * 4
    assert chat(server).answers(ITEMS).costs is None
    assert chat(server, price_in=1e6).answers(ITEMS).costs == [1.0] * 4  # a cost is at most 1
    wire = chat(server, price_in=1.0)._wire
    for usage in (None, "x", {}, {"prompt_tokens": 5}, {"prompt_tokens": -1, "completion_tokens": 1}):
        (answer,) = wire.read({"choices": [{"message": {"content": "ill"}}], "usage": usage}, 1)
        assert answer.cost is None


# What a server does wrong

WRONG = {
    "hangs": ("time", "took longer than 0.3 s"),
    "drips": ("time", "took longer than 0.3 s"),
    "breaks": ("network", "RemoteProtocolError"),
    "closes": ("network", "RemoteProtocolError"),
    "garbage": ("error", "not JSON"),
    "deep": ("error", "not JSON"),
    "empty": ("error", "not JSON"),
    "other": ("error", "nothing at"),
    "coded": ("error", "gzip"),
    "huge": ("error", f"more than {MOST_BYTES:,} bytes"),
    "fails": ("error", "HTTP 503 Service Unavailable"),
    "crashes": ("error", 'HTTP 500 Internal Server Error: {"error": "boom"}'),
    "forbidden": ("error", "HTTP 401 Unauthorized"),
    "moved": ("error", "redirects are not followed"),
}


@EACH
@pytest.mark.parametrize("what", WRONG)
def test_whatever_a_server_does_wrong_is_a_failure_with_its_reason(what: str, kind: str, server: Server) -> None:
    failure = reason(KINDS[kind](server, what, limit_s=QUICK_S if what in ("hangs", "drips") else 20.0))
    known, sentence = WRONG[what]
    assert failure.kind == known
    assert sentence in failure.reason
    assert server.counts[what] == sum(server.counts.values()) == 1  # nothing was tried again, or elsewhere
    assert not failure.wait_s


def test_nobody_behind_an_address_is_a_failure() -> None:
    failure = reason(Endpoint("http:http://127.0.0.1:1/"))
    assert failure.kind == "network"
    assert "ConnectError" in failure.reason


@pytest.mark.parametrize("kind", ["oip", "mlflow"])
def test_fewer_answers_than_items_are_a_failure_for_all_of_them(kind: str, server: Server) -> None:
    told = KINDS[kind](server, "few").answers(ITEMS)
    assert told.labels == [Failure("the reply has 3 answers for 4 items")] * 4


@pytest.mark.parametrize("kind", ["oip", "mlflow"])
def test_one_bad_item_does_not_spoil_the_others_of_its_request(kind: str, server: Server) -> None:
    items = [*ITEMS, {"age": 13, "text": "x"}, {"text": "no age"}]
    *good, bad, missing = KINDS[kind](server, "picky", features=["age"]).answers(items).labels
    assert good == LABELS
    assert bad.reason == 'the endpoint says HTTP 400 Bad Request: {"error": "thirteen"}'
    assert (missing.kind, missing.reason) == ("item", "an item has no feature 'age'; it has 'text'")


UNFIT: list[tuple[str, Any]] = [
    ("oip", {"age": None}),
    ("oip", {"age": float("nan")}),
    ("oip", {"age": "\udcff"}),
    ("oip", {"age": 10**400}),
    ("oip", {"age": [1]}),
    ("mlflow", {"age": object()}),
    ("http", {"age": "\udcff"}),
    ("openai", {"age": object()}),
    ("openai", {"age": "\udcff"}),
]


@pytest.mark.parametrize(("kind", "item"), UNFIT, ids=[f"{kind}-{n}" for n, (kind, _) in enumerate(UNFIT)])
def test_an_item_that_cannot_be_sent_says_nothing_about_the_endpoint(kind: str, item: Any, server: Server) -> None:
    assert reason(KINDS[kind](server), item).kind == "item"
    assert not server.seen


def test_items_that_differ_are_asked_about_alone(server: Server) -> None:
    assert oip(server, features=None, input="*").predict([{"age": 10}, {"age": 60, "weight": 1}]) == ["ill", "well"]
    told = oip(server, features=["age", "text"]).answers([{"age": 10, "text": "x"}])
    assert told.labels == [Failure("input 'input-0' is of FP64, and gets 10, 'x'", "item")]


def test_a_connection_that_the_server_has_closed_is_made_again(server: Server) -> None:
    endpoint = oip(server)
    assert endpoint.predict(ITEMS) == LABELS
    server.close_connections()
    assert endpoint.predict(ITEMS) == LABELS


def test_the_proxies_of_the_environment_are_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    endpoint = Endpoint("http:http://nowhere.invalid/right/model", reply="/result/0/label")
    assert endpoint.predict(ITEMS) == LABELS
    assert {seen.path for seen in server.seen} == {"http://nowhere.invalid/right/model"}


def test_an_address_that_is_too_long_is_an_error_at_once(server: Server) -> None:
    with pytest.raises(ModelError, match="the address cannot be read"):
        http(server, "x" * 70_000)


def test_as_many_requests_as_are_allowed_go_out_at_once() -> None:
    with endpoints(takes_s=0.05) as server:
        http(server, in_flight=7).predict(ITEMS * 8)
        assert server.most_at_once == 7
        oip(server, batch=3).predict([*ITEMS, *ITEMS])
        assert [seen.body["inputs"][0]["shape"][0] for seen in server.seen[-3:]].count(3) == 2


# Back-off


def test_an_endpoint_that_says_when_to_come_back_is_left_alone_until_then(server: Server) -> None:
    server.retry_after, server.times_busy = "1", 1
    endpoint = oip(server, "busy")
    failure = reason(endpoint)
    assert failure.reason == "the endpoint says HTTP 429 Too Many Requests, and asks to retry after 1 s"
    assert (failure.wait_s, failure.kind) == (1.0, "error")
    later = reason(endpoint)
    assert later.reason.startswith("the endpoint accepts no requests for another ")
    assert 0 < later.wait_s <= 1.0
    assert server.counts["busy"] == 1
    time.sleep(1.0)
    assert endpoint.predict(ITEMS[:1]) == ["ill"]


def test_a_retry_after_is_seconds_or_a_date_or_nothing() -> None:
    assert [wait_asked_for(text) for text in ("7", " 0 ", "", "soon", "-3", "1.5", "٣")] == [7.0, 0, 0, 0, 0, 0, 0]
    assert 50 < wait_asked_for(formatdate(time.time() + 60, usegmt=True)) <= 60
    assert wait_asked_for("Fri, 31 Dec 1999 23:59:59 GMT") == 0
    month = 30 * 86_400.0
    assert [wait_asked_for("9" * count) for count in (9, 4_000)] == [month, month]
    assert wait_asked_for("Fri, 31 Dec 9999 23:59:59 GMT") == month


# Secrets


def test_a_token_comes_from_the_environment_and_nobody_sees_it(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OUR_TOKEN", f"{TOKEN}\n")
    caplog.set_level(logging.DEBUG)
    endpoint = oip(server, token_env="OUR_TOKEN", headers={"X-Team": "north"})  # noqa: S106 - the name of a variable
    assert endpoint.predict(ITEMS) == LABELS
    assert server.seen[-1].headers["authorization"] == f"Bearer {TOKEN}"
    assert server.seen[-1].headers["x-team"] == "north"
    echoing = [make(server, what, token_env="OUR_TOKEN") for make in KINDS.values() for what in ("echo", "forbidden")]  # noqa: S106
    said = [reason(each).reason for each in echoing]
    assert {*said} == {"the reply has the token in it, and is not looked at"}
    shown = [repr(endpoint), str(vars(endpoint)), repr(endpoint._secret), *said, caplog.text]
    assert TOKEN not in "".join(shown)
    assert TOKEN.encode() not in pickle.dumps(endpoint)
    monkeypatch.setenv("OUR_TOKEN", "another-one")
    assert pickle.loads(pickle.dumps(endpoint)).predict(ITEMS) == LABELS  # noqa: S301 - our own
    assert server.seen[-1].headers["authorization"] == "Bearer another-one"


def test_a_token_goes_into_another_header_or_has_a_scheme_of_its_own(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_TOKEN", TOKEN)
    oip(server, token_env="OUR_TOKEN", token_header="api-key").predict(ITEMS)  # noqa: S106
    assert server.seen[-1].headers["api-key"] == TOKEN
    assert "authorization" not in server.seen[-1].headers
    monkeypatch.setenv("OUR_TOKEN", f"Basic {TOKEN}")
    endpoint = oip(server, "echo", token_env="OUR_TOKEN")  # noqa: S106
    assert "token" in reason(endpoint).reason
    assert server.seen[-1].headers["authorization"] == f"Basic {TOKEN}"


def test_a_cookie_is_not_kept_and_a_reply_is_not_coded(server: Server) -> None:
    endpoint = oip(server, "cookie")
    assert endpoint.predict(ITEMS) == endpoint.predict(ITEMS) == LABELS
    assert "cookie" not in server.seen[-1].headers
    assert server.seen[-1].headers["accept-encoding"] == "identity"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make certificates with")
def test_a_certificate_is_checked(tmp_path: Path) -> None:
    make = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost"
    make += " -addext subjectAltName=DNS:localhost,IP:127.0.0.1"
    subprocess.run(make.split(), cwd=tmp_path, check=True, capture_output=True)  # noqa: S603 - ours
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    with endpoints(tls=tls) as server:
        model = f"oip:https://127.0.0.1:{server.port}/right/v2/models/m"
        failure = reason(Endpoint(model, features=["age"]))
        assert (failure.kind, "CERTIFICATE_VERIFY_FAILED" in failure.reason) == ("network", True)
        assert Endpoint(model, features=["age"], folder=tmp_path, tls_ca="cert.pem").predict(ITEMS) == LABELS
    with pytest.raises(SettingError, match="tls_ca must be a file with certificates"):
        Endpoint(model, folder=tmp_path, tls_ca="none.pem")


# What may be said about an endpoint

ADDRESS = "http://127.0.0.1:1"
MODELS = {
    "oip:ftp://host/v2": "not an endpoint",
    "files:https://host": "not an endpoint",
    "oip:https://me:hidden@host/v2": "user and password do not belong in an address: use token_env",
    "oip:https://me@host/v2": "user and password",
    "http:https://host/x?API_KEY=hidden": r"\?API_KEY= looks like one",
    "openai:https://host/v1": "name the model behind #",
    "mlflow:https://host/x#y": "without a #",
    "http:https:///x": "HOST",
    "http:https://host:99999/x": "cannot be read",
    "http:https://[x/x": "cannot be read",
    "http:https://ho st/x": "HOST",
}


@pytest.mark.parametrize("model", MODELS)
def test_an_address_that_is_no_good_is_refused_and_shows_no_secret(model: str) -> None:
    with pytest.raises(ModelError, match=MODELS[model]) as found:
        Endpoint(model)
    assert "hidden" not in str(found.value)


OPTIONS: list[tuple[str, str, Any, str]] = [
    ("oip", "template", "{age}", "no value: it is for openai, not for oip"),
    ("openai", "reply", "/x", "no value: it is for http and mlflow"),
    ("oip", "batch", 0, "at least 1"),
    ("http", "in_flight", 10**9, "at most 4,096"),
    ("openai", "price_in", -1.0, "0 or more"),
    ("oip", "datatype", "float", "one of FP64"),
    ("openai", "template", "a { b", "a brace itself is {{ or }}"),
    ("openai", "template", "a {} b", "{} has none"),
    ("openai", "parse", "(", "regular expression"),
    ("openai", "labels", [], "a list of labels"),
    ("openai", "labels", [None], "a list of labels"),
    ("openai", "labels", ["a", "A"], "differ in more than"),
    ("http", "request", "x", "JSON pointer"),
    ("http", "reply", {"confidence": "/x"}, "label"),
    ("http", "reply", {"label": "/x", "price": "/y"}, "label"),
    ("mlflow", "reply", {"label": "/x"}, "a JSON pointer into each prediction"),
    ("http", "headers", {"Authorization": "x"}, "without secrets"),
    ("http", "headers", {"Host": "x"}, "names of headers"),
    ("http", "headers", {"a b": "x"}, "names of headers"),
    ("http", "headers", {"X": "a\r\nb"}, "printable ASCII"),
    ("http", "token_env", "NOT_SET", "the environment variable NOT_SET is not set"),
    ("http", "token_env", "NOT_ASCII", "printable ASCII"),
]


@pytest.mark.parametrize(("kind", "option", "value", "sentence"), OPTIONS, ids=str)
def test_an_option_that_is_no_good_is_named(
    kind: str, option: str, value: Any, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    monkeypatch.setenv("NOT_ASCII", "hidden\nhidden")
    model = f"{kind}:{ADDRESS}/v1" + ("#m" if kind == "openai" else "")
    with pytest.raises(SettingError) as found:
        Endpoint(model, **{option: value})
    assert found.value.setting == option
    assert sentence in str(found.value)
    assert "hidden" not in str(found.value)


def test_a_header_for_a_token_must_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_TOKEN", TOKEN)
    with pytest.raises(SettingError, match="token_header must be the name of a header"):
        Endpoint(f"http:{ADDRESS}/", token_env="OUR_TOKEN", token_header="Content-Length")  # noqa: S106


def test_what_is_missing_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ModelError, match=r"it needs httpx, which is not installed; pip install '\.\[endpoints\]'"):
        load_model(f"http:{ADDRESS}/", Path())


def test_importing_cosend_loads_no_http_client() -> None:
    modules = "cosend, cosend.config.network_file, cosend.site, cosend.runtime.running_site"
    code = f"import sys, {modules}; sys.exit('httpx' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 - our own


# In a site


def test_a_function_beside_a_module_of_the_same_name_is_no_endpoint(tmp_path: Path) -> None:
    (tmp_path / "openai.py").write_text("def young(item):\n    return 1\n")
    assert load_model("openai:young", tmp_path).predict([{}]) == [1]


def test_a_site_asks_endpoints_here_and_now(server: Server) -> None:
    arms = {"right": oip(server), "dead": Endpoint(f"mlflow:{ADDRESS}/invocations"), "lies": http(server, "lies")}
    context = Feature("age", range=(0, 100))
    costs = {"right": 0.01, "lies": 0.01, "dead": 0.01}
    site = Site("north", classifiers=arms, context=context, costs=costs, learnt=False)
    wrong = 0
    for item, truth in zip(ITEMS * 30, LABELS * 30, strict=True):
        decision = site.classify(item)
        assert decision.arm != "dead"
        wrong += decision.label != truth
        site.learn(decision, truth)
    assert wrong < 20
    assert "ConnectError" in site.backing_off()["dead"]
    assert [each.label for each in site.classify_many(ITEMS)] == LABELS
    assert site.predict("right", ITEMS) == LABELS
    with pytest.raises(ClassifierError, match="ConnectError"):
        site.predict("dead", ITEMS)


def test_only_a_choice_is_named_where_others_ask_the_model() -> None:
    arms = {name: load_model(f"return:{name}", Path()) for name in ("large", "small")}
    site = Site("router", classifiers=arms, learnt=False)
    for _ in range(50):
        decision = site.classify({"words": 3})
        assert decision.label == decision.arm
        site.learn(decision, "large")
    assert site.best_model([{"words": 3}]) == ["large"]


def test_a_site_knows_the_labels_of_an_endpoint(server: Server) -> None:
    assert known_labels(chat(server)) == frozenset(LABELS)
    assert known_labels(oip(server)) is None


def test_an_endpoint_alone_that_fails_leaves_no_answer() -> None:
    site = Site("north", classifiers={"dead": Endpoint(f"http:{ADDRESS}/")}, context=Feature("age", range=(0, 100)))
    with pytest.raises(NoAnswer, match="dead: the endpoint cannot be reached"):
        site.classify(ITEMS[0])
    assert answers_of("dead", Endpoint(f"http:{ADDRESS}/"), []).labels == []
