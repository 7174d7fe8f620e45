"""`place serve`: the pipeline and its HTTP API in one process, which goes on where it stopped."""

from __future__ import annotations

import argparse
import contextlib
import logging
import re
import signal
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from place.errors import ConfigurationError, PlaceError, suggestion
from place.model.time import parse_duration
from place.operate.compiling import compiled_meanwhile
from place.operate.logs import add_log_options, start_logging
from place.operate.news import News
from place.operate.options import (
    add_idle_option,
    add_job_option,
    add_keep_option,
    add_spark_options,
    add_tick_option,
    hush_spark,
    open_session,
    positive,
    read_setup,
    set_up,
)
from place.operate.run import POLL, IdleClock
from place.runtime.interface import durable, tick_of
from place.runtime.tables import TableLoader
from place.server.settings import MIB, PMTILES, Quota, Settings, is_loopback
from place.server.store import ServerStore
from place.session import Session
from place.sql.limits import CLIENTS, Limits

if TYPE_CHECKING:
    from place.server.listener import Listener

LOG = logging.getLogger("place.serve")
PORT, PER_ADDRESS = 8765, 500
T = TypeVar("T", Limits, Quota)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "serve",
        help="serve queries, readings and deltas over HTTP, durable in a home directory",
        description="One process with the pipeline and its HTTP API: statements, readings, answers,"
        " deltas over WebSocket and server-sent events, webhooks, and the map. On loopback it needs"
        " no token until there is one (place token create); bound to any other address it refuses"
        " to start without. SIGTERM and Ctrl-C stop it after the tick that is under way; started"
        " again, it goes on.",
        epilog="example: place serve --home place-data --setup setup.sql",
    )
    parser.add_argument("--home", type=Path, required=True, help="the directory of all that lasts")
    parser.add_argument("--setup", type=Path, help="statements: streams, queries, sinks")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at (127.0.0.1)")
    parser.add_argument("--port", type=_port, default=PORT, help=f"the port ({PORT}; 0 for any)")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="where files of tables, sources and sinks are; statements that come over HTTP can name"
        " no others (HOME/data)",
    )
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="serve https with this")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="the key of the certificate")
    parser.add_argument(
        "--cors",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="let pages of this origin ask, as often as needed; none without it",
    )
    parser.add_argument(
        "--basemap", metavar="URL", help="tiles, or a PMTiles archive (also a file), for the map"
    )
    parser.add_argument(
        "--max-readings", type=positive, default=64, metavar="MIB", help="of one request (64)"
    )
    parser.add_argument(
        "--max-waiting",
        type=positive,
        default=2_000_000,
        metavar="N",
        help="readings that may wait for a tick before more are refused (2000000)",
    )
    parser.add_argument(
        "--private-webhooks",
        action="store_true",
        help="let clients have webhooks at addresses of private networks",
    )
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="NAME=N",
        help="how large a client's statements may be, as often as needed: columns=200 (see the"
        " table of limits in docs/language.md)",
    )
    parser.add_argument(
        "--quota",
        action="append",
        default=[],
        metavar="NAME=N",
        help="how much each client may have, as often as needed: queries=500 (place quota sets it"
        " for one of them)",
    )
    parser.add_argument(
        "--max-connections",
        type=positive,
        default=12_000,
        metavar="N",
        help="connections that may be open at a time (12000, or what the system has descriptors"
        " for)",
    )
    parser.add_argument(
        "--max-per-address",
        type=positive,
        metavar="N",
        help="of these, connections of one address (500; on loopback all of them)",
    )
    add_idle_option(parser)
    add_keep_option(parser)
    add_tick_option(parser)
    add_job_option(parser)
    add_spark_options(parser)
    add_log_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    idle = parse_duration(arguments.idle)
    text = read_setup(arguments.setup) if arguments.setup is not None else ""
    settings = settings_of(arguments)
    _check_door(arguments.home, settings)
    repeats = start_logging(arguments)
    stopping = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    # FastAPI is large: only who serves waits for it.
    from place.server.door import Door
    from place.server.front import fronting
    from place.server.listener import raise_descriptor_limit
    from place.server.state import Server

    began = time.monotonic()
    raise_descriptor_limit()
    door = Door(settings)
    with (
        _listening(arguments.host, arguments.port, settings) as listener,
        fronting(door, settings, listener, arguments.tls_cert, arguments.tls_key),
    ):
        address = _address(listener, settings.secure)
        LOG.info("listening at %s, at most %d connections", address, listener.most)
        with compiled_meanwhile(), open_session(arguments) as session:
            new = prepare(session, settings, text)
            runtime = durable(session.runtime)
            server = Server(session, arguments.home, settings, IdleClock(runtime, idle).look)
            news = News(runtime, repeats)
            with door.opened(server):
                print(
                    f"place serve: {address}, {arguments.home}, {new} new statements,"
                    f" {len(session.catalog.queries)} queries, tick {tick_of(runtime)}",
                    flush=True,
                )
                LOG.info("ready after %.1f s", time.monotonic() - began)
                session.start()
                while not stopping.wait(POLL):
                    news.look(time.monotonic())
            hush_spark()
            with contextlib.suppress(PlaceError):
                session.stop()
            print(f"place serve: stopped after tick {tick_of(runtime)}", flush=True)
    return 0


def settings_of(arguments: argparse.Namespace) -> Settings:
    """What the options ask for."""
    if (arguments.tls_cert is None) != (arguments.tls_key is None):
        raise ConfigurationError("--tls-cert and --tls-key belong together")
    _check_certificate(arguments.tls_cert, arguments.tls_key)
    for origin in arguments.cors:
        if not re.fullmatch(r"https?://[^/\s]+", origin):
            raise ConfigurationError(
                f"--cors {origin} is no origin", hint="write for example https://example.org"
            )
    _check_basemap(arguments.basemap)
    if arguments.home.exists() and not arguments.home.is_dir():
        raise ConfigurationError(f"{arguments.home} is not a directory")
    local = is_loopback(arguments.host)
    return Settings(
        data=(arguments.data or arguments.home / "data").absolute(),
        is_loopback=local,
        secure=arguments.tls_cert is not None,
        cors=tuple(arguments.cors),
        basemap=arguments.basemap,
        largest_readings=arguments.max_readings * MIB,
        most_waiting_readings=arguments.max_waiting,
        private_webhooks=arguments.private_webhooks,
        limits=_with_numbers(CLIENTS, "--limit", arguments.limit),
        quota=_with_numbers(Quota(), "--quota", arguments.quota),
        most_connections=arguments.max_connections,
        most_of_one_address=arguments.max_per_address or (None if local else PER_ADDRESS),
    )


def _check_basemap(given: str | None) -> None:
    """Tiles have an address with places for their numbers; anything else is an archive, at an
    address or in a file."""
    if given is None:
        return
    address = given.removeprefix("pmtiles://")
    if Path(address).is_file():
        with Path(address).open("rb") as file:
            if file.read(8) != PMTILES:
                raise ConfigurationError(f"--basemap {given} is no PMTiles archive of version 3")
        return
    if not address.startswith(("http://", "https://", "/")):
        raise ConfigurationError(
            f"--basemap {given} is no address, and no file",
            hint="it begins with https:// or /, or is the path of a PMTiles archive",
        )
    is_archive = urlsplit(address).path.endswith(".pmtiles")
    if not is_archive and not all(part in address for part in ("{z}", "{x}", "{y}")):
        raise ConfigurationError(
            f"--basemap {given} names neither tiles nor an archive of them",
            hint="write for example https://example.org/{z}/{x}/{y}.png or /maps/world.pmtiles",
        )


def _with_numbers(known: T, option: str, given: Sequence[str]) -> T:
    """Limits or quotas with the numbers that an option names."""
    names = [each.name for each in fields(known)]
    numbers: dict[str, int] = {}
    for text in given:
        name, sign, number = text.partition("=")
        if not sign or not number.isdecimal() or int(number) >= 1 << 62:
            raise ConfigurationError(
                f"{option} {text} is no name and number", hint=f"write {option} {names[0]}=1000"
            )
        if name not in names:
            raise ConfigurationError(
                f'{option} "{name}" does not exist', hint=suggestion(name, names, "names")
            )
        numbers[name] = int(number)
    return replace(known, **numbers)


def _port(text: str) -> int:
    """A port, or 0 for any that is free."""
    if not text.isdecimal() or int(text) >= 1 << 16:
        raise argparse.ArgumentTypeError(f"{text} is not a port (0 to 65535)")
    return int(text)


def _check_certificate(certificate: Path | None, key: Path | None) -> None:
    """A certificate and its key, before Spark is started for nothing."""
    for file in (certificate, key):
        if file is not None and not file.is_file():
            raise ConfigurationError(f"{file} is not there")
    if certificate is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(
                f"{certificate} and {key} are no certificate and its key: {error}"
            ) from None


def _check_door(home: Path, settings: Settings) -> None:
    """Whoever can be reached from elsewhere has to know who is asking."""
    if settings.is_loopback:
        return
    store = ServerStore(home)
    try:
        if not store.has_tokens():
            raise ConfigurationError(
                "there are no tokens, so it listens on loopback only",
                hint=f"make one first: place token create --home {home} --name me --role admin",
            )
    finally:
        store.close()


@contextlib.contextmanager
def _listening(host: str, port: int, settings: Settings) -> Iterator[Listener]:
    """The socket, before anything else: a port that is taken is known at once."""
    from place.server.listener import Listener

    listener = Listener(socket.AF_INET6 if ":" in host else socket.AF_INET, settings)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise ConfigurationError(f"{host}:{port} cannot be listened at: {error}") from None
        yield listener
    finally:
        listener.close()


def _address(listener: socket.socket, secure: bool) -> str:
    host, port = listener.getsockname()[:2]
    name = f"[{host}]" if ":" in host else host
    return f"{'https' if secure else 'http'}://{name}:{port}"


def prepare(session: Session, settings: Settings, setup: str) -> int:
    """Execute the setup; its relative paths start at the data directory, like all others."""
    settings.data.mkdir(parents=True, exist_ok=True)
    session.loader = TableLoader(settings.data)
    return set_up(session, setup)
