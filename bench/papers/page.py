"""The page of the experiments, written from their records alone."""

from __future__ import annotations

from collections.abc import Sequence

from bench.papers.record import Experiment, Record, Shown

Found = Sequence[tuple[Experiment, Record]]

OPENING = """\
# The papers' experiments
`place bench papers` runs the experiments of the four papers that this system follows, draws the \
plots and writes this page; `--quick` does it in a minute with smaller sizes. Every verdict is \
computed from the numbers, by the rule that stands beside it.

- **PLACE 2004**: Mokbel, Xiong, Hammad, Aref, *Continuous query processing of spatio-temporal \
data streams in PLACE*, STDBM 2004.
- **GPAC**: Mokbel, Aref, *GPAC: generic and progressive processing of mobile queries over mobile \
data*, MDM 2005.
- **PLACE 2005**: Mokbel, Xiong, Hammad, Aref, *Continuous query processing of spatio-temporal \
data streams in PLACE*, GeoInformatica 9, 2005.
- **Spatial Join CQ**: Lim, Lee, Lee, Whang, Song, *Continuous query processing in data streams \
using duality of data and queries*, SIGMOD 2006.

What is compared is what their text states; the curves of their figures are not copied. Objects \
come from our [generator](../generator.md), which follows the one that the papers use, on a city \
of our own; theirs is Greater Lafayette, Indiana. In the experiments with pipelines and caches, \
which are those of `place bench pipeline` and `place bench cache`, they walk at random in the unit \
square. Counts depend on the size and the seed only: the same seed writes the same `.json` files, \
byte by byte. Times are in files of their own (`.times.json`) and mean something only beside the \
calibration, the seconds that this machine needed just then to sort five million numbers (0.28 \
when it is quiet), and the load: how many tasks wanted a core meanwhile, those of others included.
"""

LEFT_OUT = """\
## Figures that are not here
- Pictures without data: PLACE 2004, figures 1 to 3; PLACE 2005, figures 1 to 5; GPAC, figures 1 \
to 8; Spatial Join CQ, figures 1 to 14. They show examples, pseudo code, plans, a map and screens.
- The two implementations of figures 5 (PLACE 2004), 7, 8 (PLACE 2005), 9 and 10 (GPAC), inside \
and outside of the authors' engine, are code that we do not have: both orders of the operators in \
our engine stand for them.
- GPAC says that nearest neighbours gave similar results, without a figure. `place bench knn` \
measures ours ([benchmarks](../benchmarks.md)).
"""


def write_page(found: Found) -> str:
    """The page: all figures with their verdicts first, then each experiment."""
    parts = [OPENING, _summary(found)]
    parts += [_section(experiment, record) for experiment, record in found]
    parts.append(LEFT_OUT)
    return "\n".join(parts)


def _summary(found: Found) -> str:
    rows = []
    for experiment, record in found:
        verdicts = experiment.judge(record)
        agreed = sum(verdict.agrees for verdict in verdicts)
        link = f"[{experiment.title}](#{_anchor(experiment.title)})"
        axes = dict.fromkeys(f"{panel.y} by {panel.x}" for panel in experiment.panels(record))
        rows.append((experiment.figures, link, "; ".join(axes), f"{agreed} of {len(verdicts)}"))
    heads = ("figures", "experiment", "what it shows", "statements that agree")
    different = [
        f"- {verdict.stated[0].upper()}{verdict.stated[1:]} ({verdict.where}): {verdict.found}."
        for experiment, record in found
        for verdict in experiment.judge(record)
        if not verdict.agrees
    ]
    closing = "What differs:\n\n" + "\n".join(different) if different else "Nothing differs."
    return _table(Shown("", heads, rows)) + "\n" + closing + "\n"


def _section(experiment: Experiment, record: Record) -> str:
    name = experiment.name
    lines = [
        f"## {experiment.title}",
        f"{experiment.figures}. {experiment.about(record)}",
        "",
        f"![{experiment.title}]({name}.svg)",
        "",
    ]
    for verdict in experiment.judge(record):
        lines.append(
            f"- **{verdict.word}**: {verdict.stated} ({verdict.where}). Found: {verdict.found}. "
            f"Agrees if: {verdict.rule}."
        )
    for shown in experiment.tables(record):
        lines += ["", f"{shown.title}:", "", _table(shown)]
    lines.append(f"{_size(record)}; data: {_files(experiment, record)}.")
    return "\n".join(lines) + "\n"


def _size(record: Record) -> str:
    seed = f", seed {record.setting['seed']}" if "seed" in record.setting else ""
    machine = ""
    if record.times:
        of = record.machine
        machine = f", {of['cores']:g} cores, calibration {of['calibration_s']:.2f} s, load "
        machine += f"{of['load']:.1f}"
    return f"Size: {record.setting['size']}{seed}{machine}"


def _files(experiment: Experiment, record: Record) -> str:
    names = [f"{experiment.name}.json"]
    names += [f"{experiment.name}.times.json"] if record.times else []
    names += [f"{experiment.name}.png"]
    return ", ".join(f"[{name}]({name})" for name in names)


def _table(shown: Shown) -> str:
    lines = [shown.columns, ["---"] * len(shown.columns), *shown.rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _anchor(title: str) -> str:
    """The anchor of a heading, as GitHub makes it.

    >>> _anchor("Size of the cache, accuracy")
    'size-of-the-cache-accuracy'
    """
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -")
    return kept.replace(" ", "-")
