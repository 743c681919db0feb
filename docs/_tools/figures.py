"""Draw the figures of docs/how-it-decides.md, and print its outputs, from the code of that page: `make figures`."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from cosend import Site
from cosend.algorithm.values import ViewForecast
from cosend.charts.figures import Drawing, Look
from cosend.models.adapters import as_classifier

DOCS = Path(__file__).parents[1]
PAGE = DOCS / "how-it-decides.md"
BLOCK = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```\n", flags=re.MULTILINE | re.DOTALL)
INK = {"small": "var(--c0)", "large": "var(--c1)", "partner": "var(--c2)"}
SLICES = {100: 4, 1_000: 16, 3_000: 64}  # by questions: the cells that are drawn
BREAKS = 20, 120  # questions that are drawn before the small model breaks, and after it
LENGTH = 400  # of the longest question
ENOUGH = 3  # labels of a cell that is drawn
WIDE = 420.0


def code() -> list[str]:
    """Return the code of the page, block by block."""
    return [found[1] for found in BLOCK.finditer(PAGE.read_text())]


def done(count: int, questions: int = 3_000) -> tuple[dict[str, Any], list[str]]:
    """Run the first `count` blocks of the page: the names, and what each block prints."""
    names: dict[str, Any] = {"__name__": "page"}
    printed = list[str]()
    for block in code()[:count]:
        with redirect_stdout(io.StringIO()) as out:
            exec(compile(block.replace("range(3_000)", f"range({questions})"), PAGE.name, "exec"), names)  # noqa: S102
        printed.append(out.getvalue())
    return names, printed


def page_with(outputs: list[str]) -> str:
    """Return the page with what its blocks print."""
    rest = iter(outputs)
    return BLOCK.sub(lambda found: f"```python\n{found[1]}```\n\n```text\n{next(rest)}```\n", PAGE.read_text())


def forecasts(site: Site, question: Any) -> list[ViewForecast]:
    """Return what every view forecasts, not yet joined by name."""
    return site.learner.explain(site._points([question])[0])


# The five figures


def cells() -> Drawing:
    """Draw how accurate the local models are by length, in ever finer cells."""
    drawing = Drawing(336, "Accuracy of two models by length of the question, in finer cells over time", width=WIDE)
    left, right, high = 40.0, WIDE - 14.0, 58.0
    _key(drawing, left, 14, ["small", "large"])
    drawing.curve([(right - 132, 10), (right - 116, 10)], "var(--soft)", 1.2, dashed=True)
    drawing.text(right, 14, "how often it is right", "soft", "end")
    for panel, (questions, slices) in enumerate(SLICES.items()):
        bottom = 108.0 + 94.0 * panel
        site: Site = done(1, questions)[0]["desk"]
        number = next(n for n, view in enumerate(site.learner.views()) if view.axes == (1,) and view.slices == slices)
        drawing.text(left, bottom - high - 9, f"{questions:,} questions, {slices} cells", "strong")
        for value in (0.0, 0.5, 1.0):
            drawing.line(left, bottom - value * high, right, bottom - value * high, "grid")
            drawing.text(left - 5, bottom - value * high + 4, f"{100 * value:.0f}%", "soft", "end", size=10)
        for ends in ((1.0, 1 - LENGTH / 600), (0.95, 0.95)):
            line = [(left, bottom - ends[0] * high), (right, bottom - ends[1] * high)]
            drawing.curve(line, "var(--soft)", 1.2, dashed=True)
        for cell in site.learner.cells().values():
            for arm, cost in site.learner.arms.own.items() if cell.view == number else ():
                x1, x2 = (left + (right - left) * (cell.axes[0] + n) / slices for n in (0, 1))
                y = bottom - (cell.estimates[arm].mean_reward + cost) * high
                if cell.estimates[arm].reward_count >= ENOUGH:
                    drawing.curve([(x1 + 0.8, y), (x2 - 0.8, y)], INK[arm], 2.4)
    for n in range(5):
        drawing.text(left + (right - left) * n / 4, bottom + 15, f"{100 * n}", "soft", "end" if n == 4 else "middle")
    drawing.text((left + right) / 2, bottom + 32, "length of the question", "soft", "middle")
    return drawing


def _key(drawing: Drawing, x: float, y: float, names: list[str]) -> None:
    for name in names:
        drawing.dot(x + 4, y - 4, INK[name], 4)
        drawing.text(x + 12, y, name)
        x += 26 + 7 * len(name)


def views() -> Drawing:
    """Draw the forecasts of the views, and their weights."""
    names = done(1)[0]
    why = names["desk"].explain(names["question"])
    rows = [(name, each.view.share, each.forecasts) for name, each in why.views.items()]
    height = 66.0 + 24 * (len(rows) + 1)
    drawing = Drawing(height, "Forecasts of the views for one question, and the weight of each view", width=WIDE)
    left, middle, right = 118.0, 186.0, WIDE - 14.0
    _key(drawing, middle, 14, [*INK])
    drawing.text(left - 8, 34, "view", "strong", "end")
    drawing.text(left, 34, "weight", "strong")
    drawing.text((middle + right) / 2, 34, "expected gain", "strong", "middle")

    def x(gain: float) -> float:
        return middle + 8 + (right - middle - 16) * (gain - 0.4) / 0.6

    base = 46.0 + 24 * (len(rows) + 1)
    for tick in (0.4, 0.6, 0.8, 1.0):
        drawing.line(x(tick), 42, x(tick), base - 2, "grid")
        drawing.text(x(tick), base + 12, f"{100 * tick:.0f}%", "soft", "middle")
    for n, (name, share, gains) in enumerate(rows):
        y = 56.0 + 24 * n
        drawing.text(left - 8, y + 4, name, "", "end")
        drawing.box(left, y - 6, max(1.0, 38 * share / rows[0][1]), 12, Look("var(--c7)"), radius=2)
        drawing.text(left + max(1.0, 38 * share / rows[0][1]) + 4, y + 4, f"{100 * share:.0f}%", "soft", size=10)
        for arm, ink in INK.items():
            drawing.dot(x(gains[arm]), y, ink, 3.4)
    y = 56.0 + 24 * len(rows)
    drawing.line(8, y - 12, right, y - 12)
    drawing.text(left - 8, y + 4, "weighted mean", "strong", "end")
    for arm in why.arms:
        drawing.dot(x(arm.gain), y, INK[arm.name], 5)
    return drawing


def arms() -> Drawing:
    """Draw what each arm is expected to gain, costs, and could gain at best."""
    names = done(1)[0]
    why = names["desk"].explain(names["question"])
    drawing = Drawing(196, "Expected gain, cost and net gain of the arms for one question", width=WIDE)
    left, right = 64.0, WIDE - 20.0

    def x(gain: float) -> float:
        return left + (right - left) * gain

    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        drawing.line(x(tick), 12, x(tick), 140, "grid")
        drawing.text(x(tick), 153, f"{tick:g}", "soft", "middle")
    for n, arm in enumerate(why.arms):
        y, ink = 20.0 + 42 * n, INK[arm.name]
        chosen = arm.name == why.arm
        drawing.text(left - 8, y + 14, arm.name, "strong" if chosen else "", "end")
        drawing.box(x(0), y, x(arm.net) - x(0), 20, Look(ink))
        if arm.cost:
            drawing.box(x(arm.net), y, x(arm.gain) - x(arm.net), 20, Look(ink, 0.28))
        if arm.at_best is not None and arm.at_best - arm.net > 1e-9:
            drawing.curve([(x(arm.at_best), y - 4), (x(arm.at_best), y + 24)], "var(--text)", 2)
        drawing.text(x(0) + 6, y + 14, f"net {arm.net:.3f}", "strong", ink=f"var(--k{ink[7]})")
        if chosen:
            drawing.text(x(0) + 100, y + 14, "chosen", ink=f"var(--k{ink[7]})")
    for at, words, look in ((left, "net gain", Look("var(--c7)")), (left + 92, "cost", Look("var(--c7)", 0.28))):
        drawing.box(at, 172, 11, 11, look, radius=2)
        drawing.text(at + 17, 182, words)
    drawing.curve([(left + 162, 170), (left + 162, 186)], "var(--text)", 2)
    drawing.text(left + 170, 182, "at best: this is compared")
    return drawing


def label() -> Drawing:
    """Draw what happens to one decision, from the item to its late label."""
    names = done(3)[0]
    before, after = names["before"], names["after"]
    drawing = Drawing(
        214, "Timeline of a decision: opinions, the answer, and the late label that scores them", width=WIDE
    )
    now, then, y = 70.0, 318.0, 46.0
    drawing.line(20, y, WIDE - 16, y)
    drawing.dot(now, y, "var(--c7)", 5)
    drawing.dot(then, y, "var(--c3)", 5)
    drawing.curve([(now + 8, y), (then - 8, y)], "var(--c3)", 2, dashed=True)
    drawing.text(now, y - 26, "the question arrives", "strong", "middle")
    drawing.text(now, y - 11, f"decision {names['decision'].id}", "soft", "middle", size=10)
    drawing.text((now + then) / 2, y - 8, "pending, 50 questions", "soft", "middle", size=10)
    drawing.text(then, y - 26, "its label arrives", "strong", "middle")
    drawing.text(then, y - 11, "truth: a", "soft", "middle", size=10)
    told = {
        "small": ('free: says "?"', "wrong"),
        "large": ("not asked", "not scored"),
        "partner": ('answers "a"', "right"),
    }
    for n, (old, new) in enumerate(zip(before.arms, after.arms, strict=True)):
        row, ink = 82.0 + 44 * n, INK[old.name]
        drawing.box(12, row - 16, WIDE - 24, 38, Look("var(--card)"), radius=5)
        drawing.box(12, row - 16, 4, 38, Look(ink), radius=2)
        drawing.text(24, row, old.name, "strong", ink=ink)
        drawing.text(24, row + 14, told[old.name][0], "soft", size=10)
        drawing.text(then, row, told[old.name][1], "strong" if n != 1 else "soft", "middle")
        drawing.text(
            then, row + 14, f"expected {100 * old.gain:.2f}% \u2192 {100 * new.gain:.2f}%", "soft", "middle", 10
        )
    return drawing


def change() -> Drawing:
    """Draw how the forecast for a model follows when it breaks, and which views carry the weight."""
    names = done(1)[0]
    site, question = names["desk"], {**names["question"], "length": 60}
    before, after = BREAKS
    mean, old, short = list[float](), list[float](), list[float]()
    for n in range(-before, after + 1):
        if n == 0:
            site.classifiers["small"] = as_classifier(lambda _: "?")
        said = forecasts(site, question)
        mean.append(sum(each.view.share * each.forecasts["small"] for each in said))
        short.append(sum(each.view.share for each in said if each.view.memory < 1))
        old.append(next(e.forecasts["small"] for e in said if e.view.axes == (0, 1) and e.view.slices == 16))
        another = names["ask"]()
        site.learn(site.classify(another), names["truths"][another["number"]])
    drawing = Drawing(
        252, "The small model breaks: its forecast, and the weight of views with short memory", width=WIDE
    )
    left, right = 40.0, WIDE - 14.0

    def x(n: float) -> float:
        return left + (right - left) * (n + before) / (before + after)

    panels = ((30.0, 108.0, "forecast: the small model is right"), (146.0, 206.0, "weight of the views that forget"))
    for top, bottom, title in panels:
        drawing.text(left, top - 10, title, "strong")
        for value in (0.0, 0.5, 1.0):
            at = bottom - value * (bottom - top)
            drawing.line(left, at, right, at, "grid")
            drawing.text(left - 5, at + 4, f"{100 * value:.0f}%", "soft", "end", size=10)
        drawing.line(x(0), top - 4, x(0), bottom, "turn")
    drawing.text(x(0) + 5, 124, "it breaks", "soft", size=10)
    for values, (top, bottom, _), ink, dashed in (
        (old, panels[0], "var(--c7)", True),
        (mean, panels[0], INK["small"], False),
        (short, panels[1], "var(--c3)", False),
    ):
        points = [(x(n - before), bottom - value * (bottom - top)) for n, value in enumerate(values)]
        drawing.curve(points, ink, 2, dashed)
    drawing.text(right, panels[0][1] - old[-1] * 78 + 16, "the cell of the heaviest view", "soft", "end", size=10)
    drawing.text(right, panels[0][1] - mean[-1] * 78 - 8, "all views together", "", "end", ink=INK["small"], size=10)
    for n in (-20, 0, 40, 80, 120):
        drawing.text(x(n), 221, str(n), "soft", "end" if n == after else "middle")
    drawing.text((left + right) / 2, 238, "questions since the change, each with its label", "soft", "middle")
    return drawing


FIGURES = {"cells": cells, "views": views, "arms": arms, "label": label, "change": change}


def main() -> None:
    """Write the outputs of the page, and its figures."""
    PAGE.write_text(page_with(done(3)[1]))
    for name, draw in FIGURES.items():
        (DOCS / "images" / f"decides-{name}.svg").write_text(draw().standalone())


if __name__ == "__main__":
    main()
