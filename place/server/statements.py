"""Statements that come over HTTP: who may execute what, and which files they may name."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from place.errors import PlaceError, StatementError
from place.model.result import Result
from place.model.types import Row
from place.plan.catalog import PLURALS, fold
from place.plan.kinds import KINDS, kind_of, variables_of
from place.plan.query import Query
from place.runtime.interface import tick_of
from place.server.access import Who
from place.server.errors import Refused, not_found
from place.server.store import Suspended
from place.server.tenants import check_seen, confine, shown_list
from place.sim.recipe import Recipe, is_file
from place.sql import limits
from place.sql import statements as s
from place.sql.dialect import parse_one
from place.sql.scan import split
from place.sql.statements import Change
from place.statements import listing, one_line

if TYPE_CHECKING:
    from place.server.state import Server

LOG = logging.getLogger("place.server")
MOST_ROWS = 5_000_000
"""Rows of the first answers of a client's queries in one tick, at most."""
OWN_LISTS = tuple(kind.name for kind in KINDS.values() if kind.owned)
"""Of these kinds SHOW tells everybody their own."""
HIDDEN = (*OWN_LISTS, "sink")
"""Of these kinds names are not told to others."""
PATTERN = re.compile(r"[{}\[\]*?\\]")
"""What would make a pattern of a path for those who read it; `{../a,b}` leads anywhere."""


@dataclass(frozen=True)
class Written:
    """A statement, and where it stands in the text of the request, or in one made of it."""

    statement: s.Statement
    sql: str
    offset: int
    text: str


def execute(server: Server, who: Who, text: str, at: str | None = None) -> tuple[Result, int]:
    """Execute the statements of a text in order; the last one's result, and the deltas of all.

    A run of definitions is one tick, and so is a run of queries that are dropped. An error says
    which statement was wrong; those before it have taken effect.
    """
    with limits.within(server.limits_of(who)):
        return _executed(server, who, text) if at is None else (_recalled(server, who, text, at), 0)


def _recalled(server: Server, who: Who, text: str, at: str) -> Result:
    """Ask the SELECTs of a text about a time of the past; the last one's result."""
    then, result = server.session.at(at), Result("nothing to do")
    for written in _parsed(server, who, text):
        statement = then.of_then(written.statement)
        _check_role(server, who, statement)
        try:
            result = then.ask(statement)
        except StatementError as error:
            raise _discreet(who, error) from None
    return result


def _executed(server: Server, who: Who, text: str) -> tuple[Result, int]:
    result, deltas = Result("nothing to do"), 0
    mine = {query.name for query in server.visible(who)}
    for kind, group in groupby(
        _parsed(server, who, text), key=lambda written: _run_of(written, who)
    ):
        if kind is None:
            results = [_single(server, who, written) for written in group]
        else:
            results = _together(server, who, group)
        mine |= {query.name for query in server.visible(who)}
        for result in results:
            deltas += sum(delta.query in mine for delta in result.deltas)
    return result, deltas


def _parsed(server: Server, who: Who, text: str) -> Iterator[Written]:
    for offset, sql in split(text):
        try:
            written = Written(parse_one(sql, text, offset), sql, offset, text)
            if who.sight is not None:
                made = confine(server.session.catalog, who.sight, written.statement, sql)
                written = written if made == sql else Written(parse_one(made), made, 0, made)
            yield written
        except RecursionError:
            raise StatementError("the statement is nested too deeply") from None


def _run_of(written: Written, who: Who) -> str | None:
    """Statements of one kind of run can be made effective together.

    What others own is dropped in a run of its own: its subscribers have to be told.
    """
    statement = written.statement
    if isinstance(statement, s.Drop) and KINDS[statement.kind].owned:
        return "drop"
    if isinstance(statement, s.Creation) and (who.is_admin or kind_of(statement).owned):
        return "define"
    return None


def _single(server: Server, who: Who, written: Written) -> Result:
    statement = written.statement
    _check_role(server, who, statement)
    if isinstance(statement, s.Show) and statement.kind in OWN_LISTS:
        return _own(server, who, statement.kind)
    try:
        result = server.session.run(written.sql, written.text, written.offset)
        if isinstance(statement, s.Show) and who.sight is not None:
            return shown_list(who.sight, statement.kind, result)
        return result
    except StatementError as error:
        raise _discreet(who, error) from None


# Queries and triggers are made and dropped by those who own them


def _together(server: Server, who: Who, group: Iterable[Written]) -> list[Result]:
    """A run of definitions, or of queries to drop, as one tick."""
    changes: list[tuple[Change, str]] = []
    error: PlaceError | None = None
    try:
        for written in group:
            changes.append(_prepared(server, written))
    except PlaceError as wrong:  # the next one cannot be read; these can
        error = wrong
    results = [
        result for part in _parts(server, who, changes) for result in _change(server, who, part)
    ]
    if error is not None:
        raise error
    return results


def _prepared(server: Server, written: Written) -> tuple[Change, str]:
    """A change as it is made: paths are whole, and within the data directory."""
    statement, sql = written.statement, written.sql
    offset, text = written.offset, written.text
    assert isinstance(statement, Change)
    if isinstance(statement, s.CreateStream | s.CreateSink):
        if isinstance(statement, s.CreateStream):
            _check_name(statement.name)
        whole = confined(sql, statement, server.settings.data)
        if whole != sql:
            around = text[:offset] + whole + text[offset + len(sql) :]
            statement, sql = parse_one(whole, around, offset), whole
            assert isinstance(statement, Change)
    return statement, sql.strip()


def _parts(
    server: Server, who: Who, changes: Sequence[tuple[Change, str]]
) -> Iterator[Sequence[tuple[Change, str]]]:
    """A run in parts, each one tick, whose first answers have a bounded size whatever they ask.

    What regions and conditions leave is not known before; so a client's queries come a few at a
    time where objects are many, and their sizes are known before the next ones come.
    """
    if who.is_admin:
        yield changes
        return
    streams = server.session.catalog.streams.values()
    most = max((server.runtime.statistics(stream.name)["objects"] for stream in streams), default=0)
    size = max(1, MOST_ROWS // max(1, most))
    for start in range(0, len(changes), size):
        if start:
            server.hub.catch_up()
        yield changes[start : start + size]


def _change(server: Server, who: Who, changes: Sequence[tuple[Change, str]]) -> list[Result]:
    runtime = server.runtime
    with runtime.pause():
        allowed, error = _allowed(server, who, changes)
        results = _forget_suspended(server, allowed)
        before = server.session.catalog.queries
        new = [c.name.text for c, _ in allowed if isinstance(c, s.Registration)]
        new = [name for name in dict.fromkeys(new) if fold(name) not in before]
        tick = tick_of(runtime) + 1
        # Known before they are there: a query must never be without its owner.
        server.store.own(map(fold, new), who.name, tick)
        server.owners = server.store.owned()
        server.hub.registered(new)
        try:
            results += server.session.change(allowed)
        except StatementError as wrong:
            raise _discreet(who, wrong) from None
        except RecursionError:
            raise StatementError("the statement is nested too deeply") from None
        finally:
            _settle(server, before, new)
            _unsuspend(server, (n for n in new if fold(n) in server.session.catalog.queries))
    if error is not None:
        raise error
    return results


def _allowed(
    server: Server, who: Who, changes: Sequence[tuple[Change, str]]
) -> tuple[list[tuple[Change, str]], Refused | None]:
    """The changes before the first one that this client may not make, and the refusal of that
    one."""
    allowed: list[tuple[Change, str]] = []
    rest: int | None = None
    for statement, sql in changes:
        try:
            _check_owner(server, who, statement)
            if isinstance(statement, s.Registration):
                _check_name(statement.name)
                rest = server.quotas.rest(who) if rest is None else rest
                name = fold(statement.name.text)
                is_replaced = statement.or_replace and name in server.session.catalog.queries
                if name not in server.suspended and not is_replaced:
                    rest -= 1
                if rest < 0:
                    server.quotas.check(who, "queries", server.quotas.of(who.name).queries)
        except Refused as refused:
            return allowed, refused
        allowed.append((statement, sql))
    return allowed, None


def _forget_suspended(server: Server, allowed: list[tuple[Change, str]]) -> list[Result]:
    """Take the drops of suspended queries, which the catalog has dropped already, out of a run."""
    drops = [
        (statement, sql)
        for statement, sql in allowed
        if isinstance(statement, s.Drop) and server.is_suspended(statement.name.text)
    ]
    for each in drops:
        allowed.remove(each)
    _unsuspend(server, [statement.name.text for statement, _ in drops])
    return [Result(f'{drop.kind} "{drop.name.text}" dropped') for drop, _ in drops]


def _unsuspend(server: Server, names: Iterable[str]) -> None:
    gone = {fold(name) for name in names} & server.suspended.keys()
    if gone:
        server.store.unsuspend(gone)
        server.suspended = server.store.suspended()


def suspend(server: Server, query: Query, reason: str) -> bool:
    """Drop a query for what it costs, and keep its statement for its owner; can it be dropped?"""
    with server.runtime.pause(), limits.within(limits.NONE):
        catalog, key = server.session.catalog, fold(query.name)
        if catalog.queries.get(key) is not query:
            return True  # somebody else was faster
        owner, text = server.owned(query.name).owner, catalog.text_of("query", query.name)
        # Known before it is dropped: a query must never be lost. If it is not, the start forgets.
        server.store.suspend(key, Suspended(query.name, owner, text, reason, time.time()))
        server.suspended = server.store.suspended()
        drop = f"DROP {query.kind.upper()} " + '"' + query.name.replace('"', '""') + '"'
        statement = parse_one(drop)
        assert isinstance(statement, s.Drop)
        try:
            server.session.change([(statement, drop)])
        except PlaceError as error:  # an operator's sink needs it
            _unsuspend(server, [query.name])
            LOG.error(
                '%s "%s" is not suspended, although %s; %s', query.kind, query.name, reason, error
            )
            return False
        finally:
            _settle(server, catalog.queries, [], reason)
    LOG.warning('%s "%s" of %s is suspended: %s', query.kind, query.name, owner, reason)
    return True


def resume(server: Server, who: Who, name: str) -> None:
    """Register a suspended query again, as its owner's."""
    found = server.find_suspended(who, name)
    if found is None:
        raise not_found("query", name)
    owner = Who(found.owner, "admin" if server.store.is_admin(found.owner) else "client")
    with limits.within(server.limits_of(who)):
        statement = parse_one(found.statement)
        assert isinstance(statement, s.Registration)
        _change(server, owner, [(statement, found.statement)])


def _settle(server: Server, before: Any, new: list[str], reason: str | None = None) -> None:
    """What was dropped, or was not registered after all, has no owner and no subscribers."""
    queries = server.session.catalog.queries
    gone = {query.name for key, query in before.items() if key not in queries}
    absent = {name for name in new if fold(name) not in queries}
    if gone or absent:
        server.webhooks.end(gone, tick_of(server.runtime))
        server.hub.forget(gone | absent, reason)
        server.store.disown(map(fold, gone | absent))
        server.owners = server.store.owned()


def _check_owner(server: Server, who: Who, statement: Change) -> None:
    if who.is_admin:
        return
    if not isinstance(statement, s.Registration | s.Drop) or who.role != "client":
        raise Refused(403, "not_allowed", f"the role {who.role} may not execute this statement")
    assert isinstance(statement, s.Creation | s.Drop)
    name = statement.name.text
    found = server.session.catalog.queries.get(fold(name))
    is_theirs = found is None or server.may_see(who, found.name)
    is_suspended = server.is_suspended(name)
    if is_suspended:
        is_theirs = server.find_suspended(who, name) is not None
    if isinstance(statement, s.Drop):
        is_there = found is not None or is_suspended
        if not is_theirs or (not is_there and not statement.if_exists):
            raise not_found(statement.kind, name)
    elif not is_theirs:
        kind = kind_of(statement).name
        taken = f'{kind} "{name}" exists already'
        raise Refused(409, "conflict", taken, hint="choose another name")


def _check_name(name: s.Name) -> None:
    """Names of queries and streams stand in paths, headers and logs."""
    if "/" in name.text or name.text in (".", "..") or not name.text.isprintable():
        raise Refused(
            400,
            "wrong_statement",
            f"{name.text!r} cannot be asked for: it has no place in a path",
        )


def _check_role(server: Server, who: Who, statement: s.Statement) -> None:
    """Clients ask, and explain what is theirs; all that changes what others see is the admin's."""
    if who.is_admin:
        return
    if isinstance(statement, s.Select):
        return
    if isinstance(statement, s.SelectTold):
        server.find(who, statement.name.text)
        return
    if isinstance(statement, s.Explain):
        if isinstance(statement.target, s.Name):
            server.find(who, statement.target.text)
        elif isinstance(statement.target, s.SelectTold):
            server.find(who, statement.target.name.text)
        elif isinstance(statement.target, s.Registration):
            _check_owner(server, who, statement.target)
        return
    if isinstance(statement, s.Show) and KINDS[statement.kind].public:
        return
    if isinstance(statement, s.Describe):
        _check_describable(server, who, statement.name.text)
        return
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(statement).__name__).upper()
    if isinstance(statement, s.Show):
        words = f"SHOW {PLURALS[statement.kind].upper()}"
    raise Refused(403, "not_allowed", f"the role {who.role} may not execute {words}")


def _check_describable(server: Server, who: Who, name: str) -> None:
    catalog = server.session.catalog
    if who.sight is not None:
        check_seen(catalog, who.sight, name)
    if any(catalog.get(kind, name) is not None for kind in ("stream", "table", "region")):
        return
    found = catalog.queries.get(fold(name))
    if found is None or not server.may_see(who, found.name):
        raise Refused(404, "unknown_name", f'"{name}" does not exist')


def _discreet(who: Who, error: StatementError) -> StatementError:
    """An error whose hint does not name what is none of theirs."""
    hint = error.hint
    if not who.is_admin and hint:
        names_kind = any(f'" is a {kind}' in hint for kind in HIDDEN)
        if names_kind or error.message.startswith(tuple(f'{kind} "' for kind in HIDDEN)):
            error.hint = None
    return error


def _own(server: Server, who: Who, kind: str) -> Result:
    """SHOW QUERIES or SHOW TRIGGERS: those that they may see."""
    catalog = server.session.catalog
    rows: list[Row] = []
    for query in server.visible(who):
        if query.kind == kind:
            text = one_line(catalog, kind, query.name)
            about = server.hub.size(query.name) if kind == "query" else variables_of(query)
            rows.append((query.name, about, text))
    return listing(kind, rows)


# Files


def confined(sql: str, statement: s.CreateStream | s.CreateSink, data: Path) -> str:
    """A statement in which every path is whole, and within the data directory."""
    paths = []
    for literal in _paths(statement):
        path = within(data, str(literal.value))
        if PATTERN.search(str(literal.value)):
            raise StatementError(
                f"'{literal.value}' has a character that is not one of a plain path",
                line=literal.at.line,
                column=literal.at.column,
                hint="name it without any of { } [ ] * ? and backslashes",
            )
        if path is None:
            raise StatementError(
                f"'{literal.value}' is outside the data directory",
                line=literal.at.line,
                column=literal.at.column,
                hint="name a path relative to the server's --data",
            )
        paths.append(path)
    if not paths:
        return sql
    own = parse_one(sql)
    assert isinstance(own, s.CreateStream | s.CreateSink)
    for literal, path in reversed(list(zip(_paths(own), paths, strict=True))):
        sql = _with_literal(sql, literal, str(path))
    return sql


def _paths(statement: s.CreateStream | s.CreateSink) -> list[s.Literal]:
    """The paths that a statement names, in the order in which it does."""
    spec = statement.source if isinstance(statement, s.CreateStream) else statement.target
    if spec is None:
        return []
    if spec.kind.text.upper() != "GENERATOR":
        found = [spec.argument] if spec.argument is not None else []
        if spec.kind.text.upper() == "NMEA":
            found += [o.value for o in spec.options if o.name.text.casefold() == "path"]
        return [literal for literal in found if isinstance(literal.value, str)]
    options = {option.name.text.casefold(): option.value for option in spec.options}
    recipe = Recipe.of({name: literal.value for name, literal in options.items()})
    named = [options[name] for name in ("city", "edges") if name in options]
    files = named if recipe.edges is not None or is_file(str(recipe.city)) else []
    return sorted(
        (literal for literal in files if isinstance(literal.value, str)),
        key=lambda literal: (literal.at.line, literal.at.column),
    )


def within(data: Path, path: str) -> Path | None:
    """A path resolved in the data directory, None if it leads out of it."""
    if "://" in path or "\0" in path:
        return None
    try:
        found = (data / path).resolve()
    except (OSError, ValueError, RuntimeError):
        return None
    return found if found.is_relative_to(data.resolve()) else None


def _with_literal(sql: str, literal: s.Literal, text: str) -> str:
    """The statement with another text in place of a literal."""
    lines = sql.split("\n")
    at = sum(len(line) + 1 for line in lines[: literal.at.line - 1]) + literal.at.column - 1
    old = "'" + str(literal.value).replace("'", "''") + "'"
    if not sql.startswith(old, at):
        raise StatementError("the path has to be written as a plain text in quotes")
    return sql[:at] + "'" + text.replace("'", "''") + "'" + sql[at + len(old) :]
