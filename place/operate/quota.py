"""`place quota`: how much each client of a server may have."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from place.errors import ConfigurationError
from place.operate.options import known_store
from place.server.settings import PARTS
from place.server.store import LOCAL, ServerStore

HELP = {
    "queries": "registered queries",
    "webhooks": "webhooks",
    "subscriptions": "open subscriptions",
    "state": "bytes of the answers of all its queries and its triggers' readings, about",
    "answer": "values (rows times columns) of one query's answer, or of a trigger's readings",
    "deltas": "deltas of one query in one tick",
    "pairs": "readings that one trigger compares with each other in one tick",
}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "quota",
        help="set and list how much each client of a server may have",
        description="Every client may have so many queries, webhooks and subscriptions, and so"
        " much state; a query that passes what it may cost is suspended. A running server knows"
        " a new quota at once. Admins have no quotas.",
    )

    def show_help(_: argparse.Namespace) -> int:
        parser.print_help()
        return 0

    parser.set_defaults(run=show_help)
    actions = parser.add_subparsers(title="actions", metavar="ACTION")
    change = actions.add_parser("set", help="let a client have more or less than others")
    change.add_argument("--name", required=True, help="whose: the name of its tokens")
    for part in PARTS:
        change.add_argument(f"--{part}", type=_number, metavar="N", help=HELP[part])
    change.set_defaults(run=run_set)
    clear = actions.add_parser("clear", help="let a client have what others have")
    clear.add_argument("--name", required=True, help="whose")
    clear.set_defaults(run=run_clear)
    listing = actions.add_parser("list", help="what clients may have, and what they have of it")
    listing.set_defaults(run=run_list)
    for action in (change, clear, listing):
        action.add_argument("--home", type=Path, required=True, help="the home directory")


def run_set(arguments: argparse.Namespace) -> int:
    """Run `place quota set`."""
    parts = {part: getattr(arguments, part) for part in PARTS}
    given = {part: most for part, most in parts.items() if most is not None}
    if not given:
        raise ConfigurationError("there is nothing to set", hint="write for example --queries 500")
    store = known_store(arguments.home)
    store.set_quota(arguments.name, given)
    store.close()
    print(f"{arguments.name} may have " + ", ".join(f"{n:,} {what}" for what, n in given.items()))
    return 0


def run_clear(arguments: argparse.Namespace) -> int:
    """Run `place quota clear`."""
    store = known_store(arguments.home)
    store.clear_quota(arguments.name)
    store.close()
    print(f"{arguments.name} may have what others have")
    return 0


def run_list(arguments: argparse.Namespace) -> int:
    """Run `place quota list`."""
    store = known_store(arguments.home)
    table = Table("client", *PARTS)
    own = store.quotas()
    for name, counts in clients_of(store).items():
        cells = [_cell(part, counts, own.get(name, {})) for part in PARTS]
        table.add_row(name, *cells)
    suspended = store.suspended()
    store.close()
    console = Console(highlight=False)
    console.print(table)
    for query in suspended.values():
        console.print(f'query "{query.name}" of {query.owner} is suspended: {query.reason}')
    return 0


def clients_of(store: ServerStore) -> dict[str, Counter[str]]:
    """All clients of a server, and how many queries and webhooks each has."""
    names = {token.name for token in store.tokens() if token.revoked is None} | set(store.quotas())
    found: dict[str, Counter[str]] = {name: Counter() for name in sorted(names)}
    owners = [owned.owner for owned in store.owned().values()]
    for owner in [*owners, *(query.owner for query in store.suspended().values())]:
        found.setdefault(owner, Counter())["queries"] += 1
    for webhook in store.webhooks():
        found.setdefault(webhook.owner, Counter())["webhooks"] += 1
    return {name: n for name, n in found.items() if name != LOCAL and not store.is_admin(name)}


def _cell(part: str, counts: Counter[str], own: dict[str, int]) -> str:
    """What is used, where that is on the disk, and what may be; the server's default is a dash."""
    most = f"{own[part]:,}" if part in own else "-"
    return f"{counts[part]:,} of {most}" if part in ("queries", "webhooks") else most


def _number(text: str) -> int:
    if not text.isdecimal() or int(text) >= 1 << 62:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0 on")
    return int(text)
