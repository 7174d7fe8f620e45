"""What the server keeps beside the catalog: tokens, quotas, owners of queries, webhooks.

It is one SQLite file of the home directory, `server.sqlite`; a command may write to it while the
server runs, and what it revokes is revoked with the next request.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from place.errors import ConfigurationError
from place.plan.catalog import fold
from place.server.grants import Grant

FILE, FORMAT = "server.sqlite", 1
Role = Literal["admin", "client", "ingest", "viewer", "monitor"]
ROLES: tuple[Role, ...] = get_args(Role)
LOCAL = "local"
"""The name of everybody on loopback while there are no tokens."""

Id = tuple[int, int]
"""Of a delta: its tick, and its position in it."""

_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,60}")
_TOKEN = re.compile(r"place_([0-9a-f]{12})_([0-9a-f]{64})")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS server (format INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS tokens (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  role TEXT NOT NULL,
  hash TEXT NOT NULL,
  created REAL NOT NULL,
  revoked REAL
);
CREATE TABLE IF NOT EXISTS owners (
  query TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  tick INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS webhooks (
  id TEXT PRIMARY KEY,
  query TEXT NOT NULL,
  owner TEXT NOT NULL,
  trusted INTEGER NOT NULL,
  url TEXT NOT NULL,
  secret TEXT,
  tick INTEGER NOT NULL,
  position INTEGER NOT NULL,
  until INTEGER,
  lost TEXT
);
CREATE TABLE IF NOT EXISTS quotas (
  name TEXT NOT NULL,
  what TEXT NOT NULL,
  most INTEGER NOT NULL,
  PRIMARY KEY (name, what)
);
CREATE TABLE IF NOT EXISTS grants (
  name TEXT NOT NULL,
  relation TEXT NOT NULL,
  condition TEXT,
  PRIMARY KEY (name, relation)
);
CREATE TABLE IF NOT EXISTS suspended (
  query TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  owner TEXT NOT NULL,
  statement TEXT NOT NULL,
  reason TEXT NOT NULL,
  since REAL NOT NULL
);
"""


@dataclass(frozen=True)
class Token:
    """A token as it is kept: never its text, only the hash of it."""

    id: str
    name: str
    role: Role
    created: float
    revoked: float | None


@dataclass(frozen=True)
class Owned:
    """Whose a query is, and the tick in which it was registered."""

    owner: str
    tick: int


@dataclass(frozen=True)
class Webhook:
    """An address that gets a query's deltas, and the last id that it has got.

    `until` is the last tick of a query that was dropped. What was given up is `lost`, in words.
    """

    id: str
    query: str
    owner: str
    trusted: bool
    url: str
    secret: str | None
    after: Id
    until: int | None = None
    lost: str | None = None


@dataclass(frozen=True)
class Suspended:
    """A query that cost too much: it is dropped, and its owner may have it again."""

    name: str
    owner: str
    statement: str
    reason: str
    since: float


class ServerStore:
    """Keeps `server.sqlite` of a directory."""

    def __init__(self, home: Path) -> None:
        self._lock = threading.Lock()
        file = home / FILE
        try:
            home.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
            file.chmod(0o600)
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(_SCHEMA)
            found = self._db.execute("SELECT format FROM server").fetchone()
            if found is None:
                self._db.execute("INSERT INTO server VALUES (?)", (FORMAT,))
            elif found[0] != FORMAT:
                raise ConfigurationError(
                    f"{file} has format {found[0]}, this version of PLACE reads {FORMAT}"
                )
        except (sqlite3.Error, OSError) as error:
            raise ConfigurationError(f"{file} cannot be opened: {error}") from None

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _do(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._db.execute(sql, values).fetchall()
            except sqlite3.Error as error:
                raise ConfigurationError(f"{FILE} cannot be used: {error}") from None

    def _do_all(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """The same for many rows, all or none."""
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                self._db.executemany(sql, rows)
                self._db.execute("COMMIT")
            except sqlite3.Error as error:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise ConfigurationError(f"{FILE} cannot be written: {error}") from None

    # Tokens

    def create_token(self, name: str, role: str, sees: Sequence[Grant] = ()) -> str:
        """A new token; its text is shown this once, and cannot be had again.

        A client sees all streams and tables, or only those that are named with its first token.
        """
        if role not in ROLES:
            raise ConfigurationError(
                f'role "{role}" does not exist', hint=f"roles: {', '.join(ROLES)}"
            )
        if not (name == LOCAL and role == "viewer"):  # of what the operator has set up
            _check_holder(name)
        self._grant(name, role, sees)
        number, secret = secrets.token_hex(6), secrets.token_hex(32)
        self._do(
            "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, NULL)",
            (number, name, role, _hashed(secret), time.time()),
        )
        return f"place_{number}_{secret}"

    def _grant(self, name: str, role: str, sees: Sequence[Grant]) -> None:
        """Let a name see only so much, from its first token on."""
        if sees and role != "client":
            raise ConfigurationError(
                f"what the role {role} sees cannot be chosen",
                hint="only clients see some streams and not others; a viewer sees the queries of"
                " its name",
            )
        known = self.sight(name)
        wanted = {fold(each.name): each for each in sees} or None
        if role != "client" or wanted == known:
            return
        has_more = known is not None or self.is_active(name)
        if has_more or any(owned.owner == name for owned in self.owned().values()):
            raise ConfigurationError(
                f"{name} sees something else already: "
                + ("everything" if known is None else ", ".join(map(str, known.values()))),
                hint="what a name sees stays as it is; choose another name",
            )
        rows = [(name, each.name, each.condition) for each in sees]
        self._do_all("INSERT INTO grants VALUES (?, ?, ?)", rows)

    def sight(self, name: str) -> dict[str, Grant] | None:
        """What a name sees; None is everything."""
        found = self._do("SELECT relation, condition FROM grants WHERE name = ?", (name,))
        return {fold(each[0]): Grant(*each) for each in found} or None

    def tokens(self) -> list[Token]:
        """All tokens, also those that were revoked."""
        found = self._do("SELECT id, name, role, created, revoked FROM tokens ORDER BY created")
        return [Token(*row) for row in found]

    def revoke_token(self, number: str) -> None:
        """Make a token worthless from now on."""
        found = self._do(
            "UPDATE tokens SET revoked = COALESCE(revoked, ?) WHERE id = ? RETURNING id",
            (time.time(), number),
        )
        if not found:
            known = ", ".join(token.id for token in self.tokens()) or "none"
            raise ConfigurationError(f'token "{number}" does not exist', hint=f"tokens: {known}")

    def has_tokens(self) -> bool:
        """Was there ever a token? One that was revoked must not open the door to everybody."""
        return bool(self._do("SELECT 1 FROM tokens LIMIT 1"))

    def check_token(self, text: str) -> Token | None:
        """The token of a text, if there is one that was not revoked."""
        parts = _TOKEN.fullmatch(text)
        number, secret = parts.groups() if parts else ("", text)
        found = self._do(
            "SELECT id, name, role, created, revoked, hash FROM tokens WHERE id = ?", (number,)
        )
        kept = found[0][5] if found else _hashed("")
        same = hmac.compare_digest(_hashed(secret), kept)
        if not found or not same or found[0][4] is not None:
            return None
        return Token(*found[0][:5])

    def is_valid(self, number: str) -> bool:
        return bool(self._do("SELECT 1 FROM tokens WHERE id = ? AND revoked IS NULL", (number,)))

    def is_active(self, name: str) -> bool:
        """Has someone of this name a token that was not revoked?"""
        return bool(
            self._do("SELECT 1 FROM tokens WHERE name = ? AND revoked IS NULL LIMIT 1", (name,))
        )

    # Owners

    def own(self, queries: Iterable[str], owner: str, tick: int) -> None:
        """These queries (by folded names) are registered in this tick by this owner."""
        rows = [(query, owner, tick) for query in queries]
        self._do_all("INSERT OR REPLACE INTO owners VALUES (?, ?, ?)", rows)

    def disown(self, queries: Iterable[str]) -> None:
        self._do_all("DELETE FROM owners WHERE query = ?", [(query,) for query in queries])

    def owned(self) -> dict[str, Owned]:
        """Who owns what, by folded names."""
        found = self._do("SELECT query, owner, tick FROM owners")
        return {query: Owned(owner, tick) for query, owner, tick in found}

    # Quotas, and queries that are suspended

    def quotas(self) -> dict[str, dict[str, int]]:
        """What is set for whom; for all else the defaults hold."""
        found: dict[str, dict[str, int]] = {}
        for name, what, most in self._do("SELECT name, what, most FROM quotas ORDER BY name"):
            found.setdefault(name, {})[what] = most
        return found

    def set_quota(self, name: str, parts: Mapping[str, int]) -> None:
        """Somebody may have so much of these."""
        _check_holder(name)
        rows = [(name, what, most) for what, most in parts.items()]
        self._do_all("INSERT OR REPLACE INTO quotas VALUES (?, ?, ?)", rows)

    def clear_quota(self, name: str) -> None:
        """The defaults hold for somebody again."""
        self._do("DELETE FROM quotas WHERE name = ?", (name,))

    def is_admin(self, name: str) -> bool:
        """Is this somebody for whom there are no quotas?"""
        asked = "SELECT 1 FROM tokens WHERE name = ? AND role = 'admin' AND revoked IS NULL LIMIT 1"
        return name == LOCAL or bool(self._do(asked, (name,)))

    def suspend(self, query: str, suspended: Suspended) -> None:
        """A query, by its folded name, is about to be dropped for what it costs."""
        each = suspended
        self._do(
            "INSERT OR REPLACE INTO suspended VALUES (?, ?, ?, ?, ?, ?)",
            (query, each.name, each.owner, each.statement, each.reason, each.since),
        )

    def unsuspend(self, queries: Iterable[str]) -> None:
        """These queries run again, or are forgotten."""
        self._do_all("DELETE FROM suspended WHERE query = ?", [(query,) for query in queries])

    def suspended(self) -> dict[str, Suspended]:
        """All queries that are suspended, by folded names."""
        found = self._do("SELECT query, name, owner, statement, reason, since FROM suspended")
        return {query: Suspended(*rest) for query, *rest in found}

    # Webhooks

    def add_webhook(self, webhook: Webhook) -> None:
        each = webhook
        self._do(
            "INSERT INTO webhooks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(each.id, each.query, each.owner, each.trusted, each.url, each.secret),
                *(*each.after, each.until, each.lost),
            ),
        )

    def webhooks(self) -> list[Webhook]:
        found = self._do(
            "SELECT id, query, owner, trusted, url, secret, tick, position, until, lost"
            " FROM webhooks ORDER BY rowid"
        )
        hooks = []
        for *first, trusted, url, secret, tick, position, until, lost in found:
            number, query, owner = first
            after = (tick, position)
            hooks.append(
                Webhook(number, query, owner, bool(trusted), url, secret, after, until, lost)
            )
        return hooks

    def advance_webhook(self, number: str, after: Id) -> None:
        """An address has got all deltas up to an id."""
        self._do("UPDATE webhooks SET tick = ?, position = ? WHERE id = ?", (*after, number))

    def end_webhook(self, number: str, until: int) -> None:
        """The query of a webhook was dropped in a tick, with which it ends."""
        self._do("UPDATE webhooks SET until = ? WHERE id = ?", (until, number))

    def lose_webhook(self, number: str, reason: str) -> None:
        self._do("UPDATE webhooks SET lost = ? WHERE id = ?", (reason, number))

    def remove_webhook(self, number: str) -> None:
        self._do("DELETE FROM webhooks WHERE id = ?", (number,))


def _check_holder(name: str) -> None:
    if name == LOCAL:
        raise ConfigurationError(
            f'"{LOCAL}" is who asks on this machine without a token', hint="choose another name"
        )
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} cannot be the name of a token's holder",
            hint="write letters, digits, and _ . @ -, at most 60 of them",
        )


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
