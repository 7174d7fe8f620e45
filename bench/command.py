"""`place bench`: the experiments as commands, each with figures that were measured in one run."""

from __future__ import annotations

import argparse
import os
from dataclasses import fields
from pathlib import Path

from rich.console import Console

from bench import (
    approaches,
    cache,
    dispatch,
    history,
    knn,
    latency,
    match,
    pairs,
    papers,
    pipeline,
    progressive,
    register,
    rules_command,
    scale,
    serve,
    skew,
    store,
    stream,
    tick,
    triggers_command,
    ways,
)
from bench.figures import number, share, tell
from bench.stream_city import SHAPES
from place.errors import ConfigurationError
from place.model.space import Space


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "bench",
        help="measure the kernels, beside what others need for the same work",
        description="Measures the kernels, and what retention misses. Tables of times have the "
        "seconds that this machine needs to sort five million numbers (0.28 on a quiet machine of "
        "2026): compare ratios of one run, not times of several.",
        epilog="example: place bench match --objects 1000000 --queries 1000000 --side 0.002",
    )

    def show_help(_: argparse.Namespace) -> int:
        parser.print_help()
        return 0

    parser.set_defaults(run=show_help)
    benches = parser.add_subparsers(title="experiments", metavar="EXPERIMENT")
    _add_match(benches)
    _add_progressive(benches)
    _add_stream(benches)
    _add_register(benches)
    _add_skew(benches)
    _add_knn(benches)
    _add_dispatch(benches)
    _add_tick(benches)
    _add_serve(benches)
    _add_latency(benches)
    ways.add_parser(benches)
    approaches.add_parser(benches)
    pairs.add_parser(benches)
    rules_command.add_parsers(benches)
    cache.add_parser(benches)
    store.add_parser(benches)
    history.add_parser(benches)
    pipeline.add_parser(benches)
    scale.add_parser(benches)
    triggers_command.add_parser(benches)
    papers.add_parser(benches)


def _add_match(benches: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = benches.add_parser(
        "match",
        help="the bulk join, beside an R-tree (Shapely) and a database (DuckDB)",
        description="Objects and square queries walk about a quarter of a query's side in every "
        "tick. The kernel tells what changed; Shapely's STRtree and DuckDB in memory evaluate all "
        "queries again and compare with their last answer. All have to find the same deltas.",
        epilog="example: place bench match --objects 100000 --queries 100000 --side 0.01 "
        "--moving 0.1 --json match.json",
    )
    default = match.Setting()
    _add_sizes(parser, default.objects, default.queries, default.side)
    parser.add_argument(
        "--moving", type=share, default=default.moving, metavar="F", help="share that moves (1)"
    )
    _add_ticks(parser, default.ticks)
    parser.set_defaults(run=run_match)


def _add_progressive(benches: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = benches.add_parser(
        "progressive",
        help="readings one by one, without and with focal ones",
        description="Readings are taken one by one on one core, each an instant of its own. A "
        "focal reading also moves the query that its object leads. With --beside the engine is "
        "measured instead of the kernel: squares that stand are the rows of a query table, and "
        "all readings are one push, once without and once with an aggregate, a window and a kNN "
        "query beside them. share is beside_readings_per_s / readings_per_s.",
        epilog="examples: place bench progressive --focal 0.1; "
        "place bench progressive --beside --readings 20000",
    )
    default = progressive.Setting()
    _add_sizes(parser, default.objects, default.queries, default.side)
    parser.add_argument(
        "--readings", type=number, default=default.readings, metavar="N", help="how many (200000)"
    )
    parser.add_argument(
        "--focal", type=share, metavar="F", help="share of focal readings (both 0 and 0.1)"
    )
    parser.add_argument(
        "--beside",
        action="store_true",
        help="the engine, without and with an aggregate, a window and a kNN query beside",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.set_defaults(run=run_progressive)


def _add_stream(benches: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = benches.add_parser(
        "stream",
        help="the engine on a stream of many small instants, beside NumPy and Shapely in bulk",
        description="500 vehicles drive in a city, and one of them reports every 0.16 seconds: "
        "times are whole seconds, so that an instant has about six readings. Regions are of such "
        "a size that there are about five deltas for each reading. Queries are registered one by "
        "one, and all readings are pushed at once, by columns, to the local runtime. The rival "
        "knows all readings beforehand, tests both ends of each step of a vehicle by NumPy and "
        "Shapely, and tells them apart: both have to find the same deltas. ratio is baseline_s / "
        "seconds: how many times as fast as the rival the engine is. Times are medians of three "
        "sessions.",
        epilog="example: place bench stream --readings 20000 --shape mixed --json stream.json",
    )
    default = stream.Setting()
    for name, what in (
        ("readings", "readings"),
        ("queries", "regions, each of a query of its own"),
    ):
        value = getattr(default, name)
        parser.add_argument(
            f"--{name}", type=number, default=value, metavar="N", help=f"{what} ({value})"
        )
    parser.add_argument(
        "--shape",
        choices=(*SHAPES, "mixed"),
        default=default.shape,
        help="what the regions are; mixed is a third of each (circle)",
    )
    parser.add_argument(
        "--space",
        choices=[space.value for space in Space],
        default=default.space,
        help="metres in the plane or degrees on the sphere (wgs84)",
    )
    parser.add_argument(
        "--moving",
        type=number,
        default=default.moving,
        metavar="M",
        help="circles around M vehicles, in the place of the regions that stand",
    )
    for option, what in (
        ("one-by-one", "each reading has a time of its own: one reading an instant"),
        ("aggregate", "beside the regions a query with COUNT and AVG of a large circle"),
        ("window", "beside the regions a large circle with WINDOW 1 MINUTE"),
        ("knn", "beside the regions a query for the 10 nearest of the middle"),
    ):
        parser.add_argument(f"--{option}", action="store_true", help=what)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.set_defaults(run=run_stream)


def _add_register(benches: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = benches.add_parser(
        "register",
        help="queries registered by a text of statements, and as a query table",
        description="REGISTER QUERY statements that differ in their rectangles stand in one text, "
        "which is executed on the local runtime and on Spark, and dropped again; the same "
        "rectangles are loaded from a file and registered as a query table. All have to cause the "
        "same deltas. Figures are statements, or rows, a second; exponent says how the time of a "
        "text grows with its length, from 1,000 queries on (1 is in proportion).",
        epilog="example: place bench register --queries 100000 --json register.json",
    )
    default = register.Setting()
    parser.add_argument(
        "--queries",
        type=number,
        default=default.queries,
        metavar="N",
        help=f"queries in one text ({default.queries})",
    )
    parser.add_argument(
        "--no-spark", dest="spark", action="store_false", help="only on the local runtime"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.set_defaults(run=run_register)


def _add_skew(benches: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = benches.add_parser(
        "skew",
        help="a crowded world beside an even one",
        description="90% of the objects and queries are in 1% of the space, and queries are so "
        "much smaller that they hold as many objects; beside it the even spread.",
        epilog="example: place bench skew --objects 1000000 --queries 1000000 --side 0.002",
    )
    default = skew.Setting()
    _add_sizes(parser, default.objects, default.queries, default.side)
    _add_ticks(parser, default.ticks)
    parser.set_defaults(run=run_skew)


def _add_knn(benches: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = benches.add_parser(
        "knn",
        help="the k nearest objects of moving queries, beside a k-d tree (SciPy)",
        description="Objects walk in the unit square, and every query asks for the k objects that "
        "are nearest to its own. The kernel tells who came and who left; SciPy's cKDTree is built "
        "and asked again in every tick, on all cores, and tells no changes. Both have to find the "
        "same members, and the changes have to lead from the last answers to these.",
        epilog="example: place bench knn --objects 100000 --queries 100000 --k 10 "
        "--moving 0.1 --json knn.json",
    )
    default = knn.Setting()
    for name, value, what in (
        ("objects", default.objects, "objects"),
        ("queries", default.queries, "queries, each around an object of its own"),
        ("k", default.k, "objects that each query asks for"),
    ):
        metavar = "K" if name == "k" else "N"
        parser.add_argument(
            f"--{name}", type=number, default=value, metavar=metavar, help=f"{what} ({value})"
        )
    parser.add_argument(
        "--moving", type=share, default=default.moving, metavar="F", help="share that moves (1)"
    )
    _add_ticks(parser, default.ticks)
    parser.set_defaults(run=run_knn)


def _add_dispatch(benches: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = benches.add_parser(
        "dispatch",
        help="the nearest drivers of each call through the engine, beside a k-d tree (SciPy)",
        description="Calls and drivers walk in the unit square, and the query is SELECT c.id, d.id "
        "FROM Calls c, Drivers d kNN (k, c). engine_s is the engine's operator, from what objects "
        "were and are to the rows that come and go; cell_s is a whole cell, which finds readings "
        "by their keys, keeps them and tells changes as Arrow; kernel_s is the search alone. "
        "SciPy's cKDTree is built and asked again in every tick, on all cores, and its answer is "
        "told apart from the last one. Both have to find the same changes. ratio is ckdtree_s / "
        "engine_s.",
        epilog="example: place bench dispatch --calls 10000 --drivers 100000 --k 3 --moving 0.1 "
        "--json dispatch.json",
    )
    default = dispatch.Setting()
    for name, metavar, what in (
        ("calls", "N", "calls"),
        ("drivers", "M", "drivers"),
        ("k", "K", "drivers that each call asks for"),
    ):
        value = getattr(default, name)
        parser.add_argument(
            f"--{name}", type=number, default=value, metavar=metavar, help=f"{what} ({value})"
        )
    parser.add_argument(
        "--moving", type=share, default=default.moving, metavar="F", help="share that moves (1)"
    )
    _add_ticks(parser, default.ticks)
    parser.set_defaults(run=run_dispatch)


def _add_tick(benches: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = benches.add_parser(
        "tick",
        help="a whole durable tick of the pipeline on Spark, beside DuckDB in a transaction",
        description="Readings go through the pipeline on Spark, a file a tick, to a committed"
        " manifest with readings and deltas on disk; every query is a square around an object."
        " tick_s is the time from commit to commit, floor_s that of the same pipeline with 10"
        " readings, duckdb_s that of DuckDB finding and keeping the same changes in a durable"
        " transaction on the same files. All have to find the same deltas.",
        epilog="example: place bench tick --objects 1000000 --queries 1000000 --side 0.002 "
        "--moving 0.1 --json tick.json",
    )
    default = tick.Setting()
    _add_sizes(parser, default.objects, default.queries, default.side)
    parser.add_argument(
        "--moving", type=share, default=default.moving, metavar="F", help="share that moves (1)"
    )
    parser.add_argument(
        "--ticks", type=number, default=default.ticks, metavar="T", help="measured ticks (9)"
    )
    parser.add_argument(
        "--cells", metavar="RxC", help="rows of objects by columns of queries (1x1)"
    )
    parser.add_argument(
        "--source",
        choices=("files", "push"),
        default=default.source,
        help="who reads the files: Spark, as a source, or who pushes their readings (files)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.set_defaults(run=run_tick)


def _add_serve(benches: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = benches.add_parser(
        "serve",
        help="a server under load: readings through HTTP, deltas to WebSockets",
        description="Starts a server, registers square queries, connects subscribers, and posts "
        "readings at a rate. p50_ms and p99_ms are the milliseconds from the post to the "
        "subscriber; MiB are those of all processes of the server, and of the one that serves, at "
        "the start and at the end. The ids that each subscriber gets have to grow, and the answer "
        "that its deltas build up has to be the server's.",
        epilog="example: place bench serve --subscribers 500 --rate 20000",
    )
    default = serve.Setting()
    for name, what in (
        ("subscribers", "WebSockets, each with a query of its own"),
        ("rate", "readings a second"),
        ("seconds", "how long"),
        ("queries", "registered queries"),
        ("objects", "objects that move"),
    ):
        value = getattr(default, name)
        parser.add_argument(
            f"--{name}", type=number, default=value, metavar="N", help=f"{what} ({value})"
        )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.set_defaults(run=run_serve)


def _add_latency(benches: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = benches.add_parser(
        "latency",
        help="a small durable tick beside a Spark job, and a reading from HTTP to a WebSocket",
        description="tick_ms is a tick of ten pushed readings, with everything synced, and job_ms "
        "the smallest Spark job of one Python task, by turns in one process; ratio is tick_ms / "
        "job_ms. Then a server has that many fences registered, each a query of its own: "
        "post_to_delta is from the post of a reading over HTTP until its delta has come at a "
        "WebSocket. All are medians but p99.",
        epilog="example: place bench latency --fences 10000 --json latency.json",
    )
    default = latency.Setting()
    for name, what in (
        ("fences", "registered fences"),
        ("times", "how often each is measured"),
    ):
        value = getattr(default, name)
        parser.add_argument(
            f"--{name}", type=number, default=value, metavar="N", help=f"{what} ({value})"
        )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.set_defaults(run=run_latency)


def _add_sizes(parser: argparse.ArgumentParser, objects: int, queries: int, side: float) -> None:
    parser.add_argument(
        "--objects", type=number, default=objects, metavar="N", help=f"objects ({objects})"
    )
    parser.add_argument(
        "--queries", type=number, default=queries, metavar="N", help=f"queries ({queries})"
    )
    parser.add_argument(
        "--side",
        type=share,
        default=side,
        metavar="S",
        help=f"side of a query in the unit square ({side})",
    )


def _add_ticks(parser: argparse.ArgumentParser, ticks: int) -> None:
    parser.add_argument(
        "--ticks", type=number, default=ticks, metavar="T", help=f"measured ticks ({ticks})"
    )
    parser.add_argument(
        "--threads",
        type=number,
        default=os.cpu_count() or 1,
        metavar="K",
        help="threads of each contestant (all cores)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")


def run_match(arguments: argparse.Namespace) -> int:
    """Run `place bench match`."""
    if arguments.side == 0.0:
        raise ConfigurationError("queries of side 0 hold nothing", hint="write --side 0.01")
    names = ("objects", "queries", "side", "moving", "ticks", "threads")
    figures = match.measure(match.Setting(**{name: getattr(arguments, name) for name in names}))
    tell("match", [figures.as_json()], arguments.json)
    return 0


def run_knn(arguments: argparse.Namespace) -> int:
    """Run `place bench knn`."""
    names = ("objects", "queries", "k", "moving", "ticks", "threads")
    figures = knn.measure(knn.Setting(**{name: getattr(arguments, name) for name in names}))
    tell("knn", [figures.as_json()], arguments.json)
    return 0


def run_dispatch(arguments: argparse.Namespace) -> int:
    """Run `place bench dispatch`."""
    names = ("calls", "drivers", "k", "moving", "ticks", "threads")
    setting = dispatch.Setting(**{name: getattr(arguments, name) for name in names})
    tell("dispatch", [dispatch.measure(setting).as_json()], arguments.json)
    return 0


def run_tick(arguments: argparse.Namespace) -> int:
    """Run `place bench tick`."""
    if arguments.side == 0.0:
        raise ConfigurationError("queries of side 0 hold nothing", hint="write --side 0.01")
    names = ("objects", "queries", "side", "moving", "ticks", "cells", "source")
    setting = tick.Setting(**{name: getattr(arguments, name) for name in names})
    figures = tick.measure(setting, Console(highlight=False, stderr=True))
    tell("tick", [figures.as_json()], arguments.json)
    return 0


def run_serve(arguments: argparse.Namespace) -> int:
    """Run `place bench serve`."""
    names = ("subscribers", "rate", "seconds", "queries", "objects")
    setting = serve.Setting(**{name: getattr(arguments, name) for name in names})
    if setting.subscribers > setting.queries:
        raise ConfigurationError("each subscriber has a query of its own: there are too few")
    figures = serve.measure(setting, Console(highlight=False, stderr=True))
    tell("serve", [figures.as_json()], arguments.json)
    return 0


def run_progressive(arguments: argparse.Namespace) -> int:
    """Run `place bench progressive`."""
    sizes = (arguments.objects, arguments.queries, arguments.side, arguments.readings)
    if arguments.beside:
        if arguments.focal is not None:
            raise ConfigurationError("--beside has no focal readings", hint="leave --focal out")
        beside = progressive.measure_beside(progressive.Setting(*sizes))
        tell("progressive", [beside.as_json()], arguments.json)
        return 0
    shares = (0.0, 0.1) if arguments.focal is None else (arguments.focal,)
    figures = [
        progressive.measure(progressive.Setting(*sizes, share)).as_json() for share in shares
    ]
    tell("progressive", figures, arguments.json)
    return 0


def run_stream(arguments: argparse.Namespace) -> int:
    """Run `place bench stream`."""
    names = [field.name for field in fields(stream.Setting)]
    setting = stream.Setting(**{name: getattr(arguments, name) for name in names})
    figures = stream.measure(setting, Console(highlight=False, stderr=True))
    tell("stream", [figures.as_json()], arguments.json)
    return 0


def run_register(arguments: argparse.Namespace) -> int:
    """Run `place bench register`."""
    setting = register.Setting(arguments.queries, arguments.spark)
    figures = register.measure(setting, Console(highlight=False, stderr=True))
    tell("register", [figures.as_json()], arguments.json)
    return 0


def run_skew(arguments: argparse.Namespace) -> int:
    """Run `place bench skew`."""
    names = ("objects", "queries", "side", "ticks", "threads")
    figures = skew.measure(skew.Setting(**{name: getattr(arguments, name) for name in names}))
    tell("skew", [figures.as_json()], arguments.json)
    return 0


def run_latency(arguments: argparse.Namespace) -> int:
    """Run `place bench latency`."""
    setting = latency.Setting(arguments.fences, arguments.times)
    figures = latency.measure(setting, Console(highlight=False, stderr=True))
    tell("latency", [figures.as_json()], arguments.json)
    return 0
