"""Random scripts about stays, several areas, motion and ways: the local runtime sends what the
reference sends, however readings fall into ticks and cells."""

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.harness.examples import examples
from tests.harness.scene import run

EXAMPLES = examples(15)
AREAS = ["(0, 0, 4, 4)", "(2, 2, 2)", "POLYGON ((0 0, 5 0, 0 5))", "(3, 3, 9, 9)"]
OPTIONS = [
    "evaluate = '2 seconds'",
    "timeout = '5 seconds'",
    "lateness = '2 seconds'",
    "space = 'wgs84'",
]
VALUES = ["id", "SPEED()", "HEADING()", "kind", "INSIDE (0, 0, 3, 3)", "ROUND(SPEED(), 1)"]
VALUES += ["PATH INSIDE (1, 1, 3, 3)", "CROSSING LINE ((1 0, 3 5))"]
CONDITIONS = ["SPEED() > 1", "HEADING() < 180", "kind = 'a'", "SPEED() IS NULL", "x > 2"]


def area(draw: st.DrawFn) -> str:
    return draw(st.sampled_from(AREAS))


@st.composite
def approaches(draw: st.DrawFn) -> str:
    """A query of pairs that will come near each other: alone or beside another condition, of
    objects or of readings, and of several times ahead."""
    near = draw(st.sampled_from(["0", "1", "2.5", "60000", "300000"]))
    ahead = draw(st.sampled_from(["1 second", "3 seconds", "20 seconds"]))
    cpa = f"CPA(a, b, '{ahead}')"
    shown = draw(st.sampled_from(["a.id, b.id", f"a.id, ROUND({cpa}, 3)", "COUNT(*)"]))
    condition = draw(st.sampled_from([f"{cpa} < {near}", f"{near} >= {cpa}", f"{cpa} > {near}"]))
    beside = draw(
        st.sampled_from(["", " AND a.id < b.id", " AND a.kind = b.kind", " AND DISTANCE(a, b) < 4"])
    )
    window = draw(st.sampled_from(["", "", " WINDOW 4 SECONDS"]))
    return f"SELECT {shown} FROM Cars a{window}, Cars b WHERE {condition}{beside}"


@st.composite
def selects(draw: st.DrawFn) -> str:
    """A query with a stay, areas joined in some way, a window or kNN, speeds alone, or pairs."""
    if draw(st.integers(0, 9)) == 0:
        return draw(approaches())
    if draw(st.integers(0, 9)) == 0:
        return "SELECT id, CROSSING_TIME() AS crossed FROM Cars CROSSING LINE ((0 3, 3 3, 4 0))"
    condition = draw(st.sampled_from(["", "", *CONDITIONS]))
    where = f" WHERE {condition}" if condition else ""
    values = ", ".join(draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=3)))
    group = ""
    if draw(st.integers(0, 3)) == 0:
        values, group = "kind, COUNT(*), MAX(SPEED())", " GROUP BY kind"
    length = draw(st.sampled_from(["1", "2", "3.5", "6"]))
    clause = draw(
        st.sampled_from(
            [
                f" INSIDE {area(draw)} FOR '{length} seconds'",
                f" INSIDE {area(draw)} FOR '{length} seconds' AND NOT INSIDE {area(draw)}",
                f" INSIDE ('M', 1, 2) FOR '{length} seconds'",
                f" INSIDE ('M', 2, 3, 3) FOR '{length} seconds' AND OUTSIDE {area(draw)}",
                f" INSIDE {area(draw)} OR INSIDE {area(draw)}",
                f" OUTSIDE {area(draw)} AND INSIDE {area(draw)}",
                f" OUTSIDE {area(draw)} WINDOW {length} SECONDS",
                f" INSIDE {area(draw)} LEAVE BEYOND {length}",
                f" INSIDE {area(draw)} CONFIRM {draw(st.integers(2, 4))} READINGS",
                f" INSIDE {area(draw)} CONFIRM 2 READINGS AND OUTSIDE {area(draw)}",
                f" INSIDE {area(draw)} LEAVE BEYOND {length} AND OUTSIDE {area(draw)}",
                f" PATH INSIDE {area(draw)}",
                f" INSIDE {area(draw)} WITHIN NEXT '{length} seconds'",
                f" CROSSING LINE ((1 0, 3 5)) OR PATH INSIDE {area(draw)}",
                f" PATH INSIDE {area(draw)} WINDOW {length} SECONDS",
                f" INSIDE {area(draw)} AND NOT PATH INSIDE {area(draw)}",
                " CROSSING LINE ((0 4, 2 2, 2 0)) kNN (2, 1, 1)",
                f" INSIDE {area(draw)} OR INSIDE {area(draw)} kNN (2, 1, 1)",
                "",
            ]
        )
    )
    return f"SELECT {values} FROM Cars{where}{clause}{group}"


@st.composite
def scripts(draw: st.DrawFn, asked: st.SearchStrategy[str]) -> str:
    """A script that registers the queries that are asked, before and between readings."""
    options = ["motion = TRUE", *draw(st.lists(st.sampled_from(OPTIONS), unique=True))]
    columns = "id BIGINT KEY, x DOUBLE, y DOUBLE, kind STRING, ts TIMESTAMP"
    blocks = [f"statement ok\nCREATE STREAM Cars ({columns}) WITH ({', '.join(options)})"]
    clock, queries = 0.0, 0
    is_late = any("lateness" in option for option in options)
    for number in range(draw(st.integers(4, 14))):
        what = "query" if number < 2 else draw(st.sampled_from(["at"] * 6 + ["query", "recover"]))
        if what == "query":
            blocks.append(f"statement ok\nREGISTER QUERY q{queries} AS {draw(asked)}")
            queries += 1
        elif what == "recover":
            blocks.append("recover")
        else:
            clock += draw(st.sampled_from([0.5, 1, 1, 2, 4]))
            lines = [f"at {clock}s"]
            for _ in range(draw(st.integers(0, 4))):
                key = draw(st.integers(1, 3))
                line = f"Cars ({key}) disappear"
                if draw(st.integers(0, 6)):
                    x, y = (draw(st.sampled_from([0, 1, 2, 2.5, 4, 7])) for _ in range(2))
                    line = f"Cars ({key}, {x}, {y}, '{draw(st.sampled_from('ab'))}')"
                ago = draw(st.sampled_from([0, 0, 0.5, 1.5])) if is_late else 0
                lines.append(f"{line} at {max(0.0, clock - ago)}s" if ago else line)
            blocks.append("\n".join(lines))
    blocks += [f"at {clock + 15}s", *(f"answer q{i}" for i in range(queries))]
    return "\n\n".join(blocks) + "\n"


SEARCH = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
CELLS = st.sampled_from(["1x1", "2x2", "1x3", "3x1"])
BATCHINGS = st.sampled_from(["each", "one", "random:1", "random:2"])


@SEARCH
@given(text=scripts(selects()), cells=CELLS, batching=BATCHINGS)
def test_local_agrees_with_the_reference(text: str, cells: str, batching: str) -> None:
    note(text)
    run(text, "local", cells, batching)


@SEARCH
@given(text=scripts(approaches()), cells=CELLS, batching=BATCHINGS)
def test_local_agrees_about_approaches(text: str, cells: str, batching: str) -> None:
    note(text)
    run(text, "local", cells, batching)
