"""A workflow as a picture: layers from left to right, nothing overlaps, equal jobs share a box."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from jobs.admin.picture import HEIGHT, WIDTH, Box, Edge, Node, Picture, draw


def nodes(*names: str, status: str = "pending") -> list[Node]:
    return [Node(name, name.rstrip("0123456789"), status) for name in names]


def edges(*pairs: str) -> list[Edge]:
    return [Edge(*pair.split(">")) for pair in pairs]


def box(picture: Picture, kind: str) -> Box:
    (found,) = [box for box in picture.boxes if box.type == kind]
    return found


def overlap(one: Box, other: Box) -> bool:
    return abs(one.x - other.x) < WIDTH and abs(one.y - other.y) < HEIGHT


def pipeline(chunks: int) -> tuple[list[Node], list[Edge]]:
    names = [f"encode{n}" for n in range(chunks)]
    lines = [f"{name}>{end}" for name in names for end in ("thumbnail", "master")]
    children = [Edge("probe", name, "child") for name in [*names, "thumbnail", "master", "finalize"]]
    everything = nodes("probe", *names, "thumbnail", "master", "finalize")
    return everything, [
        *edges(*lines, "master>finalize"),
        Edge("thumbnail", "master", "optional"),
        *children,
    ]


def test_each_box_is_behind_what_it_needs() -> None:
    picture = draw(nodes("a", "b", "c", "d"), edges("a>b", "a>c", "b>d", "c>d"))
    assert box(picture, "a").x < box(picture, "b").x == box(picture, "c").x < box(picture, "d").x


def test_a_box_with_a_long_and_a_short_way_is_behind_the_long_one() -> None:
    picture = draw(nodes("a", "b", "c"), edges("a>b", "b>c", "a>c"))
    assert box(picture, "a").x < box(picture, "b").x < box(picture, "c").x


def test_forty_equal_chunks_are_one_box() -> None:
    picture = draw(*pipeline(40))
    assert {box.type: len(box.nodes) for box in picture.boxes} == {
        "probe": 1,
        "encode": 40,
        "thumbnail": 1,
        "master": 1,
        "finalize": 1,
    }
    assert {(line.source, line.target): line.kind for line in picture.lines} == {
        ("probe", "encode0"): "child",
        ("encode0", "thumbnail"): "needs",
        ("encode0", "master"): "needs",
        ("thumbnail", "master"): "optional",
        ("master", "finalize"): "needs",
    }


def test_equal_chains_side_by_side_are_one_chain() -> None:
    names = [f"{kind}{n}" for n in range(20) for kind in ("fetch", "parse")]
    lines = [f"fetch{n}>parse{n}" for n in range(20)] + [f"parse{n}>publish" for n in range(20)]
    picture = draw(nodes(*names, "publish"), edges(*lines))
    assert sorted((box.type, len(box.nodes)) for box in picture.boxes) == [
        ("fetch", 20),
        ("parse", 20),
        ("publish", 1),
    ]


def test_jobs_of_one_type_in_different_places_are_not_one_box() -> None:
    steps = [f"step{n}" for n in range(20)]
    picture = draw(nodes(*steps), edges(*(f"step{n}>step{n + 1}" for n in range(19))))
    assert len(picture.boxes) == 20
    assert len({box.x for box in picture.boxes}) == 20


def test_a_few_jobs_are_shown_one_by_one() -> None:
    assert len(draw(*pipeline(3)).boxes) == 7


def test_a_group_shows_what_needs_attention_first() -> None:
    members = (Node("1", "t", "completed"), Node("2", "t", "processing", 50), Node("3", "t", "failed"))
    assert Box("1", "t", members).status == "failed"
    assert Box("1", "t", members[:2]).status == "processing"
    assert Box("1", "t", members[:2]).percent == 75
    assert Box("1", "t", members[:1]).status == "completed"


def test_lines_that_lead_out_of_the_picture_are_left_out() -> None:
    picture = draw(nodes("a"), edges("a>gone", "gone>a"))
    assert [len(picture.boxes), len(picture.lines)] == [1, 0]


def test_nothing_at_all_is_an_empty_picture() -> None:
    assert draw([], []).boxes == ()


@given(
    size=st.integers(1, 25),
    pairs=st.lists(st.tuples(st.integers(0, 24), st.integers(0, 24)), max_size=60),
    kinds=st.lists(st.sampled_from("xyz"), min_size=25, max_size=25),
)
def test_of_any_workflow_no_box_covers_another_and_every_line_goes_to_the_right(
    size: int, pairs: list[tuple[int, int]], kinds: list[str]
) -> None:
    drawn = [Node(str(n), kinds[n], "pending") for n in range(size)]
    lines = [Edge(str(a), str(b)) for a, b in pairs if a < b < size]
    picture = draw(drawn, lines)
    assert sorted(node.id for box in picture.boxes for node in box.nodes) == sorted(n.id for n in drawn)
    assert not [pair for pair in combinations(picture.boxes, 2) if overlap(*pair)]
    place = {box.key: box for box in picture.boxes}
    assert all(place[line.source].x < place[line.target].x for line in picture.lines)
    for box in picture.boxes:
        assert 0 <= box.x <= picture.width - WIDTH
        assert 0 <= box.y <= picture.height - HEIGHT
