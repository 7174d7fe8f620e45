"""`place demo`: a city and its traffic on the real pipeline, with queries of every kind."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.layout import Layout
from rich.live import Live
from rich.panel import Panel
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from place.model.delta import Delta
from place.model.types import Row
from place.operate.compiling import Compiling, compiled_meanwhile, demo_statements
from place.operate.logs import add_log_options, start_logging
from place.operate.options import hush_spark, positive, set_up
from place.prompt import delta_text
from place.runtime.durable.home import check_writable
from place.runtime.durable.manifest import Manifest
from place.runtime.interface import durable
from place.session import Session, connect

if TYPE_CHECKING:
    from place.server.background import Serving

FRAMES = 4
"""How often a second the view is drawn."""
SPAN = 10.0
"""Seconds over which rates are taken."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "demo",
        help="watch a city: moving objects, queries of every kind, triggers, and their deltas",
        description="Runs the pipeline on Spark: 10,000 vehicles on the roads of a generated city,"
        " a step each second, and queries of every kind and triggers over them. Shows throughput,"
        " lag, answers and the deltas as they come, and serves the live map. Ctrl-C ends it with a"
        " summary, which compares what the deltas add up to with the answers.",
        epilog="the statements are those of place/demo.sql; for a slower start see place tour.",
    )
    parser.add_argument(
        "--seconds", type=positive, metavar="N", help="end by itself after so many seconds"
    )
    parser.add_argument("--objects", type=positive, default=10_000, metavar="N", help="(10000)")
    parser.add_argument(
        "--rate", type=positive, default=1, metavar="N", help="steps of the city a second (1)"
    )
    parser.add_argument("--seed", type=int, default=7, help="another city's traffic (7)")
    parser.add_argument(
        "--home", type=Path, metavar="DIR", help="keep everything there, to go on later"
    )
    parser.add_argument("--master", default="local[*]", metavar="URL", help="where Spark runs")
    parser.add_argument(
        "--port", type=int, default=8765, help="of the live map on this machine (8765)"
    )
    parser.add_argument("--no-map", action="store_true", help="without the live map")
    add_log_options(parser, "warning")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the demonstration; 0 if the deltas add up to the answers."""
    console = Console(highlight=False)
    stopping = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    start_logging(arguments)
    with contextlib.ExitStack() as stack:
        home = arguments.home or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="place-demo-"))
        )
        check_writable(home)
        session, watch, serving = _start(arguments, home, stack, console, stopping)
        if serving is not None:
            console.print(f"the live map is at [bold]{serving.address}[/]")
        try:
            _play(arguments, session, watch, serving, console, stopping)
            return 0 if _summarize(session, watch, console) else 1
        finally:
            hush_spark()


def _start(
    arguments: argparse.Namespace,
    home: Path,
    stack: contextlib.ExitStack,
    console: Console,
    stopping: threading.Event,
) -> tuple[Session, Watch, Serving | None]:
    """Start Spark and the map, and compile kernels meanwhile, telling how far it is."""
    compiling = Compiling()
    stack.callback(compiling.close)
    with _told(console, compiling) as told:
        if not arguments.no_map:  # FastAPI is large: it is imported while Java starts
            threading.Thread(target=import_module, args=("place.server.background",)).start()
        session = stack.enter_context(connect(home, master=arguments.master))
        watch = Watch(session)
        serving = None
        if not arguments.no_map:
            from place.server.background import serve_in_background

            serving = stack.enter_context(serve_in_background(session, home, arguments.port))
        told("Spark runs")
        if compiling.is_needed:
            compiling.wait(stopping.is_set)
            told("kernels are compiled")
    stack.enter_context(compiled_meanwhile())
    return session, watch, serving


@contextlib.contextmanager
def _told(console: Console, compiling: Compiling) -> Iterator[Callable[[str], object]]:
    """Say what is under way until all is there: bars on a terminal, lines elsewhere."""
    began = time.monotonic()
    if not console.is_terminal:
        console.print("starting Spark …")
        if compiling.is_needed:
            console.print("compiling kernels, once on this machine …")
        yield lambda done: console.print(f"{done} after {time.monotonic() - began:.0f} s")
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bars = {"Spark runs": progress.add_task("starting Spark", total=None)}
        if compiling.is_needed:
            words = "compiling kernels, once on this machine"
            bars["kernels are compiled"] = progress.add_task(words, total=compiling.steps)
        over = threading.Event()

        def follow() -> None:
            while not over.wait(1 / FRAMES):
                if compiling.is_needed:
                    progress.update(bars["kernels are compiled"], completed=compiling.done)

        following = threading.Thread(target=follow)
        following.start()
        try:
            yield lambda done: progress.update(bars[done], total=1, completed=1)
        finally:
            over.set()
            following.join()


def statements(arguments: argparse.Namespace) -> str:
    """The statements of the demonstration."""
    return demo_statements(arguments.objects, arguments.rate, arguments.seed)


class Watch:
    """What the ticks have told so far: counts, answers as the deltas make them, the last deltas."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._runtime = durable(session.runtime)
        self._lock = threading.Lock()
        self.began = time.monotonic()
        self.counts: Counter[tuple[str, int]] = Counter()
        self.answers: dict[str, Counter[Row]] = {}
        self.alerts: dict[str, Row] = {}
        """The last alert of each trigger; they are told, and never are an answer."""
        self.changed: dict[str, float] = {}
        self.recent: deque[Delta] = deque(maxlen=60)
        self.last: Manifest | None = None
        self.lag = 0.0
        self._past: deque[tuple[float, int, int]] = deque()
        names = [query.name for query in session.catalog.queries.values()]
        with self._runtime.pause():  # a home that was there before has answers already
            _, self.answers = self._runtime.answers(names)
            self._runtime.watch(self._take)

    def _take(self, manifest: Manifest) -> None:
        deltas = self._runtime.deltas.of(manifest).deltas()
        now = time.monotonic()
        triggers = {trigger.name for trigger in self._session.catalog.of_kind("trigger")}
        with self._lock:
            self.last = manifest
            for delta in deltas:
                self.counts[delta.query, delta.sign] += 1
                if delta.query in triggers:
                    self.alerts[delta.query] = delta.row
                else:
                    self.answers.setdefault(delta.query, Counter())[delta.row] += delta.sign
                self.changed[delta.query] = now
            self.recent.extend(deltas[-self.recent.maxlen :] if self.recent.maxlen else deltas)
            self._past.append((now, self.readings, self.counts.total()))
            while self._past[0][0] < now - SPAN:
                self._past.popleft()
            self.lag = float(manifest.metrics.get("lag", self.lag))

    @property
    def readings(self) -> int:
        """All readings so far."""
        totals = self.last.totals if self.last is not None else {}
        return sum(counts.get("readings", 0) for name, counts in totals.items() if name)

    @property
    def objects(self) -> int:
        """The objects that are alive."""
        totals = self.last.totals if self.last is not None else {}
        return sum(counts.get("objects", 0) for name, counts in totals.items() if name)

    @property
    def tick_seconds(self) -> float:
        """How long the last tick took."""
        return float(self.last.metrics.get("seconds", 0.0)) if self.last is not None else 0.0

    def rates(self) -> tuple[float, float]:
        """Readings and deltas a second, of late."""
        with self._lock:
            if len(self._past) < 2:
                return 0.0, 0.0
            then, now = self._past[0], self._past[-1]
            span = max(now[0] - then[0], 1e-3)
            return (now[1] - then[1]) / span, (now[2] - then[2]) / span

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """Nothing changes meanwhile."""
        with self._lock:
            yield


def _play(
    arguments: argparse.Namespace,
    session: Session,
    watch: Watch,
    serving: Serving | None,
    console: Console,
    stopping: threading.Event,
) -> None:
    """Set the city up, and show what happens until it should end."""
    failed: list[BaseException] = []

    def begin() -> None:
        try:
            set_up(session, statements(arguments))
            session.start()
        except BaseException as error:
            failed.append(error)
            stopping.set()

    working = threading.Thread(target=begin)
    working.start()
    try:
        with _shown(session, watch, serving, console) as show:
            until = time.monotonic() + (arguments.seconds or float("inf"))
            while not stopping.wait(1 / FRAMES) and time.monotonic() < until:
                durable(session.runtime).tend()
                show()
    finally:
        stopping.set()
        working.join()
        session.stop()
    if failed:
        raise failed[0]


@contextlib.contextmanager
def _shown(
    session: Session,
    watch: Watch,
    serving: Serving | None,
    console: Console,
) -> Iterator[Callable[[], object]]:
    """On a terminal a view that lives; elsewhere a line each second."""
    if console.is_terminal:
        view = View(session, watch, serving)
        with Live(view.draw(console.height), console=console, screen=True) as live:
            yield lambda: live.update(view.draw(console.height))
        return
    told = [0.0]

    def tell() -> None:
        if time.monotonic() - told[0] >= 1.0:
            told[0] = time.monotonic()
            readings, deltas = watch.rates()
            print(
                f"{told[0] - watch.began:5.0f} s  {len(session.catalog.queries)} queries"
                f"  {watch.objects:,} objects  {readings:,.0f} readings/s  {deltas:,.0f} deltas/s"
                f"  tick {watch.tick_seconds:.2f} s  lag {watch.lag:.1f} s",
                flush=True,
            )

    yield tell


class View:
    """The picture of the demonstration on a terminal."""

    def __init__(
        self,
        session: Session,
        watch: Watch,
        serving: Serving | None,
    ) -> None:
        self._session = session
        self._watch = watch
        self._serving = serving

    def draw(self, height: int) -> RenderableType:
        """The picture now."""
        layout = Layout()
        layout.split_column(Layout(self._head(), size=4), Layout(name="body"))
        layout["body"].split_row(
            Layout(self._queries(), ratio=3), Layout(self._deltas(height - 6), ratio=2)
        )
        return layout

    def _head(self) -> RenderableType:
        watch = self._watch
        readings, deltas = watch.rates()
        seconds = time.monotonic() - watch.began
        figures = Table.grid(padding=(0, 3))
        figures.add_row(
            f"[bold]{watch.objects:,}[/] objects",
            f"[bold]{readings:,.0f}[/] readings/s",
            f"[bold]{deltas:,.0f}[/] deltas/s",
            f"tick [bold]{watch.tick_seconds:.2f}[/] s",
            f"lag [bold]{watch.lag:.1f}[/] s",
            f"tick {watch.last.tick if watch.last else 0:,}",
        )
        where = f"live map: {self._serving.address}" if self._serving else "Ctrl-C ends it"
        title = f"PLACE on Spark · {seconds:,.0f} s"
        return Panel(figures, title=title, subtitle=where, border_style="cyan")

    def _queries(self) -> RenderableType:
        watch, now = self._watch, time.monotonic()
        grid = Table(expand=True, box=None, pad_edge=False)
        grid.add_column("query", no_wrap=True)
        grid.add_column("rows", justify="right")
        grid.add_column("+", justify="right", style="green")
        grid.add_column("−", justify="right", style="red")
        grid.add_column("some of its answer", no_wrap=True, overflow="ellipsis", ratio=1)
        with watch.still():
            for query in list(self._session.catalog.queries.values()):
                answer = +watch.answers.get(query.name, Counter())
                fresh = now - watch.changed.get(query.name, 0.0) < 0.6
                some = sorted(answer, key=repr)[:4]
                shown = "  ".join(_short(row) for row in some)
                if query.name in watch.alerts:
                    shown = f"alert {_short(watch.alerts[query.name])}"
                grid.add_row(
                    Text(query.name, style="bold yellow" if fresh else ""),
                    f"{answer.total():,}" if query.trigger is None else "–",
                    f"{watch.counts[query.name, 1]:,}",
                    f"{watch.counts[query.name, -1]:,}",
                    Text(shown, style="dim"),
                )
        return Panel(grid, title="continuous queries and triggers", border_style="blue")

    def _deltas(self, most: int) -> RenderableType:
        with self._watch.still():
            recent = list(self._watch.recent)[-max(1, most) :]
        lines = [delta_text(self._session, delta) for delta in recent]
        if not lines:
            queries = len(self._session.catalog.queries)
            what = f"the first answers of {queries} queries" if queries else "the statements"
            lines = [Text(f"waiting for {what} …", style="dim")]
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        return Panel(Group(*lines), title="deltas", border_style="blue")


def _short(row: Row) -> str:
    values = (f"{value:.1f}" if isinstance(value, float) else str(value) for value in row)
    return "(" + ", ".join(values) + ")"


def _summarize(session: Session, watch: Watch, console: Console) -> bool:
    """What was sent, and whether it adds up to the answers that the pipeline holds."""
    runtime = durable(session.runtime)
    names = [query.name for query in session.catalog.queries.values()]
    _, answers = runtime.answers(names)
    grid = Table(title="summary", title_justify="left")
    for column in ("query", "positive", "negative", "rows now", "deltas add up to the answer"):
        grid.add_column(column, justify="left" if column == "query" else "right")
    is_right = True
    told = {query.name for query in session.catalog.queries.values() if not query.only_adds}
    triggers = {trigger.name for trigger in session.catalog.of_kind("trigger")}
    for name in names:
        made = {row: n for row, n in watch.answers.get(name, Counter()).items() if n}
        same = made == dict(answers[name]) or name not in told  # or only rows that join are told
        counts = [watch.counts[name, sign] for sign in (1, -1)]
        well, rows = "yes", f"{answers[name].total():,}"
        if name in triggers:
            same = not counts[1] and not answers[name]
            well, rows = "alerts, none taken back", "–"
        is_right &= same
        verdict = f"[green]{well}[/]" if same else "[red]NO[/]"
        grid.add_row(name, *(f"{n:,}" for n in counts), rows, verdict)
    console.print(grid)
    seconds = time.monotonic() - watch.began
    positive_, negative = (
        sum(n for (_, sign), n in watch.counts.items() if sign == wanted) for wanted in (1, -1)
    )
    console.print(
        f"{seconds:,.0f} seconds, {watch.last.tick if watch.last else 0:,} ticks,"
        f" {watch.readings:,} readings, {positive_ + negative:,} deltas:"
        f" [green]{positive_:,} positive[/], [red]{negative:,} negative[/]"
    )
    if not is_right:
        print("place demo: deltas and answers differ; please report this", file=sys.stderr)
    return is_right
