"""What is said of the experiments of CCQ, and how the readings of TAO are read."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bench.buoys import read_tao
from bench.papers import triggers
from bench.papers.record import Record


def words(experiment: object, record: Record) -> list[bool]:
    return [verdict.agrees for verdict in experiment.judge(record)]  # type: ignore[attr-defined]


def trigger_record(field: str, rates: Mapping[str, Sequence[int]], kept: Sequence[int]) -> Record:
    """Two values of a field, with the events a second and the entries of each strategy."""
    counts, times = [], []
    for at, value in enumerate((5, 100)):
        for number, how in enumerate(("chosen", "loose", "tight", "noindex")):
            about = {"sea": "buoys", field: value, "how": how}
            entries = kept[at] * (3 if number == 3 else 1)
            counts.append(
                {**about, "events": 1_000, "alerts": 1, "peak": kept[at], "entries": entries}
            )
            times.append({**about, "per_s": rates[how][at]})
    return Record({"events": 1_000, "triggers": 5, "tao": 0}, counts, times)


def test_verdicts_on_triggers() -> None:
    right = {"chosen": (90, 45), "loose": (50, 10), "tight": (60, 12), "noindex": (90_000, 45_000)}
    wrong = {"chosen": (90, 99), "loose": (80, 90), "tight": (60, 70), "noindex": (50, 10)}
    even = dict.fromkeys(right, (100, 90))
    cases = (
        (triggers.VERBOSITY, "verbosity", right, wrong, 5),
        (triggers.COUNTS, "triggers", right, wrong, 3),
        (triggers.BOUNDS, "seconds", even, wrong, 2),
        (triggers.VARIABLES, "variables", even, wrong, 1),
    )
    for experiment, field, agreeing, differing, count in cases:
        assert words(experiment, trigger_record(field, agreeing, (20, 40))) == [True] * count
        flat = [
            {**row, "entries": 9} for row in trigger_record(field, differing, (800, 400)).counts
        ]
        record = trigger_record(field, differing, (800, 400))
        assert words(experiment, Record(record.setting, flat, record.times)) == [False] * count


def test_data_of_tao_is_read_where_it_is(tmp_path: Path) -> None:
    file = tmp_path / "tao.dat"
    file.write_text(
        "1 80 3 7 800307 -0.02 -109.46 -6.8 0.7 . 26.14 26.24\n"
        "2 80 3 8 800308 -0.02 -109.46 -4.9 1.1 80.5 25.66 25.97\n"
        "3 80 3 7 800307 5.02 147.1 1 2 . 28 .\n"
    )
    reports, metres = read_tao(file)
    assert len(reports) == 3
    assert np.isnan(reports.measured["humidity"]).sum() == 2
    assert reports.times.tolist() == sorted(reports.times.tolist())
    assert (np.diff(reports.times)[-1]) == 86_400_000_000
    assert 250 <= metres[:, 0].max() / 111_195 <= 251
