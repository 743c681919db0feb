"""From a network file to what it stands for: models of every kind, made once, and what is wrong by its key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosend import CoS, ZoomingKLUCB
from cosend.axes import Feature, PreviousLabel
from cosend.config.build import Built, needed_stream, read_stream
from cosend.config.network_file import NetworkFile, load
from cosend.errors import ClassifierError, NetworkFileError, SettingError, StreamError
from cosend.models.adapters import RunsElsewhere, SeesAllBut
from cosend.models.built_in import Coded, Said
from cosend.testing import ClassifierConformance
from tests.classifiers import models

ROWS = 120
HEAD = '[[context]]\nfeature = "age"\nrange = [0, 100]\n'
STREAM = '[stream]\nkind = "file"\npath = "visits.csv"\nlabel = "ill"\ntraining = 60\n'
MODULE = """
from river.naive_bayes import GaussianNB

loaded = []

def young(item):
    return sorted(item)

def nb():
    loaded.append("nb")
    return GaussianNB()
"""


def write_rows(folder: Path) -> None:
    """Write visits with a text column, a site, and what a model said."""
    lines = ["age,sex,pressure,where,said,ill"]
    for n in range(ROWS):
        age, sex = 7 * n % 100, "fm"[n % 2]
        where = "north" if n % 3 or n >= 60 else "south"
        lines.append(f"{age},{sex},{100 + n % 50},{where},{int(age > 40)},{int(age > 50 or sex == 'm')}")
    (folder / "visits.csv").write_text("\n".join(lines) + "\n")


def file_of(
    folder: Path, *classifiers: str, head: str = HEAD, stream: str = STREAM, more: str = ""
) -> tuple[NetworkFile, Path]:
    """Write a network of one site, its rows and its module, and load it."""
    write_rows(folder)
    (folder / "models.py").write_text(MODULE)
    arms = "".join(f'[[sites.classifiers]]\nname = "c{n}"\n{each}\n' for n, each in enumerate(classifiers))
    (folder / "network.toml").write_text(f'{stream}{head}[[sites]]\nname = "north"\n{more}\n{arms}')
    return load(folder / "network.toml")


def built_of(folder: Path, *classifiers: str, **options: str) -> Built:
    network, place = file_of(folder, *classifiers, **options)
    return Built(network, place, None if network.stream is None else read_stream(network, place))


def make_all(folder: Path, *classifiers: str, **options: str) -> None:
    built = built_of(folder, *classifiers, **options)
    built.classifiers()
    built.site("north")


def mistakes_of(folder: Path, *classifiers: str, **options: str) -> list[str]:
    with pytest.raises(NetworkFileError) as raised:
        make_all(folder, *classifiers, **options)
    return raised.value.mistakes


def test_what_a_site_learns_itself_is_named_in_the_file_or_there_unless_it_shall_not_be(tmp_path: Path) -> None:
    young = 'model = "models:young"'

    def learnt(*named: str, more: str = "", head: str = HEAD) -> dict[str, str]:
        network, place = file_of(tmp_path, young, *named, head=head, stream="", more=more)
        kinds = Built(network, place, None).site("north").engine.state.learnt.kinds
        return {name: kind.value for name, kind in kinds.items()}

    both, policy = {"grown": "grown", "stack": "stack"}, HEAD + '[policy]\nname = "ZoomingKLUCB"\n'
    assert learnt() == learnt(more="learnt = true") == both
    assert learnt(more="learnt = false") == learnt(head=policy) == learnt(more='score_local = "used"') == {}
    assert learnt(more="learnt = true", head=policy) == both
    assert learnt('model = "stack"') == {"c1": "stack", "grown": "grown"}
    assert learnt('model = "stack"', 'model = "grown"', head=policy) == {"c1": "stack", "c2": "grown"}
    assert learnt('model = "grown"', more="learnt = false") == {"c1": "grown"}


def test_a_model_with_the_name_of_what_a_site_learns_itself_needs_another_one(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(MODULE)
    text = '[[sites]]\nname = "north"\n{}[[sites.classifiers]]\nname = "stack"\nmodel = "models:young"\n'
    (tmp_path / "network.toml").write_text(text.format(""))
    with pytest.raises(NetworkFileError) as raised:
        load(tmp_path / "network.toml")
    (said,) = raised.value.mistakes
    assert said.startswith("sites.1.learnt: site 'north' has a model 'stack', which is the name of one that it learns")
    assert said.endswith("or set learnt = false")
    (tmp_path / "network.toml").write_text(text.format("learnt = false\n"))
    network, place = load(tmp_path / "network.toml")
    assert Built(network, place, None).site("north").engine.state.learnt.kinds == {}


def test_a_model_sees_neither_what_is_hidden_nor_columns_for_contexts_nor_what_others_said(tmp_path: Path) -> None:
    built = built_of(
        tmp_path,
        'model = "models:young"',
        'model = "column:said"',
        'model = "tree"\ntrain = [0, 60]',
        'model = "models:young"\nfeatures = ["sex"]',
        head=HEAD + "hidden = true\n",
        stream=STREAM + 'contexts = ["where"]\n',
    )
    young, said, tree, narrow = built.classifiers("north").values()
    assert isinstance(young, SeesAllBut)
    assert isinstance(said, Said)
    assert isinstance(tree, Coded)
    assert tree.features == ["sex", "pressure"]
    rows = [item for item, _ in read_stream(built.network, built.folder).rows()]
    assert young.predict(rows[:1]) == [["pressure", "sex"]]
    assert narrow.predict(rows[:1]) == [["sex"]]
    assert said.predict(rows[:20]) == [int(row["age"] > 40) for row in rows[:20]]


def test_a_model_by_name_takes_items_as_it_took_the_rows_of_the_stream(tmp_path: Path) -> None:
    built = built_of(tmp_path, 'model = "tree"\ntrain = [0, 60]', 'model = "always"\nlabel = 1')
    tree, always = built.classifiers("north").values()
    table = read_stream(built.network, built.folder)
    rows = [item for item, _ in table.rows()]
    assert isinstance(tree, Coded)
    assert tree.predict(rows) == tree.predict_sure(rows).labels
    assert tree.predict_sure(rows) == tree.predict_rows(table.matrix())
    assert np.mean(np.array(tree.predict(rows)) == table.labels) > 0.8
    assert always.predict(rows[:3]) == [1, 1, 1]
    for bad, words in (
        ({**rows[0], "sex": "x"}, "feature 'sex' must be one of 'f', 'm'"),
        ({**rows[0], "age": "old"}, "feature 'age' must be a number"),
        ({"age": 3}, "no feature 'sex'"),
    ):
        with pytest.raises(ClassifierError, match=words):
            tree.predict([bad])


class TestCoded(ClassifierConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def classifier(self) -> Any:
        return built_of(self.folder, 'model = "tree"\ntrain = [0, 60]').classifiers("north")["c0"]

    def items(self) -> list[Any]:
        return [{"age": n, "sex": "f", "pressure": 110, "said": 1, "where": "north"} for n in range(0, 100, 9)]


def test_own_rows_are_those_that_arrived_at_the_site(tmp_path: Path) -> None:
    """North has the rows that are no multiple of three: the tree is the one that was trained on these alone."""
    site = STREAM + 'site = "where"\n'
    own = built_of(tmp_path, 'model = "tree"\ntrain_on = "own"\nfeatures = ["pressure"]', stream=site)
    rows = [item for item, _ in read_stream(own.network, own.folder).rows()]
    table = own.table
    assert table is not None
    mine = [n for n in range(60) if n % 3]
    fitted = models.DecisionTree(criterion="entropy", random_state=0).fit(
        [[rows[n]["pressure"]] for n in mine], table.labels[mine]
    )
    said = fitted.predict([[row["pressure"]] for row in rows]).tolist()
    assert own.classifiers("north")["c0"].predict(rows) == said
    every = built_of(tmp_path, 'model = "tree"\ntrain = [0, 60]\nfeatures = ["pressure"]', stream=site)
    assert every.classifiers("north")["c0"].predict(rows) != said


# what is wrong -> (classifiers, head, stream, what each mistake must begin with and hold)
BAD: dict[str, tuple[list[str], str, str, list[tuple[str, str]]]] = {
    "a column that is not there": (
        ['model = "column:z"'], HEAD, STREAM, [("sites.1.classifiers.1.model: ", "no such context column")]
    ),
    "labels that the file does not name": (
        ['model = "models:young"'], HEAD, 'labels = [1, 2]\n' + STREAM, [("labels: ", "the stream has 0 too")]
    ),
    "own rows without sites": (
        ['model = "tree"\ntrain_on = "own"'], HEAD, STREAM, [("sites.1.classifiers.1.train_on: ", "stream.site")]
    ),
    "own rows that are none": (
        ['model = "tree"\ntrain_on = "own"\ntrain = [0, 1]'], HEAD,
        STREAM.replace("60", "1").replace("label", 'site = "where"\nlabel') + "items = 2\n",
        [("sites.1.classifiers.1.train_on: ", "of site 'north'")],
    ),
    "training without a stream": (
        ['model = "tree"\ntrain = [0, 9]'], HEAD, "", [("sites.1.classifiers.1.model: 'tree': ", "--stream FILE")]
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_named_with_its_key(case: str, tmp_path: Path) -> None:
    classifiers, head, stream, expected = BAD[case]
    found = mistakes_of(tmp_path, *classifiers, head=head, stream=stream)
    assert len(found) == len(expected)
    for mistake, (start, word) in zip(found, expected, strict=True):
        assert mistake.startswith(start), mistake
        assert word in mistake, mistake


def test_a_site_is_made_as_the_file_says(tmp_path: Path) -> None:
    head = (
        'seed = 5\nretries = 1\nlabels = [0, 1]\n[patience]\nwait_limit = 9\n[policy]\nname = "CoS"\n'
        '[[context]]\nkind = "previous_label"\n'
    )
    built = built_of(tmp_path, 'model = "models:nb"\ncost = 0.5', head=head, stream="")
    log: list[Any] = []
    site = built.site("north", journal=log.append)
    assert site.learner.policy == built.policy == CoS()
    assert site.learner.patience == built.network.patience
    assert (site.learner.seed, site.engine.retries, site.engine.learns_from) == (5, 1, "all")
    assert site.learner.arms.own == {"c0": 0.5}
    assert built.axes == [PreviousLabel(0, 1)]
    assert built.peers("north") == {}
    assert len(log) == 1
    assert built.site("north", policy=ZoomingKLUCB()).learner.policy == ZoomingKLUCB()
    assert site.score_local == "used"
    with pytest.raises(SettingError, match="site must be one of north, got 'west'"):
        built.classifiers("west")


@pytest.mark.parametrize(
    ("classifier", "head", "needed"),
    [
        ('model = "models:young"', HEAD, False),
        ('model = "tree"\ntrain = [0, 9]', HEAD, True),
        ('model = "models:young"', '[[context]]\nkind = "previous_label"\n', True),
        ('model = "models:young"', '[[context]]\nkind = "time"\n', True),
        ('model = "models:young"', '[[context]]\nkind = "time"\nhorizon = 9\n', False),
        ('model = "models:young"', HEAD + '[policy]\nname = "CoS"\n', True),
    ],
)
def test_the_stream_is_read_for_a_service_only_if_something_in_it_is_needed(
    tmp_path: Path, classifier: str, head: str, needed: bool
) -> None:
    network, folder = file_of(tmp_path, classifier, head=head)
    assert (needed_stream(network, folder) is not None) == needed
    assert (needed_stream(network, folder, "north") is not None) == needed
    if not needed:
        (folder / "visits.csv").unlink()
        Built(network, folder, needed_stream(network, folder)).classifiers()


def test_a_file_whose_rows_all_train_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StreamError, match="all of its 120 rows are for training"):
        built_of(tmp_path, 'model = "models:young"', stream=STREAM.replace("60", "120"))


def test_the_horizon_is_the_number_of_items_at_the_busiest_site(tmp_path: Path) -> None:
    head = HEAD + '[policy]\nname = "CoS"\n'
    assert built_of(tmp_path, 'model = "models:young"', head=head).policy == CoS(horizon=60)
    here = STREAM.replace("training = 60", 'training = 0\nsite = "where"').replace("visits", "north")
    write_rows(tmp_path)
    rows = (tmp_path / "visits.csv").read_text()
    (tmp_path / "north.csv").write_text(rows.replace("south", "north"))
    assert built_of(tmp_path, 'model = "models:young"', head=head, stream=here).horizon == ROWS


WORKERS = """
[[context]]
feature = "age"
range = [0, 100]
[[sites]]
name = "north"
[[sites.classifiers]]
name = "forest"
model = "models:forest"
workers = true
[[sites.classifiers]]
name = "near"
model = "models:near"
"""


def test_models_that_workers_run_are_not_loaded_by_the_site_itself(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text("def near(item): return 1\n")
    (tmp_path / "network.toml").write_text(WORKERS)
    network, folder = load(tmp_path / "network.toml")
    here = Built(network, folder).classifiers_here("north")
    assert list(here) == ["forest", "near"]
    assert isinstance(here["forest"], RunsElsewhere)
    assert here["near"].predict([1]) == [1]
    with pytest.raises(NetworkFileError, match=r"sites\.1\.classifiers\.1\.model"):
        Built(network, folder).classifiers_for_workers("north", ["forest"])
    learns = "class Learns:\n def predict_one(self, item): return 1\n def learn_one(self, item, label): pass\n"
    (tmp_path / "more.py").write_text(f"{learns}forest = near = Learns()\n")
    (tmp_path / "network.toml").write_text(WORKERS.replace("models:", "more:"))
    network, folder = load(tmp_path / "network.toml")
    with pytest.raises(NetworkFileError, match=r"sites\.1\.classifiers\.1\.workers: workers must be false for a model"):
        Built(network, folder).classifiers()


def test_a_feature_that_is_shared_or_withheld_must_be_one_of_the_stream(tmp_path: Path) -> None:
    more = 'shares = ["age", "sexx"]\nwithholds = ["preasure"]'
    found = mistakes_of(tmp_path, 'model = "models:young"', more=more)
    has = "it has 'age', 'pressure', 'said', 'sex', 'where'"
    assert found == [
        f"sites.1.shares: the stream has no column 'sexx'; {has}",
        f"sites.1.withholds: the stream has no column 'preasure'; {has}",
    ]


def test_a_site_of_a_file_keeps_back_what_the_file_says(tmp_path: Path) -> None:
    more = 'shares = ["age"]\nwithholds = ["sex"]\nshare_labels = "never"'
    site = built_of(tmp_path, 'model = "models:young"', 'model = "column:said"', head="", more=more).site("north")
    assert site.engine.sharing.shares == ("age", "said")  # what stands in place of a model is no feature
    assert site.engine.sharing.withholds == ("sex",)
    assert site.learner.policy.share_labels == "never"
    assert built_of(tmp_path, 'model = "models:young"').site("north").engine.told_axes is None


def test_a_number_of_a_text_is_an_axis_in_a_file(tmp_path: Path) -> None:
    head = '[[context]]\nfeature = "sex"\nof = "length"\n'
    network, _ = file_of(tmp_path, 'model = "models:young"', head=head)
    (axis,) = network.context
    assert axis.title == "sex: length"
    assert axis.build([], None) == Feature("sex", of="length")
