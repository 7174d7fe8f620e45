"""No text that a client wrote takes more than its length to be matched, however it was chosen.

What took seconds or centuries before is tried at full length under an alarm: a test that is slow
fails, and does not hang. The alarm is generous, since these texts take milliseconds.
"""

import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import pytest
import shapely

from place.errors import PlaceError
from place.model.shape import Polygon, ShapeError, make_ring, parse_wkt
from place.model.time import TimeError, parse_duration
from place.plan.evaluate import like
from place.plan.external import parse_columns
from place.sql.scan import is_complete, split

Ring = tuple[tuple[float, float], ...]


@contextmanager
def alarm(seconds: int = 10) -> Iterator[None]:
    """Fail what takes longer than that."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"not done after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# LIKE


def fits(text: str, pattern: str) -> bool:
    """What LIKE means, by a table of all prefixes of the text against those of the pattern."""
    reached = [True, *([False] * len(text))]
    for wanted in pattern:
        if wanted == "%":
            following = [any(reached[: end + 1]) for end in range(len(text) + 1)]
        else:
            following = [False] + [
                reached[end] and wanted in ("_", letter) for end, letter in enumerate(text)
            ]
        reached = following
    return reached[-1]


@pytest.mark.parametrize("letters", ["ab", "a", "ab\n", "a%_", "aé\\.🚗*"])
def test_like_means_what_the_table_says(letters: str) -> None:
    rng = random.Random(letters)
    outcomes = set()
    for _ in range(3000):
        text = "".join(rng.choices(letters, k=rng.randrange(14)))
        pattern = "".join(rng.choices(letters + "%%_", k=rng.randrange(10)))
        outcome = like(text, pattern)
        assert outcome == fits(text, pattern), (text, pattern)
        outcomes.add(outcome)
    assert outcomes == {True, False}


def test_patterns_cut_from_their_texts_fit() -> None:
    """Long texts, and pieces with many _ in them, of which the right place is not the first."""
    rng = random.Random(5)
    for _ in range(200):
        text = "".join(rng.choices("ab", k=rng.randrange(1, 200)))
        pattern = "".join(
            rng.choices([letter, "_", "%" if rng.random() < 0.2 else letter], [5, 3, 2])[0]
            for letter in text
        )
        assert like(text, pattern) is True
        assert like(text, f"%{pattern}%") is True
        changed = "%" + pattern[::-1] + "%"
        assert like(text, changed) == fits(text, changed), (text, changed)


def test_the_ends_of_a_pattern_do_not_share_letters() -> None:
    assert like("aba", "ab%ba") is False
    assert like("abba", "ab%ba") is True
    assert like("a", "a%a") is False
    assert like("abc", "a_%_c") is False
    assert like("", "%") is True
    assert like("", "%%_") is False
    assert like(None, "%") is None
    assert like("a", None) is None


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("a" * 60, "%a%a%a%a%a%a%b", False),
        ("a" * 10_000, "%a" * 2_000 + "%b", False),
        ("a" * 10_000, "%a" * 2_000 + "%b%", False),
        ("a" * 10_000, "%a" * 2_000 + "%", True),
        ("a" * 10_000, "%_a" * 2_000 + "%b%", False),
        ("a" * 10_000, "%" + "a_" * 2_000 + "b%", False),
        ("a" * 10_000, "%" + "a_" * 2_000 + "%", True),
        ("a" * 10_000 + "b", "%" + "a" * 5_000 + "%" + "a_" * 2_000 + "b", True),
        ("a" * 100_000, "%" + "a_" * 25_000 + "b%", False),
        ("ab" * 50_000, "%" + "ab_b" * 10_000 + "c%", False),
        ("".join(map(chr, range(300, 20_000))), "%" + "".join(map(chr, range(320, 20_001))), False),
        ("a" * 100, "%" * 1_000_000 + "b", False),
        ("a" * 100, "_" * 1_000_000, False),
    ],
)
def test_patterns_made_to_be_slow(text: str, pattern: str, expected: bool) -> None:
    with alarm():
        assert like(text, pattern) is expected


class Counted(str):
    """A text that counts how many letters are searched in it."""

    searched = 0

    def find(self, piece: str, start: int = 0, end: int | None = None) -> int:  # type: ignore[override]
        found = super().find(piece, start, end)
        Counted.searched += (len(self) if found < 0 else found + len(piece)) - start
        return found


def test_twice_the_pattern_on_twice_the_text_is_twice_the_work() -> None:
    work = []
    for size in (1_000, 2_000):
        Counted.searched = 0
        assert like(Counted("a" * 5 * size), "%a" * size + "%b%") is False
        work.append(Counted.searched)
    assert work == [5_000, 10_000]


# WKT


def shapely_rings(text: str) -> list[Ring]:
    shape = shapely.from_wkt(text)
    polygons = shape.geoms if shape.geom_type == "MultiPolygon" else [shape]
    rings = [ring for part in polygons for ring in (part.exterior, *part.interiors)]
    return [make_ring([(x, y) for x, y in ring.coords]) for ring in rings]


def number(rng: random.Random) -> str:
    forms: list[Callable[[], str]] = [
        lambda: str(rng.randrange(-999, 999)),
        lambda: f"{rng.uniform(-180, 180)!r}",
        lambda: f"{rng.uniform(-1, 1):e}",
        lambda: f"{rng.uniform(-9, 9):.3E}",
        lambda: f".{rng.randrange(1000)}",
        lambda: f"-{rng.randrange(1000)}.",
        lambda: f"+{rng.randrange(10)}e{rng.choice(['', '+', '-'])}{rng.randrange(20)}",
    ]
    return rng.choice(forms)()


def spaces(rng: random.Random, least: int = 0) -> str:
    return "".join(rng.choices(" \n\t", [8, 1, 1], k=rng.randrange(least, 4)))


def listed(rng: random.Random, items: list[str]) -> str:
    joined = items[0]
    for item in items[1:]:
        joined += spaces(rng) + "," + spaces(rng) + item
    return "(" + spaces(rng) + joined + spaces(rng) + ")"


def written_polygon(rng: random.Random) -> str:
    rings = []
    for _ in range(rng.randrange(1, 4)):
        corners = [number(rng) + spaces(rng, 1) + number(rng) for _ in range(rng.randrange(3, 8))]
        rings.append(listed(rng, [*corners, corners[0]]))
    return listed(rng, rings)


def test_wkt_is_read_as_shapely_reads_it() -> None:
    rng = random.Random(11)
    for _ in range(500):
        if rng.random() < 0.5:
            text = rng.choice(["POLYGON", "Polygon", "polygon"])
            text += spaces(rng) + written_polygon(rng)
        else:
            text = rng.choice(["MULTIPOLYGON", "MultiPolygon", "multipolygon"]) + spaces(rng)
            text += listed(rng, [written_polygon(rng) for _ in range(rng.randrange(1, 4))])
        text = spaces(rng) + text + spaces(rng)
        assert list(parse_wkt(text).rings) == shapely_rings(text), text


def test_what_shapely_writes_is_read() -> None:
    rng = random.Random(12)
    for _ in range(200):
        x, y, size = (rng.uniform(-100, 100) for _ in range(3))
        whole = shapely.Point(x, y).buffer(abs(size) + 1, quad_segs=rng.randrange(1, 9))
        shape = whole.difference(shapely.Point(x, y).buffer(abs(size) / 2))
        if rng.random() < 0.5:
            shape = shapely.MultiPolygon([shape, shapely.box(x + 500, y, x + 501, y + 1)])
        text = shapely.to_wkt(shape, rounding_precision=-1)
        assert Polygon(tuple(shapely_rings(text))) == parse_wkt(text)


BROKEN = [
    "",
    "POLYGON",
    "POLYGON EMPTY",
    "POLYGON ()",
    "POLYGON (())",
    "POLYGON (0 0, 1 0, 0 1)",
    "POLYGON ((0 0, 1 0, 0 1)",
    "POLYGON 0 0, 1 0, 0 1))",
    "POLYGON ((0 0, 1 0))",
    "POLYGON ((0 0, 1 0, 0 1) x)",
    "POLYGON (x (0 0, 1 0, 0 1))",
    "POLYGON ((0 0, 1 0, 0 1)) x",
    "POLYGON ((0 0, 1 0,, 0 1))",
    "POLYGON ((0 0, 1 0, 0 1,))",
    "POLYGON ((0 0 0, 1 0 0, 0 1 0))",
    "POLYGON ((0 0, 1 nan, 0 1))",
    "POLYGON ((0 0, 1 inf, 0 1))",
    "POLYGON ((0 0, 1 1_0, 0 1))",
    "POLYGON ((0 0, 1 1e, 0 1))",
    "POLYGON ((0 0, 1 ., 0 1))",
    "POLYGON ((0 0, 1-1, 0 1))",
    "POLYGON (((0 0, 1 0, 0 1)))",
    "POLYGON ((0 0, 1 0, 0 1), ((2 2, 3 2, 2 3)))",
    "MULTIPOLYGON ()",
    "MULTIPOLYGON ((0 0, 1 0, 0 1))",
    "MULTIPOLYGON (((0 0, 1 0, 0 1))",
    "MULTIPOLYGON (((0 0, 1 0, 0 1)) x)",
    "MULTIPOLYGON (((0 0, 1 0, 0 1))) ((2 2, 3 2, 2 3))",
    "MULTIPOLYGON ((((0 0, 1 0, 0 1))))",
    "LINESTRING (0 0, 1 1)",
    "SRID=4326;POLYGON ((0 0, 1 0, 0 1))",
]


@pytest.mark.parametrize("text", BROKEN)
def test_broken_wkt(text: str) -> None:
    with pytest.raises(ShapeError):
        parse_wkt(text)


def test_broken_by_chance() -> None:
    """Whatever is struck out of a text or put into it, it is a polygon or a ShapeError."""
    rng = random.Random(13)
    refused = 0
    for _ in range(2000):
        text = rng.choice(["POLYGON", "MULTIPOLYGON"]) + listed(rng, [written_polygon(rng)])
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice(["", "(", ")", ",", "x", "e", "."]) + text[at + 1 :]
        try:
            parse_wkt(text)
        except ShapeError:
            refused += 1
    assert refused > 500


@pytest.mark.parametrize(
    "text",
    [
        "POLYGON ((" + "1111 1111, " * 6 + "x))",
        "POLYGON ((" + "1111 1111, " * 50_000 + "x))",
        "POLYGON ((" + "1" * 500_000 + "x 1, 1 1, 2 2))",
        "POLYGON ((1" + " " * 500_000 + "x, 1 1, 2 2))",
        "POLYGON" + " " * 500_000 + "x",
        "POLYGON " + "(" * 500_000,
        "POLYGON " + "(" * 500_000 + ")",
        "POLYGON (" + "()" * 250_000 + ")",
        "MULTIPOLYGON " + "(" * 500_000 + ")" * 500_000,
        "MULTIPOLYGON (" + "(" * 500_000 + ")",
        "MULTIPOLYGON (" + "((0 0, 1 0, 0 1))," * 20_000 + "x)",
    ],
    ids=range(11),
)
def test_wkt_made_to_be_slow(text: str) -> None:
    with alarm(), pytest.raises(ShapeError):
        parse_wkt(text)


# Other texts


@pytest.mark.parametrize(
    "text", ["1" * 200_000, " " * 200_000 + "x", "5" + " " * 200_000, "1s" * 9]
)
def test_durations_made_to_be_slow(text: str) -> None:
    with alarm():
        if text.endswith("s"):
            assert parse_duration(text) == 9_000_000
        else:
            with pytest.raises(TimeError):
                parse_duration(text)


def test_columns_made_to_be_slow() -> None:
    gap = " " * 100_000
    with alarm():
        for text in (f'a{gap}= b{gap}"', f"a{gap}", f"{gap}=", f'"a"{gap}="b"{gap}x', f"a ={gap}"):
            with pytest.raises(PlaceError, match="is not a list of names"):
                parse_columns(text)
        pairs = {f"a{at}": f"b {at}" for at in range(20_000)}
        text = ",".join(f' {name} = "{source}"' for name, source in pairs.items())
        assert parse_columns(text) == pairs


def test_quotes_and_comments_made_to_be_slow() -> None:
    with alarm():
        pieces = list(split("/*;\n" * 100_000))
        assert [sql for _, sql in pieces[:2]] == ["/*", "\n/*"]
        assert len(pieces) == 100_000
        assert len(list(split("';\n\";\n/*;\n" * 30_000))) > 1
        assert len(list(split("SELECT '" + "''" * 500_000 + "';"))) == 1
        assert is_complete("/* " * 200_000)
        assert not is_complete("'" + "/* " * 200_000)
