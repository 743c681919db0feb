"""Which arm is used where over the context, in the context's own units: strips on one axis, maps on two.

A colour is a site: its own models are shades of it, and an item that is sent has the colour of the peer it goes to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from cosend.reports.svg import BOLD, WIDTH, Drawing, colour, on_colour, width_of
from cosend.reports.text import counted, short_text

Result: TypeAlias = Mapping[str, Any]
Used: TypeAlias = Mapping[str, Any]  # of one site: arms, owners, cells, counts

MOST_SITES: Final = 12
STRIP: Final = 46.0
ROOM: Final = 22.0  # above a strip, for the name of its site
LEFT: Final = 8.0
SHADES: Final = (1.0, 0.66, 0.42, 0.28)


def has_use(view: Mapping[str, Any]) -> bool:
    """Tell whether there is anything to draw."""
    return any(used["cells"] for used in view["use"].values())


def where(result: Result, view: Mapping[str, Any]) -> list[Drawing]:
    """Draw which arms a policy uses where: one figure of strips, or a map for each site."""
    sites = [name for name in result["sites"] if view["use"][name]["cells"]][:MOST_SITES]
    if len(result["axes"]) == 1:
        return [_strips(result, view["use"], sites)]
    a, b = two_axes(result, view["use"])
    return [_map(result, view["use"][name], name, a, b) for name in sites]


def looks(result: Result, used: Used) -> list[tuple[str, float]]:
    """Return colour and opacity of every arm of a site."""
    seen: Counter[str] = Counter()
    found = []
    for owner in used["owners"]:
        found.append((colour(result["sites"].index(owner)), SHADES[min(seen[owner], len(SHADES) - 1)]))
        seen[owner] += 1
    return found


def arm_name(used: Used, site: str, arm: int) -> str:
    """Return what an arm is called in a figure: a model, or where an item goes."""
    owner, name = used["owners"][arm], str(used["arms"][arm])
    if owner != site:
        return f"\N{RIGHTWARDS ARROW} {owner}"
    return name.removeprefix(f"{site}_").removeprefix(f"{site}-") or name  # the site's name stands beside it anyway


def _strips(result: Result, use: Mapping[str, Used], sites: Sequence[str]) -> Drawing:
    axis = result["axes"][0]
    bins, wide = axis["bins"], WIDTH - 2 * LEFT
    drawing = Drawing((STRIP + ROOM) * len(sites) + 40, f"Which arm is used at which {axis['name']}")
    for row, site in enumerate(sites):
        top = row * (STRIP + ROOM) + ROOM
        drawing.text(LEFT, top - 7, site, kind="strong")
        drawing.box(LEFT, top, wide, STRIP, "var(--grid)", round_by=3)
        for cell, counts in zip(use[site]["cells"], use[site]["counts"], strict=True):
            x = LEFT + wide * cell[0] / bins
            _stack(drawing, (x, top, wide / bins), counts, result, use[site], site)
        _names_of_runs(drawing, result, use[site], site, top)
    _axis_below(drawing, axis, (STRIP + ROOM) * len(sites) + 2)
    return drawing


def _stack(
    drawing: Drawing, place: tuple[float, float, float], counts: Sequence[int], result: Result, used: Used, site: str
) -> None:
    """Draw the shares of all arms in one bin, the most used one at the bottom."""
    x, top, width = place
    total, base = sum(counts), top + STRIP
    inks = looks(result, used)
    for arm in sorted(range(len(counts)), key=lambda arm: -counts[arm]):
        if counts[arm]:
            height = STRIP * counts[arm] / total
            base -= height
            tip = f"{arm_name(used, site, arm)}: {counts[arm]} of {counted(total, 'item')}"
            drawing.box(x, base, width + 0.15, height, inks[arm][0], opacity=inks[arm][1], tip=tip)


def _names_of_runs(drawing: Drawing, result: Result, used: Used, site: str, top: float) -> None:
    """Write the name of the most used arm into every stretch of bins where there is room for it."""
    bins = result["axes"][0]["bins"]
    best = {
        cell[0]: max(range(len(c)), key=c.__getitem__) for cell, c in zip(used["cells"], used["counts"], strict=True)
    }
    inks = looks(result, used)
    start = 0
    for place in range(1, bins + 1):
        if place < bins and best.get(place) == best.get(start):
            continue
        width, arm = (WIDTH - 2 * LEFT) * (place - start) / bins, best.get(start)
        if arm is not None:
            name = arm_name(used, site, arm)
            text = name if width_of(name, bold=True) <= width - 4 else _shorter(name, width - 4)
            x = LEFT + (WIDTH - 2 * LEFT) * (start + place) / 2 / bins
            owner = result["sites"].index(used["owners"][arm])
            ink = on_colour(owner) if inks[arm][1] == 1.0 else ""
            drawing.text(x, top + STRIP / 2 + 8, text, anchor="middle", kind="strong", ink=ink)
        start = place


def _shorter(name: str, width: float) -> str:
    letters = int(width / BOLD)
    return short_text(name, letters) if letters >= 4 else ""


def _axis_below(drawing: Drawing, axis: Mapping[str, Any], top: float) -> None:
    wide = WIDTH - 2 * LEFT
    for place, words in axis["ticks"]:
        x = LEFT + wide * place / axis["bins"]
        anchor = "start" if x < 20 else "end" if x > WIDTH - 20 else "middle"
        if not axis["words"]:
            drawing.line(x, top - 2, x, top + 2)
        drawing.text(x, top + 14, words, kind="soft", anchor=anchor)
    drawing.text(WIDTH / 2, top + 31, axis["name"], anchor="middle", kind="soft")


def two_axes(result: Result, use: Mapping[str, Used]) -> tuple[int, int]:
    """Return the axes to draw: those over whose bins the items spread most."""
    spread = []
    for axis in range(len(result["axes"])):
        items: Counter[int] = Counter()
        for used in use.values():
            for cell, counts in zip(used["cells"], used["counts"], strict=True):
                items[cell[axis]] += sum(counts)
        total = items.total() or 1
        spread.append((sum((count / total) ** 2 for count in items.values()), axis))
    a, b = sorted(axis for _, axis in sorted(spread)[:2])
    return a, b


def _map(result: Result, used: Used, site: str, a: int, b: int) -> Drawing:
    """Draw for one site the most used arm at every place of two axes; several cells at one place are added up."""
    across, up = result["axes"][a], result["axes"][b]
    left, top, side = 66.0, 40.0, 280.0
    drawing = Drawing(top + side + 62 + 15 * (len(used["arms"]) // 2), f"Which arm {site} uses where")
    drawing.text(4, 13, site, kind="strong")
    drawing.box(left, top, side, side, "var(--grid)", round_by=3)
    votes: dict[tuple[int, int], Counter[int]] = {}
    for cell, counts in zip(used["cells"], used["counts"], strict=True):
        votes.setdefault((cell[a], cell[b]), Counter()).update(dict(enumerate(counts)))
    inks, width, height = looks(result, used), side / across["bins"], side / up["bins"]
    for (x, y), count in votes.items():
        arm, times = count.most_common(1)[0]
        tip = f"{arm_name(used, site, arm)}: {times} of {counted(count.total(), 'item')}"
        place = (left + x * width, top + side - (y + 1) * height, width + 0.15, height + 0.15)
        drawing.box(*place, inks[arm][0], opacity=inks[arm][1], tip=tip)
    for place_on_axis, words in across["ticks"]:
        drawing.text(left + place_on_axis * width, top + side + 14, short_text(words, 9), anchor="middle", kind="soft")
    for place_on_axis, words in up["ticks"]:
        drawing.text(
            left - 5, top + side - place_on_axis * height + 4, short_text(words, 10), anchor="end", kind="soft"
        )
    drawing.text(left + side / 2, top + side + 30, across["name"], anchor="middle", kind="soft")
    drawing.text(left - 5, top - 6, up["name"], anchor="end", kind="soft")
    _legend(drawing, used, site, inks, sorted({c.most_common(1)[0][0] for c in votes.values()}), top + side + 50)
    return drawing


def _legend(
    drawing: Drawing, used: Used, site: str, inks: Sequence[tuple[str, float]], arms: Sequence[int], top: float
) -> None:
    for n, arm in enumerate(arms):
        x, y = LEFT + (n % 2) * WIDTH / 2, top + 15 * (n // 2)
        drawing.box(x, y - 9, 11, 11, inks[arm][0], opacity=inks[arm][1], round_by=2)
        drawing.text(x + 17, y, short_text(arm_name(used, site, arm), 26))
