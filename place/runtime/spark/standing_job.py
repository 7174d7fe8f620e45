"""The standing cells as the driver has them: one long Spark job, a connection to each of its tasks.

Spark places the tasks, gives them their machines, and starts those again that fail where it can.
Where the job itself has ended, as it does on a local master as soon as a task fails, the driver
starts another one, of the next epoch. In either case the cell begins with the state that it has
saved last, takes the ticks since again, and gets the request under way again. What others have
answered meanwhile counts: what they wrote is in files.
"""

from __future__ import annotations

import logging
import pickle
import secrets
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pyspark import SparkContext

from place.engine.matrix import Matrix
from place.errors import ConfigurationError, PlaceError
from place.runtime.durable.saving import Pace
from place.runtime.durable.storage import Storage
from place.runtime.spark.catalogs import Catalogs
from place.runtime.spark.channel import (
    MOST_BYTES,
    STOP,
    TOKEN_BYTES,
    Connection,
    Disconnected,
    Terms,
    greet,
)
from place.runtime.spark.failure import failure_of
from place.runtime.spark.requests import Behind, Request, Restore
from place.runtime.spark.serve_cell import CellTask

LOG = logging.getLogger("place.spark")
LOOPBACK = "127.0.0.1"
POOL = "place-cells"
"""The scheduler pool of the standing job, so that it waits for no other job."""
PORT = "spark.place.channel.port"
"""The setting that names the port to listen at; without it, any that is free."""
PATIENCE = 60.0
"""Seconds for executors to come that have slots for all cells."""
CONNECTING = 180.0
"""Seconds for tasks to connect; on a busy machine a process of Python starts slowly."""
ENDING = 5.0
"""Seconds for tasks to end when they are told to, before Spark is told to end them."""
ATTEMPTS = 4
"""So often a request is sent, and a job started for it, before it fails."""
STRANGERS = 32
"""So many connections may be proving who they are at a time."""

_STANDING: Counter[str] = Counter()
"""The standing cells of this process, by the Spark application that they run in."""


@dataclass
class _Job:
    """A Spark job whose tasks are the cells of an epoch."""

    epoch: int
    has_ended: bool = False
    failure: str | None = None
    thread: threading.Thread | None = None


@dataclass(eq=False)
class _Cell:
    """A cell that is connected, and the versions of the catalog that it holds."""

    connection: Connection
    held: set[int] = field(default_factory=set)


class StandingCells:
    """All cells of a matrix, asked together. One thread at a time may ask.

    `past` tells what a cell that is behind has to begin with.
    """

    def __init__(
        self,
        context: SparkContext,
        storage: Storage,
        matrix: Matrix,
        threads: int,
        catalogs: Catalogs,
        past: Callable[[str], Restore],
        pace: Pace,
    ) -> None:
        self._context = context
        self._application = str(context.applicationId)
        self._storage, self._matrix, self._threads = storage, matrix, threads
        self._catalogs = catalogs
        self._past, self._pace = past, pace
        self._count = matrix.rows * matrix.columns
        self._group = f"place-cells-{uuid.uuid4().hex[:8]}"
        self._token = secrets.token_bytes(TOKEN_BYTES)
        self._cells: dict[int, _Cell] = {}
        self._job: _Job | None = None
        self._epoch = self._number = 0
        self.admitted = 0
        """How many cells have connected so far; one that was lost comes again."""
        self._changed = threading.Condition()
        self._strangers = threading.BoundedSemaphore(STRANGERS)
        self._is_closing = False
        self._check_slots()
        host, self._listener = _listen(context)
        self.address: tuple[str, int] = host, self._listener.getsockname()[1]
        """Where cells connect."""
        threading.Thread(target=self._accept, name="place-cells-door", daemon=True).start()
        _STANDING[self._application] += self._count
        with self._changed:
            self._launch()

    @property
    def epoch(self) -> int:
        """The number of the job that runs; others before it have ended."""
        return self._epoch

    # What the pipeline asks

    def ask(self, request: Request) -> list[Any]:
        """What each cell answers, in the order of the matrix; one that is lost is asked again."""
        answers: dict[int, tuple[bool, Any]] = {}
        for attempt in range(ATTEMPTS):
            cells = self._gathered()
            lost: list[str] = []
            waiting = {n: cell for n, cell in enumerate(cells) if n not in answers}
            found = self._exchange(waiting, dict.fromkeys(waiting, request), attempt == 0, lost)
            behind = {n: cell for n, cell in waiting.items() if _is_behind(found.get(n))}
            if behind:
                past = {n: self._past(self._name(n)) for n in behind}
                restored = self._exchange(behind, past, False, lost)
                _succeeded(list(restored.values()))
                again = {n: behind[n] for n in restored}
                found |= self._exchange(again, dict.fromkeys(again, request), attempt == 0, lost)
            answers |= {n: each for n, each in found.items() if not _is_behind(each)}
            if len(answers) == self._count:
                return _succeeded([answers[number] for number in range(self._count)])
            if lost:
                LOG.warning("a cell was lost, and goes on from its last state: %s", lost[0])
        raise ConfigurationError(
            f"the tick failed: a cell was lost {ATTEMPTS} times: {(*lost, 'it has no state')[0]}",
            hint="the logs of Spark's executors say why; it may be their memory",
        )

    def gather(self) -> None:
        """Wait until all cells are connected."""
        self._gathered()

    def _name(self, number: int) -> str:
        place = self._matrix.places()[number]
        return f"{place.row}-{place.column}"

    def _exchange(
        self,
        cells: Mapping[int, _Cell],
        requests: Mapping[int, Request],
        is_first: bool,
        lost: list[str],
    ) -> dict[int, tuple[bool, Any]]:
        """Send cells their requests, all before any answer is waited for; the answers of those
        that are not lost."""
        packed: dict[int, bytes] = {}
        for request in {id(each): each for each in requests.values()}.values():
            packed[id(request)] = pickle.dumps(request, pickle.HIGHEST_PROTOCOL)
        # What cannot be sent fails before anything is.
        messages = {
            n: self._message(cell, is_first, packed[id(requests[n])], requests[n].versions)
            for n, cell in cells.items()
        }
        self._number += 1
        answers: dict[int, tuple[bool, Any]] = {}
        try:
            sent = [n for n, cell in cells.items() if self._send(cell, messages[n], lost)]
            for n in sent:
                answer = self._receive(cells[n], requests[n].versions, lost)
                if answer is not None:
                    answers[n] = answer
        except BaseException:  # interrupted: nobody would know whose answer comes next
            self._part(list(cells.values()))
            raise
        return answers

    def _message(self, cell: _Cell, is_first: bool, content: bytes, wanted: Sequence[int]) -> bytes:
        """A request with what the cell does not know of the catalogs that it needs."""
        updates = self._catalogs.updates(cell.held, *wanted)
        message = pickle.dumps((is_first, updates, content), pickle.HIGHEST_PROTOCOL)
        if len(message) > MOST_BYTES:
            raise ConfigurationError(
                f"the catalog is too large for a cell: {len(message):,} bytes",
                hint=f"at most {MOST_BYTES:,} can be sent; keep regions in query tables",
            )
        return message

    def _send(self, cell: _Cell, message: bytes, lost: list[str]) -> bool:
        try:
            cell.connection.send(self._number, message)
        except Disconnected as error:
            self._lose(cell, str(error), lost)
            return False
        return True

    def _receive(
        self, cell: _Cell, wanted: Sequence[int], lost: list[str]
    ) -> tuple[bool, Any] | None:
        try:
            number, content = cell.connection.receive()
            if number != self._number:
                raise Disconnected(f"it answers request {number}, not {self._number}")
        except Disconnected as error:
            self._lose(cell, str(error), lost)
            return None
        answer: tuple[bool, Any] = pickle.loads(content)
        # A cell that has failed may have done so before it knew what came with the request.
        cell.held = set(wanted) if answer[0] else set()
        return answer

    def _lose(self, cell: _Cell, why: str, lost: list[str]) -> None:
        lost.append(f"cell {cell.connection.cell}, epoch {cell.connection.epoch}: {why}")
        self._part([cell])

    def _part(self, cells: Sequence[_Cell]) -> None:
        with self._changed:
            for cell in cells:
                if self._cells.get(cell.connection.cell) is cell:
                    del self._cells[cell.connection.cell]
                cell.connection.close()

    def _gathered(self) -> list[_Cell]:
        """All cells, connected; the job is started again if it has ended."""
        until = time.monotonic() + CONNECTING
        launches = 0
        with self._changed:
            while len(self._cells) < self._count:
                if self._is_closing:
                    raise ConfigurationError("the session is closed")
                if self._job is None or self._job.has_ended:
                    if launches == ATTEMPTS:
                        raise _failure(self._job)
                    launches += 1
                    self._launch()
                if not self._changed.wait(max(0.0, until - time.monotonic())):
                    raise _too_few(self._count, self._slots(), len(self._cells))
            return [self._cells[number] for number in range(self._count)]

    # The job

    def _launch(self) -> None:
        """Start a job of the next epoch; cells of the one before are no longer heard."""
        for cell in self._cells.values():
            cell.connection.close()
        self._cells.clear()
        self._epoch += 1
        if self._epoch > 1:
            LOG.info("the cells are started again (epoch %d)", self._epoch)
        job = self._job = _Job(self._epoch)
        name = f"place-cells-{self._epoch}"
        job.thread = threading.Thread(target=self._run, args=(job,), name=name, daemon=True)
        job.thread.start()

    def _run(self, job: _Job) -> None:
        """Have Spark run the cells, until they end or fail; in a thread of its own."""
        terms = Terms(*self.address, job.epoch, self._token)
        task = CellTask(terms, self._storage, self._matrix, self._threads, self._pace)
        try:
            # Both are properties of this thread: ordinary jobs run beside this one.
            self._context.setJobGroup(self._group, "the standing cells of PLACE")
            self._context.setLocalProperty("spark.scheduler.pool", POOL)
            numbers = self._context.parallelize(range(self._count), self._count)
            if not self._is_closing:
                numbers.mapPartitions(task).collect()
        except Exception as error:  # of Spark, or of the bridge to Java: the text has the cause
            job.failure = str(error)
        with self._changed:
            job.has_ended = True
            self._changed.notify_all()

    # The door

    def _accept(self) -> None:
        """Let those in who prove that they are cells."""
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                if self._is_closing:
                    return
                time.sleep(0.1)  # no more descriptors, perhaps
                continue
            if self._strangers.acquire(blocking=False):
                threading.Thread(target=self._meet, args=(sock,), daemon=True).start()
            else:
                sock.close()

    def _meet(self, sock: socket.socket) -> None:
        connection: Connection | None = None
        try:
            connection = greet(sock, self._token, self._expects)
        except OSError as error:
            LOG.warning("a connection to the cells' channel is refused: %s", error)
        finally:
            self._strangers.release()
            if connection is None:
                sock.close()
        if connection is not None:
            self._admit(connection)

    def _expects(self, epoch: int, cell: int) -> bool:
        return epoch == self._epoch and cell < self._count and not self._is_closing

    def _admit(self, connection: Connection) -> None:
        with self._changed:
            if not self._expects(connection.epoch, connection.cell):
                connection.close()
                return
            before = self._cells.pop(connection.cell, None)
            if before is not None:  # Spark has given that task up
                before.connection.close()
            self._cells[connection.cell] = _Cell(connection)
            self.admitted += 1
            self._changed.notify_all()

    # Slots

    def _slots(self) -> int:
        """How many tasks Spark can run at a time, of all that this process does there."""
        scala: Any = self._context._jsc.sc()
        profile = scala.resourceProfileManager().defaultResourceProfile()
        return int(scala.maxNumConcurrentTasks(profile))

    def _check_slots(self) -> None:
        """Raise if cells would wait for each other, or leave nothing for Spark's other jobs."""
        wait = 0.0 if str(self._context.master).startswith("local") else PATIENCE
        until = time.monotonic() + wait
        needed = self._count + _STANDING[self._application] + 1
        while (slots := self._slots()) < needed:
            if time.monotonic() >= until:
                raise _too_few(self._count, slots, None, needed)
            time.sleep(0.2)

    def close(self) -> None:
        """Let the cells end, and the job with them."""
        with self._changed:
            if self._is_closing:
                return
            self._is_closing = True
            all_are_here = len(self._cells) == self._count
            for cell in self._cells.values():
                with suppress(Disconnected):
                    cell.connection.send(STOP, b"")
            self._changed.notify_all()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        if self._job is not None and self._job.thread is not None:
            if all_are_here:
                self._job.thread.join(ENDING)
            if self._job.thread.is_alive():
                with suppress(Exception):  # Spark is gone, or about to
                    self._context.cancelJobGroup(self._group)
                self._job.thread.join(ENDING)
        self._part(list(self._cells.values()))
        _STANDING[self._application] -= self._count


def _listen(context: SparkContext) -> tuple[str, socket.socket]:
    """A socket for cells to connect to, and the name by which they find it: of this machine alone
    unless the master is elsewhere."""
    settings = context.getConf()
    host = bound = LOOPBACK
    if not str(context.master).startswith("local"):
        host = str(settings.get("spark.driver.host", LOOPBACK)).strip("[]")
        bound = str(settings.get("spark.driver.bindAddress", host)).strip("[]")
    port = int(settings.get(PORT, "0") or 0)
    try:
        family, _, _, _, address = socket.getaddrinfo(
            bound, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return host, socket.create_server(address[:2], family=family, backlog=STRANGERS)
    except OSError as error:
        raise ConfigurationError(
            f"cells cannot connect to this machine at {bound}, port {port or 'any'}: {error}",
            hint=f"set spark.driver.bindAddress or {PORT} to one that is free",
        ) from None


def _is_behind(answer: tuple[bool, Any] | None) -> bool:
    return answer is not None and isinstance(answer[1], Behind)


def _succeeded(answers: Sequence[tuple[bool, Any]]) -> list[Any]:
    for is_done, answer in answers:
        if not is_done:
            raise failure_of(answer)
    return [answer for _, answer in answers]


def _failure(job: _Job | None) -> PlaceError:
    if job is None or job.failure is None:
        return ConfigurationError("the cells do not run, and Spark does not say why")
    return failure_of(job.failure)


def _too_few(
    cells: int, slots: int, connected: int | None, needed: int | None = None
) -> ConfigurationError:
    """Spark does not run all cells at a time."""
    needed = needed or cells + 1
    running = "" if connected is None else f", and {connected} run after {CONNECTING:g} seconds"
    return ConfigurationError(
        f"{cells} cells need {needed} slots of Spark, one of them for its other jobs;"
        f" it has {slots}{running}",
        hint=f"start Spark with more (--master local[{needed}], or more cores for its executors),"
        " or take fewer cells (--cells 1x1)",
    )
