"""Plots of the experiments: the same record makes the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.papers.record import Panel
from place.errors import ConfigurationError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#806000", "#000000")
"""Told apart also by those who do not see red and green (after Okabe and Ito)."""
MARKERS = "osD^vPX"
GREY = "#666666"
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "place",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
WIDTH, HEIGHT, DOTS = 5.2, 3.8, 120
MANY = 4
"""Entries of a legend that find room among the lines; more stand below."""


def check_library() -> None:
    """Raise if plots cannot be drawn, before anything is measured."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(
            "the experiments draw with matplotlib, which is not installed",
            hint="pip install 'place-server[dev]', or pip install matplotlib",
        ) from error


def draw(panels: Sequence[Panel], directory: Path, name: str) -> None:
    """Draw panels side by side, as an SVG and a PNG file."""
    check_library()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH * len(panels), HEIGHT), layout="constrained")
        figure.set_facecolor("white")
        all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, panel in zip(all_axes, panels, strict=True):
            _draw_panel(axes, panel)
        figure.savefig(directory / f"{name}.svg", metadata={"Date": None, "Creator": None})
        figure.savefig(directory / f"{name}.png", dpi=DOTS, metadata={"Software": None})


def _draw_panel(axes: Axes, panel: Panel) -> None:
    from matplotlib.ticker import NullFormatter

    axes.set_title(panel.title)
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)
    for number, line in enumerate(panel.lines):
        axes.plot(
            line.xs,
            line.ys,
            label=line.label,
            color=COLOURS[number % len(COLOURS)],
            marker=None if line.is_dashed else MARKERS[number % len(MARKERS)],
            markersize=4,
            linewidth=1.4,
            linestyle="--" if line.is_dashed else "-",
        )
    for words, value in panel.marks.items():
        axes.axhline(value, color=GREY, linewidth=1, linestyle=":", label=words)
    if panel.log_x:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        if max(max(line.xs) for line in panel.lines) < 200:
            _tick_at_points(axes, panel)
    if panel.log_y:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,.10g}")
    entries = len(panel.lines) + len(panel.marks)
    if entries > MANY:
        below = (0.5, -0.16)
        axes.legend(loc="upper center", bbox_to_anchor=below, ncols=2, fontsize=8, frameon=False)
    elif entries > 1:
        axes.legend(fontsize=8, frameon=False)


def _tick_at_points(axes: Axes, panel: Panel) -> None:
    """Few points over less than two powers of ten: each has a mark of its own."""
    from matplotlib.ticker import NullLocator

    axes.set_xticks(sorted({x for line in panel.lines for x in line.xs}))
    axes.xaxis.set_minor_locator(NullLocator())
