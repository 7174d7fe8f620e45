"""Runs a script on a runtime, and beside it on the reference, which recomputes every answer.

The reference takes a tick for each block: its deltas are held against what the script expects.
The runtime under test takes the same inputs in whatever batches are asked for: its deltas, with
their instants, are held against the reference's. So a script checks the meaning of its queries
and, on every runtime and batching, that nothing bends it.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from place.errors import PlaceError
from place.model.delta import Answer, Delta, apply, ordered
from place.model.reading import Advance, Input
from place.model.time import format_interval
from place.model.types import Row, Type, coerce, format_row
from place.script.blocks import (
    EPOCH,
    AnswerBlock,
    Block,
    InstantBlock,
    RecoverBlock,
    Script,
    ScriptError,
    ScriptReading,
    StatementBlock,
)
from place.script.inputs import make_input
from place.session import Result, Session, connect
from place.sql.dialect import parse_row

Open = Callable[[Path | None, Path], Session]
"""Opens a session of the runtime under test: durable in a directory if one is given, with tables
from the directory of the script."""


class ScriptFailure(PlaceError):
    """The script does not hold; the message names the line and what differs."""


@dataclass
class Batching:
    """How inputs fall into ticks: one a block, one for as long as can be, or cut at random."""

    kind: str = "each"
    seed: int = 0

    @staticmethod
    def parse(text: str) -> Batching:
        """`each`, `one` or `random:SEED`."""
        kind, _, seed = text.partition(":")
        if kind == "random" and seed.isdecimal():
            return Batching("random", int(seed))
        if text in ("each", "one"):
            return Batching(text)
        raise ScriptError(f"batching '{text}' does not exist", hint="each, one or random:SEED")

    def cut(self, blocks: list[list[Input]]) -> list[list[Input]]:
        """The ticks that the inputs of several blocks fall into."""
        if self.kind == "each":
            return blocks
        inputs = [item for block in blocks for item in block]
        if self.kind == "one":
            return [inputs] if inputs else []
        chance = random.Random(f"{self.seed}/{len(inputs)}")
        ticks: list[list[Input]] = []
        for item in inputs:
            if not ticks or chance.random() < 0.4:
                ticks.append([])
            ticks[-1].append(item)
        return ticks


@dataclass
class Outcome:
    """What the reference answered to each block, for `--complete`."""

    lines: dict[int, list[str]] = field(default_factory=dict)
    readings: int = 0
    deltas: int = 0


class ScriptRunner:
    """Runs one script; `run` raises a ScriptFailure at the first thing that does not hold."""

    def __init__(
        self, script: Script, open_session: Open, batching: Batching, *, complete: bool = False
    ) -> None:
        self.script = script
        self.batching = batching
        self.complete = complete
        self.outcome = Outcome()
        self._open = open_session
        self._directory = script.path.resolve().parent
        self._pending: list[list[Input]] = []
        self._owed: list[Delta] = []
        self._answers: dict[str, Answer] = {}
        self._known_types: dict[str, tuple[Type, ...]] = {}
        self._clock = EPOCH

    def run(self) -> Outcome:
        """Run all blocks; what the reference answered."""
        durable = any(isinstance(block, RecoverBlock) for block in self.script.blocks)
        with tempfile.TemporaryDirectory(prefix="place-script-") as scratch:
            self._home = Path(scratch) / "home" if durable else None
            self.reference = connect(runtime="reference")
            self.reference.loader.directory = self._directory
            self.session = self._open(self._home, self._directory)
            try:
                with contextlib.chdir(scratch):  # where sinks of the script write to
                    for block in self.script.blocks:
                        self._block = block
                        self._run_block(block)
                    self._flush()
            except (ScriptFailure, ScriptError):
                raise
            except PlaceError as error:
                raise self._failure(str(error)) from error
            finally:
                self.session.close()
                self.reference.close()
        return self.outcome

    def _run_block(self, block: Block) -> None:
        if isinstance(block, InstantBlock):
            self._run_instant(block)
        elif isinstance(block, StatementBlock):
            self._flush()
            self._run_statement(block)
        elif isinstance(block, AnswerBlock):
            self._flush()
            self._run_answer(block)
        else:
            self._flush()
            self.session.close()
            self.session = self._open(self._home, self._directory)

    # Instants

    def _run_instant(self, block: InstantBlock) -> None:
        if block.time < self._clock:
            raise self._failure("the clock cannot go back")
        self._clock = block.time
        inputs: list[Input] = []
        for reading in block.readings:
            made = self._make(reading, block)
            if made is not None:
                inputs.append(made)
        self.outcome.readings += len(inputs)
        inputs.append(Advance(block.time))
        deltas = self.reference.feed(inputs)
        self._check_deltas(block, deltas)
        self._owed += deltas
        self._pending.append(inputs)
        if self.batching.kind == "each":
            self._flush()

    def _make(self, reading: ScriptReading, block: InstantBlock) -> Input | None:
        stream = self.session.stream(reading.stream)
        time = block.time if reading.time is None else reading.time
        try:
            made = make_input(stream, reading, time)
        except PlaceError as error:
            if block.error is None or block.error.casefold() not in str(error).casefold():
                raise self._failure(f"line {reading.line}: {error}") from None
            return None
        if block.error is not None:
            raise self._failure(f"line {reading.line}: expected an error with '{block.error}'")
        return made

    def _flush(self) -> None:
        """Feed what is pending to the runtime, and hold its deltas against the reference's."""
        got: list[Delta] = []
        for tick in self.batching.cut(self._pending):
            got += self.session.feed(tick)
        self._pending = []
        self._compare(got)

    def _compare(self, got: Sequence[Delta]) -> None:
        owed, self._owed = self._owed, []
        self.outcome.deltas += len(owed)
        missing = Counter(owed) - Counter(got)
        extra = Counter(got) - Counter(owed)
        if missing or extra:
            first = min(delta.instant for delta in (missing + extra))
            lines = [
                *(f"missing    {self._shown(d)}" for d in missing if d.instant == first),
                *(f"unexpected {self._shown(d)}" for d in extra if d.instant == first),
            ]
            raise self._failure(
                f"runtime {self.session.runtime.name} differs from the reference at"
                f" {_since_epoch(first)}:\n  " + "\n  ".join(lines)
            )
        for delta in got:
            before = self._answers.get(delta.query, Counter())
            self._answers[delta.query] = apply(before, [delta])
        for name, answer in self._answers.items():
            if any(count < 0 for count in answer.values()):
                raise self._failure(f"the deltas of {name} take back a row that was never there")

    # Statements and answers

    def _run_statement(self, block: StatementBlock) -> None:
        for query in self.reference.catalog.queries.values():
            self._known_types[query.name.casefold()] = query.types
        revisions = self._revisions()
        result, failure = _attempt(self.reference, block.sql)
        if revisions != self._revisions():
            self._clock = EPOCH  # a stream begins anew, and may tell any time
        if block.error is not None:
            if failure is None:
                raise self._failure(f"the statement succeeded, expected an error: {block.error}")
            if block.error.casefold() not in failure.casefold():
                raise self._failure(f"expected an error with '{block.error}', got: {failure}")
        elif result is None:
            raise self._failure(f"the statement failed: {failure}")
        tested, said = _attempt(self.session, block.sql)
        if said != failure:
            raise self._failure(f"the runtime said: {said}; the reference said: {failure}")
        if result is None or tested is None:
            return
        self._owed += result.deltas
        self._compare(tested.deltas)
        if result.columns:
            if _bag(tested.rows) != _bag(result.rows) and "EXPLAIN" not in block.sql.upper():
                raise self._failure(
                    f"the runtime answered {list(tested.rows)}, the reference {list(result.rows)}"
                )
            self._check_rows(block, list(result.rows), result.types)
        else:
            self._check_deltas(block, result.deltas)

    def _revisions(self) -> list[int | None]:
        catalog = self.reference.catalog
        return [catalog.revisions.get(stream) for stream in catalog.streams]

    def _run_answer(self, block: AnswerBlock) -> None:
        query = self.session.query(block.query)
        rows = self.session.answer(block.query)
        recomputed = list(ordered(self.reference.runtime.ask(query).elements()))
        if rows != self.reference.answer(block.query):
            raise self._failure(
                f"the runtime holds {rows}, the reference {self.reference.answer(block.query)}"
            )
        if rows != recomputed:
            raise self._failure(f"the deltas add up to {rows}, recomputed it is {recomputed}")
        if not query.arrivals and Counter(rows) != self._answers.get(query.name, Counter()):
            raise self._failure("the answer is not the sum of its deltas")
        self._check_rows(block, rows, query.types)

    # Expectations

    def _check_deltas(self, block: Block, deltas: Sequence[Delta]) -> None:
        lines = [self._shown(delta) for delta in deltas]
        self.outcome.lines[block.last] = lines
        if block.expected is None or self.complete:
            return
        wanted = Counter(self._parse_delta(line) for line in block.expected)
        got = Counter((delta.sign, delta.query.casefold(), delta.row) for delta in deltas)
        if wanted != got:
            raise self._failure(_difference(block.expected, lines))

    def _check_rows(self, block: Block, rows: Sequence[Row], types: tuple[Type, ...]) -> None:
        lines = [format_row(row, types) for row in rows]
        self.outcome.lines[block.last] = lines
        if block.expected is None or self.complete:
            return
        wanted = Counter(self._parse_row(line, types) for line in block.expected)
        if wanted != Counter(rows):
            raise self._failure(_difference(block.expected, lines))

    def _parse_delta(self, line: str) -> tuple[int, str, Row]:
        parts = line.split(None, 2)
        if len(parts) != 3 or parts[0] not in "+-":
            raise self._failure(f"'{line}' is not a delta: write + query (row)")
        sign, name, text = parts
        types = self._types(name)
        return (1 if sign == "+" else -1), name.casefold(), self._parse_row(text, types)

    def _types(self, name: str) -> tuple[Type, ...]:
        """The types of a query's rows; also those of one that was just dropped."""
        known = self.reference.catalog.queries.get(name.casefold())
        if known is not None:
            return known.types
        if name.casefold() not in self._known_types:
            raise self._failure(f'query "{name}" does not exist')
        return self._known_types[name.casefold()]

    def _parse_row(self, text: str, types: tuple[Type, ...]) -> Row:
        try:
            values = [literal.value for literal in parse_row(text)]
            return tuple(coerce(v, kind) for v, kind in zip(values, types, strict=True))
        except (PlaceError, ValueError) as error:
            raise self._failure(f"'{text}' is not a row of this answer: {error}") from None

    def _shown(self, delta: Delta) -> str:
        types = self._types(delta.query)
        return f"{'+' if delta.sign > 0 else '-'} {delta.query} {format_row(delta.row, types)}"

    def _failure(self, message: str) -> ScriptFailure:
        return ScriptFailure(f"{self.script.path}:{self._block.line}: {message}")


def _attempt(session: Session, sql: str) -> tuple[Result | None, str | None]:
    try:
        return session.sql(sql), None
    except PlaceError as error:
        return None, str(error)


def _bag(rows: Sequence[Row]) -> Counter[Row]:
    return Counter(rows)


def _since_epoch(instant: int) -> str:
    return format_interval(instant - EPOCH)


def _difference(wanted: Sequence[str], got: Sequence[str]) -> str:
    expected = "\n    ".join(wanted) or "(nothing)"
    found = "\n    ".join(got) or "(nothing)"
    return f"expected\n    {expected}\n  got\n    {found}"


def completed(script: Script, outcome: Outcome) -> str:
    """The script's text with the expectations that the reference answers."""
    lines = list(script.lines)
    for block in reversed(script.blocks):
        if isinstance(block, RecoverBlock) or block.last not in outcome.lines:
            continue
        answers = outcome.lines[block.last]
        if block.expected is None and not answers:
            continue
        end = block.last
        while end < len(lines) and lines[end].strip():
            end += 1
        kept = [line for line in lines[block.last : end] if line.lstrip().startswith("#")]
        lines[block.last : end] = [*kept, "----", *answers]
    return "\n".join(lines) + "\n"
