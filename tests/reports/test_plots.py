from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from cosend.errors import CosendError
from cosend.reports import plots
from tests.reports import POLICIES, SITES, made_up

pytestmark = pytest.mark.compiled

if TYPE_CHECKING:
    from matplotlib.legend import Legend

ALL = (plots.error_over_time, plots.phases_over_time, plots.winners, plots.flows)


def texts(legend: Legend) -> list[str]:
    return [text.get_text() for text in legend.get_texts()]


def written(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_error_has_a_line_per_policy_with_its_numbers() -> None:
    result = made_up()
    figure = plots.error_over_time(result)
    (axes,) = figure.axes
    assert len(axes.lines) == len(POLICIES)
    for line, curve in zip(axes.lines, result["error_curves"].values(), strict=True):
        assert np.asarray(line.get_xdata()).tolist() == curve["item"]
        assert np.asarray(line.get_ydata()).tolist() == curve["error"]
    assert "%" in axes.get_ylabel()
    assert "items" in axes.get_xlabel()


def test_error_legend_names_every_policy_from_the_highest_line_to_the_lowest() -> None:
    names = [text.split(" (")[0] for text in texts(plots.error_over_time(made_up()).legends[0])]
    assert names == list(reversed(POLICIES))


def test_lines_differ_without_colour() -> None:
    policies = tuple(f"policy {k}" for k in range(40))
    lines: list[Any] = list(plots.error_over_time(made_up(policies=policies)).axes[0].lines)
    looks = {(repr(line._dash_pattern), line.get_marker()) for line in lines}
    assert len(looks) == len(policies)


def test_error_axis_is_logarithmic_only_if_the_policies_end_far_apart() -> None:
    assert plots.error_over_time(made_up()).axes[0].get_yscale() == "log"
    assert plots.error_over_time(made_up(policies=("cos", "near"))).axes[0].get_yscale() == "linear"


def test_an_error_of_zero_can_be_drawn() -> None:
    result = made_up(policies=("cos",))
    result["error_curves"]["cos"] = {"item": [1], "error": [0.0]}
    assert plots.png(plots.error_over_time(result))


def test_a_log_axis_shows_a_curve_that_starts_at_zero() -> None:
    result = made_up()
    result["error_curves"]["cos"]["error"][:5] = [0.0] * 5
    figure = plots.error_over_time(result)
    assert figure.axes[0].get_ylim()[0] > 0
    assert plots.png(figure)


def test_phases_have_a_panel_per_site_with_three_areas() -> None:
    figure = plots.phases_over_time(made_up())
    assert [axes.get_title() for axes in figure.axes] == list(SITES)
    assert {len(axes.collections) for axes in figure.axes} == {3}
    assert [text.split(":")[0] for text in texts(figure.legends[0])] == ["training", "exploration", "exploitation"]


def test_phases_of_an_odd_number_of_sites_leave_a_panel_empty() -> None:
    figure = plots.phases_over_time(made_up(sites=("a", "b", "c")))
    assert [axes.get_visible() for axes in figure.axes] == [True, True, True, False]


def test_phases_of_a_single_bin_fill_the_panel() -> None:
    result = made_up(sites=("solo",))
    result["phases"]["solo"] = {"item": [50], "train": [10.0], "explore": [20.0], "exploit": [70.0]}
    (axes,) = plots.phases_over_time(result).axes
    assert axes.get_xlim() == (0, 100)
    assert axes.collections[0].get_paths()[0].get_extents().width == 100


def test_winners_on_one_axis_are_a_row_per_site_with_letter_and_arrivals() -> None:
    result = made_up()
    figure = plots.winners(result)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == list(SITES)
    assert axes.get_xlabel() == "slice of previous_label (number)"
    assert len(axes.texts) == sum(len(won["cells"]) for won in result["winners"].values())
    assert axes.texts[0].get_text() == "A\n1"
    assert texts(figure.legends[0])[:3] == ["A  classifier_0", "B  classifier_1", "C  send to south"]


def test_winners_on_two_axes_are_a_map_per_site() -> None:
    result = made_up(context=("previous_label", "src_bytes"))
    figure = plots.winners(result)
    assert [axes.get_title() for axes in figure.axes] == list(SITES)
    assert [len(axes.texts) for axes in figure.axes] == [len(won["cells"]) for won in result["winners"].values()]
    assert figure.axes[2].get_xlabel() == "slice of previous_label (number)"
    assert figure.axes[2].get_ylabel() == "slice of src_bytes (number)"


def test_winners_on_three_axes_show_the_two_most_visited_and_say_so() -> None:
    result = made_up(sites=("solo",), context=("x", "y", "z"))
    result["winners"]["solo"] = {
        "arms": ["often", "seldom"],
        "cells": [[0, 5, 0], [1, 5, 3], [1, 4, 3]],
        "best": [0, 0, 1],
        "arrivals": [50, 40, 1],
    }
    figure = plots.winners(result)
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("slice of x (number)", "slice of z (number)")
    assert "two most visited of 3 axes" in figure.get_suptitle().replace("\n", " ")
    assert written(figure) == ["A", "A"]  # the cell of one item lies behind the cell of forty


def test_winners_of_many_cells_have_colours_only() -> None:
    assert written(plots.winners(made_up(slices=50))) == []


def test_flows_have_every_share_and_the_names() -> None:
    result = made_up()
    axes = plots.flows(result).axes[0]
    assert [text.get_text() for text in axes.texts] == [f"{x:.1f}" for row in result["flows"]["percent"] for x in row]
    assert [label.get_text() for label in axes.get_xticklabels()] == list(SITES)
    assert [label.get_text() for label in axes.get_yticklabels()] == list(SITES)


@pytest.mark.parametrize("plot", ALL)
def test_odd_names_can_be_drawn(plot: plots.Plot) -> None:
    odd = ("_hidden", "$x^2", "cost $5 $6", "北京", "a" * 80, "")
    assert plots.png(plot(made_up(sites=odd, policies=odd, context=("$x$", "_y"), slices=3)))


@pytest.mark.parametrize("plot", ALL)
def test_many_sites_and_policies_can_be_drawn(plot: plots.Plot) -> None:
    names = tuple(f"site {k}" for k in range(30))
    assert plots.png(plot(made_up(sites=names, policies=names, slices=3)))


def test_an_underscore_hides_no_policy_from_the_legend() -> None:
    assert texts(plots.error_over_time(made_up(policies=("_cos",))).legends[0]) == ["_cos (0.74 %)"]


def test_sites_that_get_no_panel_are_announced() -> None:
    names = tuple(f"site {k}" for k in range(30))
    figure = plots.phases_over_time(made_up(sites=names))
    assert [text.get_text() for text in figure.texts if "first" in text.get_text()] == ["the first 24 of 30 sites"]


@pytest.mark.parametrize("plot", ALL)
def test_without_matplotlib_a_plot_says_what_to_install(plot: plots.Plot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(CosendError, match=r"pip install 'cosend\[reports\]'"):
        plot(made_up())


def test_importing_the_page_imports_no_matplotlib() -> None:
    code = "import sys, cosend.reports.page; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603  # a fixed command
