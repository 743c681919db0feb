"""Gradient boosting: trees that are fitted to labelled items, and what they say of an item.

Each round adds a tree per class (one for two classes) to the scores whose softmax are the probabilities. A tree grows
leaf by leaf where the gain is largest. The values of an item are cut into bins at quantiles of the items of the fit;
missing values have a bin of their own and go to the side where they gain more. Everything is plain arithmetic in a
fixed order, so the same items give the same trees, bit for bit.

Trees are small or large. Large ones find what small ones miss, and where labels are noisy they learn the noise. Which
of them suit the items is not known in advance: with enough items both are fitted to some of the newest, and the size
that forecasts what came after them better is fitted to all.

    gain of a split     GL^2 / HL + GR^2 / HR - G^2 / H        G, H: sums of gradients and of curvatures
    value of a leaf     STEP * G / H                           gradient y - p, curvature p (1 - p)
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from cosend.algorithm.layout import Floats, Ints
from cosend.compiled import compiled, compiled_beside, entry_point

Values: TypeAlias = npt.NDArray[np.float32]  # [item, axis]: not a number where one is missing
Bins: TypeAlias = npt.NDArray[np.uint8]  # [item, axis]

Nodes: TypeAlias = npt.NDArray[np.int32]

BINS: Final = 64  # of each value
MISSING_BIN: Final = BINS
ROUNDS: Final = 60
MOST_TREES: Final = 3_000  # with very many classes there are fewer rounds
STEP: Final = 0.1
LEAST_CURVATURE: Final = 1e-3  # of a leaf
LEAST_GAIN: Final = 1e-9

COMPARED_FROM: Final = 1_000  # items; with fewer, trees are small
COMPARED: Final = 2_500  # items at most, the newest, compare the sizes,
NEWEST_PART: Final = 5  # of which a fifth, the newest, are forecast
MOST_AXES: Final = 100  # of large trees, for which there are sums of every node, axis and bin
MOST_CLASSES: Final = 10  # of large trees: with more, a fit would take too long
LEAST_CHANCE: Final = 0.001  # of the true class, when sizes are compared

# Columns of a node.
AXIS: Final = 0  # NO_AXIS: it is a leaf
THRESHOLD: Final = 1  # the last bin that goes left
MISSING_LEFT: Final = 2
LEFT: Final = 3  # the number of the left child; the right one is next
NODE_COLUMNS: Final = 4
NO_AXIS: Final = -1
# Sums of a bin.
GRADIENT: Final = 0
CURVATURE: Final = 1
COUNT: Final = 2


class Size(NamedTuple):
    """How far trees are grown."""

    leaves: int
    least_items: int  # in a leaf

    @property
    def nodes(self) -> int:
        return 2 * self.leaves - 1


SMALL: Final = Size(15, 20)
LARGE: Final = Size(63, 10)


class Trees(NamedTuple):
    """A fitted model."""

    nodes: Nodes  # [tree, node, column]
    values: Floats  # [tree, node]: what a leaf adds to the score of its class
    first: Floats  # [class]: scores before the first tree
    edges: Floats  # [axis, BINS - 1]: where a value enters the next bin; infinite where there are fewer

    @property
    def is_sound(self) -> bool:
        """Whether every index in it is one: compiled code does not look."""
        nodes, leaves, first, edges = self
        count, outputs = len(nodes), len(first)
        size = nodes.shape[1] if nodes.ndim == 3 else 0
        shapes = size > 0 and nodes.shape == (count, size, NODE_COLUMNS) and leaves.shape == (count, size)
        shapes = shapes and outputs > 0
        if not (shapes and first.ndim == 1 and not count % outputs):
            return False
        if not (edges.shape[1:] == (BINS - 1,) and len(edges)):
            return False
        if not all(part.dtype == np.float64 for part in (leaves, first, edges)) or nodes.dtype != np.int32:
            return False
        inner = nodes[nodes[:, :, AXIS] != NO_AXIS]
        own = np.broadcast_to(np.arange(size), nodes.shape[:2])[nodes[:, :, AXIS] != NO_AXIS]
        axes = (inner[:, AXIS] >= 0) & (inner[:, AXIS] < len(edges))
        return bool((axes & (inner[:, LEFT] > own) & (inner[:, LEFT] < size - 1)).all())


class Room(NamedTuple):
    """What a fit works in."""

    gradients: Floats  # [item]
    curvatures: Floats  # [item]
    order: Ints  # [item]: items, those of a node adjacent
    spare: Ints  # [item]
    sums: Floats  # [node, axis, bin, 3]
    spans: Ints  # [node, 2]: where its items begin and end in `order`
    splits: Floats  # [node, 4]: gain, axis, threshold, missing_left of the best split


def trees_for(classes: int) -> tuple[int, int]:
    """Return how many scores there are, and how many rounds."""
    outputs = 1 if classes == 2 else classes
    return outputs, max(1, min(ROUNDS, MOST_TREES // outputs))


def fit(values: Values, codes: Ints, classes: int) -> Trees:
    """Fit trees to items whose true class is `codes`, the oldest first; there are at least two classes."""
    return fit_of_size(_best_size(values, codes, classes), values, codes, classes)


def _best_size(values: Values, codes: Ints, classes: int) -> Size:
    """Return the size of trees that, fitted to the older items, forecasts the newest better."""
    if len(codes) < COMPARED_FROM or values.shape[1] > MOST_AXES or classes > MOST_CLASSES:
        return SMALL
    values, codes = values[-COMPARED:], codes[-COMPARED:]
    older = len(codes) - len(codes) // NEWEST_PART
    losses = []
    for size in (SMALL, LARGE):
        trees = fit_of_size(size, values[:older], codes[:older], classes)
        chances = predict(trees, values[older:])[np.arange(len(codes) - older), codes[older:]]
        # That of NumPy is another one on another processor.
        losses.append(sum(-math.log(max(chance, LEAST_CHANCE)) for chance in chances.tolist()))
    return LARGE if losses[1] < losses[0] else SMALL


def fit_of_size(size: Size, values: Values, codes: Ints, classes: int) -> Trees:
    """Fit trees of this size."""
    outputs, rounds = trees_for(classes)
    edges = edges_of(values)
    bins = binned(edges, values)
    count, axes = bins.shape
    counts = np.bincount(codes, minlength=classes) + 1.0
    ratios = counts[1:] / counts[:1] if outputs == 1 else counts / counts.sum()
    first = np.array([*map(math.log, ratios)])  # that of NumPy is another one on another processor
    nodes = np.zeros((rounds * outputs, size.nodes, NODE_COLUMNS), np.int32)
    nodes[:, :, AXIS] = NO_AXIS
    leaves = np.zeros((rounds * outputs, size.nodes))
    room = Room(
        np.zeros(count),
        np.zeros(count),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.zeros((size.nodes, axes, BINS + 1, 3)),
        np.zeros((size.nodes, 2), np.int64),
        np.zeros((size.nodes, 4)),
    )
    scores = np.repeat(first[None, :], count, axis=0)
    codes = codes.astype(np.int64)
    _grow_all(bins, codes, scores, np.zeros_like(scores), float(size.least_items), nodes, leaves, *room)
    return Trees(nodes, leaves, first, edges)


def edges_of(values: Values) -> Floats:
    """Return where values are cut: at their quantiles."""
    edges = np.full((values.shape[1], BINS - 1), np.inf)
    for axis in range(values.shape[1]):
        known = np.sort(values[:, axis])
        known = known[: len(known) - np.isnan(known).sum()].astype(np.float64)
        cuts = np.unique(known[np.arange(1, BINS) * len(known) // BINS]) if len(known) else known
        edges[axis, : len(cuts)] = cuts
    return edges


def binned(edges: Floats, values: Values) -> Bins:
    bins = np.empty((len(values), len(edges)), np.uint8)
    bin_all(edges, values, bins)
    return bins


@entry_point
def bin_all(edges: Floats, values: Values, bins: Bins) -> None:
    """Write the bins of values; an axis that is not among them, because it is newer, is missing."""
    for n in range(bins.shape[0]):
        for axis in range(bins.shape[1]):
            value = values[n, axis] if axis < values.shape[1] else np.nan
            if math.isnan(value):
                bins[n, axis] = MISSING_BIN
                continue
            low, high = 0, edges.shape[1]
            while low < high:
                middle = (low + high) // 2
                if edges[axis, middle] <= value:
                    low = middle + 1
                else:
                    high = middle
            bins[n, axis] = low


@compiled_beside
def _grow_all(
    bins: Bins,
    codes: Ints,
    scores: Floats,
    chances: Floats,
    least_items: float,
    nodes: Nodes,
    values: Floats,
    gradients: Floats,
    curvatures: Floats,
    order: Ints,
    spare: Ints,
    sums: Floats,
    spans: Ints,
    splits: Floats,
) -> None:
    room = Room(gradients, curvatures, order, spare, sums, spans, splits)
    outputs = scores.shape[1]
    for tree in range(nodes.shape[0]):
        output = tree % outputs
        if output == 0:
            for n in range(scores.shape[0]):
                _chances(scores[n], chances[n])
        for n in range(scores.shape[0]):
            truth = codes[n] == 1 if outputs == 1 else codes[n] == output
            chance = chances[n, output]
            room.gradients[n] = (1.0 if truth else 0.0) - chance
            room.curvatures[n] = chance * (1.0 - chance)
            room.order[n] = n
        _grow(bins, room, least_items, nodes[tree], values[tree])
        for n in range(scores.shape[0]):
            scores[n, output] += values[tree, _leaf_of(nodes[tree], bins[n])]


@compiled
def _chances(scores: Floats, chances: Floats) -> None:
    """Turn scores into probabilities: a logistic for one score, else a softmax."""
    if scores.shape[0] == 1:
        chances[0] = 1.0 / (1.0 + math.exp(-scores[0]))
        return
    highest = scores[0]
    for k in range(1, scores.shape[0]):
        highest = max(highest, scores[k])
    total = 0.0
    for k in range(scores.shape[0]):
        chances[k] = math.exp(scores[k] - highest)
        total += chances[k]
    for k in range(scores.shape[0]):
        chances[k] /= total


@compiled
def _leaf_of(nodes: Nodes, bins: Bins) -> int:
    node = 0
    while nodes[node, AXIS] != NO_AXIS:
        value = bins[nodes[node, AXIS]]
        goes_left = nodes[node, MISSING_LEFT] != 0 if value == MISSING_BIN else value <= nodes[node, THRESHOLD]
        node = nodes[node, LEFT] + (0 if goes_left else 1)
    return int(node)


@compiled
def _grow(bins: Bins, room: Room, least_items: float, nodes: Nodes, values: Floats) -> None:
    """Grow one tree, the leaf with the largest gain first."""
    room.spans[0, 0], room.spans[0, 1] = 0, bins.shape[0]
    _add_up(bins, room, 0)
    _begin_node(room, least_items, nodes, values, 0)
    count = 1
    while count + 2 <= nodes.shape[0]:
        best = 0
        for node in range(1, count):
            if room.splits[node, 0] > room.splits[best, 0]:
                best = node
        if room.splits[best, 0] <= LEAST_GAIN:
            return
        _split(bins, room, nodes, best, count)
        _begin_node(room, least_items, nodes, values, count)
        _begin_node(room, least_items, nodes, values, count + 1)
        count += 2


@compiled
def _add_up(bins: Bins, room: Room, node: int) -> None:
    """Add up the gradients of the items of a node by axis and bin."""
    sums = room.sums[node]
    sums[:] = 0.0
    for place in range(room.spans[node, 0], room.spans[node, 1]):
        n = room.order[place]
        gradient, curvature = room.gradients[n], room.curvatures[n]
        for axis in range(bins.shape[1]):
            bucket = sums[axis, bins[n, axis]]
            bucket[GRADIENT] += gradient
            bucket[CURVATURE] += curvature
            bucket[COUNT] += 1.0


@compiled
def _begin_node(room: Room, least_items: float, nodes: Nodes, values: Floats, node: int) -> None:
    """Make a node a leaf, and find its best split."""
    sums, best = room.sums[node], room.splits[node]
    gradient, curvature, count = 0.0, 0.0, 0.0
    for bucket in range(BINS + 1):
        gradient += sums[0, bucket, GRADIENT]
        curvature += sums[0, bucket, CURVATURE]
        count += sums[0, bucket, COUNT]
    nodes[node, AXIS] = NO_AXIS
    values[node] = STEP * gradient / max(curvature, LEAST_CURVATURE)
    best[0] = 0.0
    if count < 2.0 * least_items:
        return
    whole = gradient * gradient / max(curvature, LEAST_CURVATURE)
    for axis in range(sums.shape[0]):
        missing = sums[axis, MISSING_BIN]
        for side in range(2 if missing[COUNT] > 0.0 else 1):  # missing values go right, then left
            left_g = missing[GRADIENT] if side else 0.0
            left_h = missing[CURVATURE] if side else 0.0
            left_n = missing[COUNT] if side else 0.0
            for bucket in range(BINS):
                if sums[axis, bucket, COUNT] == 0.0:
                    continue
                left_g += sums[axis, bucket, GRADIENT]
                left_h += sums[axis, bucket, CURVATURE]
                left_n += sums[axis, bucket, COUNT]
                if left_n < least_items or left_h < LEAST_CURVATURE:
                    continue
                right_h, right_n = curvature - left_h, count - left_n
                if right_n < least_items or right_h < LEAST_CURVATURE:
                    break
                right_g = gradient - left_g
                gain = left_g * left_g / left_h + right_g * right_g / right_h - whole
                if gain > best[0]:
                    best[0], best[1], best[2], best[3] = gain, axis, bucket, side


@compiled
def _split(bins: Bins, room: Room, nodes: Nodes, node: int, left: int) -> None:
    """Split a leaf: its items are parted, keeping their order, and its sums become those of its children."""
    axis, threshold, missing_left = int(room.splits[node, 1]), int(room.splits[node, 2]), int(room.splits[node, 3])
    start, end = room.spans[node, 0], room.spans[node, 1]
    middle, others = start, 0
    for place in range(start, end):
        n = room.order[place]
        value = bins[n, axis]
        if missing_left != 0 if value == MISSING_BIN else value <= threshold:
            room.order[middle] = n
            middle += 1
        else:
            room.spare[others] = n
            others += 1
    for place in range(others):
        room.order[middle + place] = room.spare[place]
    nodes[node, AXIS], nodes[node, THRESHOLD] = axis, threshold
    nodes[node, MISSING_LEFT], nodes[node, LEFT] = missing_left, left
    room.splits[node, 0] = 0.0
    room.spans[left, 0], room.spans[left, 1] = start, middle
    room.spans[left + 1, 0], room.spans[left + 1, 1] = middle, end
    smaller = left if middle - start <= end - middle else left + 1
    larger = 2 * left + 1 - smaller
    _add_up(bins, room, smaller)
    all_of, these, those = room.sums[node], room.sums[smaller], room.sums[larger]
    for each in range(bins.shape[1]):
        for bucket in range(BINS + 1):
            for column in range(3):
                those[each, bucket, column] = all_of[each, bucket, column] - these[each, bucket, column]


@entry_point
def chances_of(nodes: Nodes, leaves: Floats, first: Floats, bins: Bins, chances: Floats) -> None:
    """Write the probability of every class for every item to `chances`."""
    outputs = first.shape[0]
    for n in range(bins.shape[0]):
        line = chances[n]
        for output in range(outputs):
            line[output] = first[output]
        for tree in range(nodes.shape[0]):
            line[tree % outputs] += leaves[tree, _leaf_of(nodes[tree], bins[n])]
        _chances(line[:outputs], line[:outputs])
        if outputs == 1:
            line[1] = line[0]
            line[0] = 1.0 - line[1]


def predict(trees: Trees, values: Values) -> Floats:
    """Return [item, class]: the probabilities."""
    chances = np.zeros((len(values), max(2, len(trees.first))))
    chances_of(trees.nodes, trees.values, trees.first, binned(trees.edges, values), chances)
    return chances
