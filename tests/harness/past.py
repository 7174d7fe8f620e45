"""A script that is run, and then asked about its past.

Every stream of it has an archive. When it is over, its queries and its SELECTs are asked about
instants and times of all that has been, on the runtime and on the reference, which have to agree;
and what a query has told live has to be what the archive says of it. Its queries also begin once
more in the past, and some of its readings come once more, later: both have to go on alike.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from place.errors import PlaceError
from place.model.delta import Answer, Delta
from place.model.time import SECOND, format_timestamp
from place.model.types import Row
from place.plan.query import Query
from place.script.blocks import EPOCH, InstantBlock, StatementBlock, parse_script
from place.script.command import opener
from place.script.runner import Batching, ScriptFailure
from place.session import Session
from tests.harness.search import ScriptWithFiles

_TIME = re.compile(r"(FROM .*?)(?= WHERE | [a-z] INSIDE | INSIDE | kNN | GROUP | HAVING |$)")


def with_archives(text: str, option: str = "archive = 'all'") -> str:
    """The script with an archive for each of its streams."""
    made = []
    for line in text.split("\n"):
        parts = []
        for part in line.split(";"):
            if part.strip().startswith("CREATE STREAM"):
                head, _, options = part.partition(" WITH (")
                rest = options.removesuffix(")")
                part = f"{head} WITH ({', '.join(filter(None, [rest, option]))})"
            parts.append(part)
        made.append(";".join(parts))
    return "\n".join(made)


def with_time(select: str, time: str) -> str | None:
    """A SELECT with a time behind its FROM; None where that has to stand elsewhere."""
    if "WINDOW PREVIOUS" not in select and re.search(r" [A-Z] WINDOW [^,]*,", select):
        return None
    head, found, rest = (
        select.partition(" WINDOW ") if " WHERE " not in select else (select, "", "")
    )
    match = _TIME.search(head)
    if match is None:
        return None
    return f"{head[: match.end(1)]} {time}{head[match.end(1) :]}{found}{rest}"


CHANGING = ("REFRESH", "RESET", "INSERT INTO", "DELETE FROM")
"""Statements after which the past is asked about other tables, or other times, than live answers
were of."""


class PastRunner(ScriptWithFiles):
    """Runs a script, keeps what it tells, and asks about its past in the end."""

    questions = 12
    seed = 0

    def run(self):  # type: ignore[no-untyped-def]
        self.log: list[Delta] = []
        self.since: dict[str, int] = {}
        self.selects: list[str] = []
        self.asked = self.answered = self.late = 0
        self.is_refreshed = self.is_over = False
        return super().run()

    def _flush(self) -> None:
        super()._flush()
        if self._block is self.script.blocks[-1] and not self.is_over:
            self.is_over = True
            self.ask_all()

    def _compare(self, got: Sequence[Delta]) -> None:
        super()._compare(got)
        self.log += got

    def _run_statement(self, block: StatementBlock) -> None:
        before = set(self.session.catalog.queries)
        super()._run_statement(block)
        self.is_refreshed |= any(word in block.sql for word in CHANGING)
        if block.sql.startswith("SELECT"):
            self.selects.append(block.sql)
        queries = self.session.catalog.queries
        for key, query in queries.items():
            if key not in before or f"OR REPLACE QUERY {query.name} " in block.sql:
                again = query.name in self.since
                instant = self.session.runtime.instant(query.name)
                self.since[query.name] = 1 << 62 if again else instant

    # Questions

    def ask_all(self) -> None:
        chance = random.Random(f"{self.seed}/{len(self.script.lines)}")
        times = sorted({delta.instant for delta in self.log if delta.instant > EPOCH - SECOND})
        times += [time + SECOND // 4 for time in times[::3]] + [self._clock]
        queries = list(self.session.catalog.queries.values())
        self._begin_late(chance, queries, times)
        for _ in range(self.questions):
            begin = chance.choice(times)
            until = chance.choice([None, *(time for time in times if time >= begin)])
            if queries and chance.random() < 0.8:
                query = chance.choice(queries)
                if query.trigger is not None:
                    until = begin + 20 * SECOND if until is None else until
                    until = min(until, self._clock)
                rows = self.both(f"SELECT * FROM {query.kind.upper()} {query.name}", begin, until)
                if rows is not None:
                    self._check_live(query, begin, until, rows)
            elif self.selects:
                self.both(chance.choice(self.selects), begin, until)
        self._go_on(chance)

    def _begin_late(self, chance: random.Random, queries: list[Query], times: list[int]) -> None:
        """A query that begins in the past tells what one that had been there told."""
        for number, query in enumerate(queries[:3]):
            text = self.session.catalog.text_of(query.kind, query.name)
            if query.trigger is not None or query.since is not None:
                continue
            since = format_timestamp(chance.choice(times))
            _, _, select = text.partition(" AS SELECT ")
            sql = f"REGISTER QUERY late{number} FROM '{since}' AS SELECT {select}"
            wanted, found = (deltas_of(each, sql) for each in (self.reference, self.session))
            if wanted != found:
                raise ScriptFailure(f"{sql}\n  wanted {wanted}\n  found {found}")
            if isinstance(found, Counter):
                self.late += 1
                self._owed += found.elements()
                self._compare(list(found.elements()))

    def _go_on(self, chance: random.Random) -> None:
        """Some readings come again, later: queries that began in the past go on as they should."""
        blocks = [block for block in self.script.blocks if isinstance(block, InstantBlock)]
        blocks = [block for block in blocks if block.error is None]
        for block in chance.sample(blocks, min(2, len(blocks))) if self.late else []:
            readings = [replace(reading, time=None) for reading in block.readings]
            time = self._clock + chance.choice([1, 4]) * SECOND
            known = self.session.catalog.streams
            readings = [reading for reading in readings if reading.stream.casefold() in known]
            self._run_instant(replace(block, time=time, readings=readings, expected=None))
            self._flush()

    def both(self, select: str, begin: int, until: int | None) -> Counter[Row] | None:
        """What both answer; None if both refuse."""
        time = f"AS OF '{format_timestamp(begin)}'"
        if until is not None:
            time = f"BETWEEN '{format_timestamp(begin)}' AND '{format_timestamp(until)}'"
        is_told = select.startswith(("SELECT * FROM QUERY", "SELECT * FROM TRIGGER"))
        sql = f"{select} {time}" if is_told else with_time(select, time)
        if sql is None:
            return None
        self.asked += 1
        wanted, found = attempt(self.reference, sql), attempt(self.session, sql)
        if wanted != found:
            raise ScriptFailure(f"{sql}\n  wanted {wanted}\n  found {found}")
        if isinstance(wanted, str):
            return None
        self.answered += 1
        return wanted

    def _check_live(self, query, begin, until, rows) -> None:  # type: ignore[no-untyped-def]
        """What was told live is what the archive says."""
        if self.is_refreshed or begin < self.since[query.name]:
            return
        mine = [delta for delta in self.log if delta.query == query.name]
        if query.trigger is not None:
            if query.trigger.every is None:
                told = Counter((*d.row, d.instant) for d in mine if begin <= d.instant <= until)
                earlier = Counter(r for r in rows.elements() if r[-1] > self.since[query.name])
                told = Counter({r: n for r, n in told.items() if r[-1] > self.since[query.name]})
                assert told - earlier == Counter(), (query.name, told, earlier)
            return
        if query.arrivals:
            return
        wanted = Counter()
        if until is None:
            wanted = at(mine, begin)
        else:
            wanted = over(mine, begin, until)
        if wanted != rows:
            raise ScriptFailure(f"{query.name} told {wanted} live, and the archive says {rows}")


def attempt(session: Session, sql: str) -> Counter[Row] | str:
    try:
        return Counter(session.sql(sql).rows)
    except PlaceError as error:
        return str(error)


def deltas_of(session: Session, sql: str) -> Counter[Delta] | str:
    try:
        return Counter(session.sql(sql).deltas)
    except PlaceError as error:
        return str(error)


def at(deltas: Sequence[Delta], time: int) -> Answer:
    """The answer at a time, from all deltas."""
    found: Answer = Counter()
    for delta in deltas:
        if delta.instant <= time:
            found[delta.row] += delta.sign
    return +found


def over(deltas: Sequence[Delta], begin: int, until: int) -> Counter[Row]:
    """The rows of a time with when they joined and left, from all deltas."""
    rows: Counter[Row] = Counter()
    there: dict[Row, list[int]] = {}
    for delta in sorted(deltas, key=lambda delta: (delta.instant, delta.sign)):
        if delta.instant > until:
            continue
        if delta.sign > 0:
            there.setdefault(tuple(delta.row), []).append(max(begin, delta.instant))
        else:
            joined = there[tuple(delta.row)].pop(0)
            if delta.instant > begin:
                rows[(*delta.row, joined, delta.instant)] += 1
    for row, since in there.items():
        rows.update((*row, joined, None) for joined in since)
    return rows


def run_past(text: str, runtime: str, cells: str, batching: str) -> PastRunner:
    """Run a script and ask it about its past; the runner, which has counted."""
    with tempfile.TemporaryDirectory(prefix="place-search-") as directory:
        script = parse_script(text, Path(directory) / "search.cq")
        runner = PastRunner(script, opener(runtime, cells), Batching.parse(batching))
        runner.run()
        return runner
