"""A workflow as boxes and lines: equal jobs in one box, layers from left to right. Plain Python, no database."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

COLLAPSE_ABOVE = 12
"""A picture of so few jobs shows each of them."""

WIDTH, HEIGHT = 164, 46
ACROSS, BETWEEN, LANE = 36, 16, 10
"""Space between two layers, between two boxes of a layer, and for a line that passes a layer."""
MARGIN = 6
_SWEEPS = 6


@dataclass(frozen=True)
class Node:
    id: str
    type: str
    status: str
    percent: float = 0.0


@dataclass(frozen=True)
class Edge:
    source: str
    target: str
    kind: str = "needs"
    """needs, optional (any end will do), child (added by the running job)"""


@dataclass(frozen=True)
class Box:
    key: str
    type: str
    nodes: tuple[Node, ...]
    x: float = 0.0
    y: float = 0.0

    @property
    def counts(self) -> Counter[str]:
        return Counter(node.status for node in self.nodes)

    @property
    def is_group(self) -> bool:
        return len(self.nodes) > 1

    @property
    def status(self) -> str:
        """Of a group: what most needs attention."""
        counts = self.counts
        for status in ("failed", "processing", "pending", "waiting", "cancelled"):
            if counts[status]:
                return status
        return "completed"

    @property
    def percent(self) -> float:
        return sum(100.0 if n.status == "completed" else n.percent for n in self.nodes) / len(self.nodes)


@dataclass(frozen=True)
class Line:
    source: str
    target: str
    kind: str
    path: str


@dataclass(frozen=True)
class Picture:
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    width: float
    height: float


def draw(nodes: Sequence[Node], edges: Iterable[Edge], *, collapse_above: int = COLLAPSE_ABOVE) -> Picture:
    """The edges form no circle; those that lead nowhere are ignored."""
    known = {node.id for node in nodes}
    edges = [edge for edge in edges if edge.source in known and edge.target in known]
    groups = _collapse(nodes, edges) if len(nodes) > collapse_above else {node.id: (node,) for node in nodes}
    home = {node.id: key for key, members in groups.items() for node in members}
    kinds: dict[tuple[str, str], str] = {}
    for edge in edges:
        pair = home[edge.source], home[edge.target]
        if kinds.get(pair) != "needs":
            kinds[pair] = edge.kind
    kinds = _without_needless_children(kinds)
    return _lay_out(groups, kinds)


def _collapse(nodes: Sequence[Node], edges: Sequence[Edge]) -> dict[str, tuple[Node, ...]]:
    """Jobs of one type that have equal jobs before and behind them share a box: chunks, or whole parallel chains.

    Every job has a colour, at first its type; it is refined by the colours of its neighbours until nothing changes.
    """
    before: dict[str, set[tuple[str, str]]] = defaultdict(set)
    behind: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for edge in edges:
        before[edge.target].add((edge.source, edge.kind))
        behind[edge.source].add((edge.target, edge.kind))
    names: dict[object, int] = {}
    colour = {node.id: names.setdefault(node.type, len(names)) for node in nodes}
    while True:
        names = {}
        refined = {
            id: names.setdefault(
                (
                    own,
                    frozenset((colour[other], kind) for other, kind in before[id]),
                    frozenset((colour[other], kind) for other, kind in behind[id]),
                ),
                len(names),
            )
            for id, own in colour.items()
        }
        if len(set(refined.values())) == len(set(colour.values())):
            break
        colour = refined
    groups: dict[int, list[Node]] = defaultdict(list)
    for node in nodes:
        groups[colour[node.id]].append(node)
    return {members[0].id: tuple(members) for members in groups.values()}


def _without_needless_children(kinds: Mapping[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    """A child that waits for something is shown behind that; a line from its parent would only be in the way."""
    waiting = {target for (_, target), kind in kinds.items() if kind != "child"}
    return {
        (source, target): kind
        for (source, target), kind in kinds.items()
        if kind != "child" or target not in waiting
    }


@dataclass
class _Slot:
    """A place in a layer: of a box, or of a line that passes."""

    key: str
    is_box: bool
    rank: float = 0.0
    y: float = 0.0
    left: list[_Slot] = field(default_factory=list)
    right: list[_Slot] = field(default_factory=list)

    @property
    def height(self) -> float:
        return HEIGHT if self.is_box else LANE


def _lay_out(groups: Mapping[str, tuple[Node, ...]], kinds: Mapping[tuple[str, str], str]) -> Picture:
    layer_of = _layers(list(groups), list(kinds))
    layers: list[list[_Slot]] = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    slots = {key: _Slot(key, is_box=True) for key in groups}
    for key, slot in slots.items():
        layers[layer_of[key]].append(slot)
    chains = {pair: _chain(pair, slots, layer_of, layers) for pair in kinds}
    _untangle(layers)
    height = _stack(layers)
    x_of = [MARGIN + number * (WIDTH + ACROSS) for number in range(len(layers))]
    boxes = tuple(
        Box(key, members[0].type, members, x_of[layer_of[key]], slots[key].y)
        for key, members in groups.items()
    )
    lines = tuple(
        Line(*pair, kinds[pair], _path(chain, layer_of[pair[0]], x_of)) for pair, chain in chains.items()
    )
    width = (x_of[-1] + WIDTH if x_of else MARGIN) + MARGIN
    return Picture(boxes, lines, width, height)


def _layers(keys: Sequence[str], pairs: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Each box one layer behind the last of those before it."""
    behind: dict[str, list[str]] = defaultdict(list)
    open_before = dict.fromkeys(keys, 0)
    for source, target in pairs:
        behind[source].append(target)
        open_before[target] += 1
    layer = dict.fromkeys(keys, 0)
    ready = [key for key in keys if not open_before[key]]
    while ready:
        key = ready.pop()
        for target in behind[key]:
            layer[target] = max(layer[target], layer[key] + 1)
            open_before[target] -= 1
            if not open_before[target]:
                ready.append(target)
    return layer


def _chain(
    pair: tuple[str, str], slots: Mapping[str, _Slot], layer_of: Mapping[str, int], layers: list[list[_Slot]]
) -> list[_Slot]:
    """The way of a line: its two boxes, and a lane through each layer in between."""
    source, target = pair
    chain = [slots[source]]
    for number in range(layer_of[source] + 1, layer_of[target]):
        lane = _Slot(f"{source}→{target}", is_box=False)
        layers[number].append(lane)
        chain.append(lane)
    chain.append(slots[target])
    for left, right in pairwise(chain):
        left.right.append(right)
        right.left.append(left)
    return chain


def _untangle(layers: list[list[_Slot]]) -> None:
    """Order each layer by where its neighbours are, forth and back, so that fewer lines cross."""
    for layer in layers:
        for number, slot in enumerate(layer):
            slot.rank = number
    for sweep in range(_SWEEPS):
        forth = sweep % 2 == 0
        for layer in layers if forth else reversed(layers):
            for slot in layer:
                beside = slot.left if forth else slot.right
                if beside:
                    slot.rank = sum(other.rank for other in beside) / len(beside)
            layer.sort(key=lambda slot: slot.rank)
            for number, slot in enumerate(layer):
                slot.rank = number - (len(layer) - 1) / 2


def _stack(layers: list[list[_Slot]]) -> float:
    """Layers are centred. Returns the height of the whole."""
    heights = [sum(slot.height for slot in layer) + BETWEEN * (len(layer) - 1) for layer in layers]
    tallest = max(heights, default=0.0)
    for layer, height in zip(layers, heights, strict=True):
        y = MARGIN + (tallest - height) / 2
        for slot in layer:
            slot.y = y
            y += slot.height + BETWEEN
    return tallest + 2 * MARGIN


def _path(chain: list[_Slot], first_layer: int, x_of: Sequence[float]) -> str:
    """An SVG path: curves between layers, straight through the lanes."""
    x, y = x_of[first_layer] + WIDTH, chain[0].y + chain[0].height / 2
    parts = [f"M{x:g} {y:g}"]
    for number, slot in enumerate(chain[1:], first_layer + 1):
        to_x, to_y = x_of[number], slot.y + slot.height / 2
        middle = (x + to_x) / 2
        parts.append(f"C{middle:g} {y:g} {middle:g} {to_y:g} {to_x:g} {to_y:g}")
        x, y = to_x, to_y
        if not slot.is_box:
            x += WIDTH
            parts.append(f"H{x:g}")
    return "".join(parts)
