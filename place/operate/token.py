"""`place token`: who may ask a server, and as what."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.table import Table

from place.model.time import SECOND, format_timestamp
from place.operate.options import known_store
from place.runtime.store import CatalogStore
from place.server.grants import check_grant, read_grant
from place.server.store import ROLES, ServerStore

CATALOG = "catalog.sqlite"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "token",
        help="make, list and revoke the tokens of a server",
        description="Tokens say who is asking a server: an admin may do everything, a client has"
        " queries of its own, a viewer only looks at the queries of its name, an ingest token may"
        " only send readings, a monitor only read the figures of /metrics. A running server knows a"
        " new or revoked token at once. Once there was a token, nobody gets in without.",
        epilog="examples: place token create --home data --name ann --role client; place token"
        " create --home data --name north --role client --see \"Cars WHERE fleet = 'north'\"",
    )

    def show_help(_: argparse.Namespace) -> int:
        parser.print_help()
        return 0

    parser.set_defaults(run=show_help)
    actions = parser.add_subparsers(title="actions", metavar="ACTION")
    create = actions.add_parser("create", help="make a token and show it, this once")
    create.add_argument("--name", required=True, help="who holds it; queries belong to a name")
    create.add_argument("--role", choices=ROLES, required=True, help="what it may do")
    create.add_argument(
        "--see",
        action="append",
        default=[],
        metavar="WHAT",
        help="a stream or table that a client sees, as often as needed, also by a condition:"
        " \"Cars WHERE fleet = 'north'\"; without it a client sees all of them",
    )
    create.set_defaults(run=run_create)
    listing = actions.add_parser("list", help="all tokens, without their texts")
    listing.set_defaults(run=run_list)
    revoke = actions.add_parser("revoke", help="make a token worthless")
    revoke.add_argument("id", help="its id, as list shows it")
    revoke.set_defaults(run=run_revoke)
    for action in (create, listing, revoke):
        action.add_argument("--home", type=Path, required=True, help="the home directory")


def run_create(arguments: argparse.Namespace) -> int:
    """Run `place token create`."""
    grants = [read_grant(text) for text in arguments.see]
    if grants and (arguments.home / CATALOG).exists():
        catalog = CatalogStore(arguments.home)
        known = catalog.load()
        catalog.close()
        for grant in grants:
            check_grant(known, grant)
    store = ServerStore(arguments.home)
    print(store.create_token(arguments.name, arguments.role, grants))
    store.close()
    return 0


def run_list(arguments: argparse.Namespace) -> int:
    """Run `place token list`."""
    store = known_store(arguments.home)
    table = Table("id", "name", "role", "sees", "created", "revoked")
    for token in store.tokens():
        revoked = _moment(token.revoked) if token.revoked is not None else "-"
        sight = store.sight(token.name) if token.role in ("client", "viewer") else {}
        sees = "all" if sight is None else ", ".join(map(str, sight.values())) or "-"
        table.add_row(token.id, token.name, token.role, sees, _moment(token.created), revoked)
    store.close()
    Console(highlight=False).print(table)
    return 0


def run_revoke(arguments: argparse.Namespace) -> int:
    """Run `place token revoke`."""
    store = known_store(arguments.home)
    store.revoke_token(arguments.id)
    store.close()
    print(f"token {arguments.id} is revoked")
    return 0


def _moment(seconds: float) -> str:
    return format_timestamp(int(seconds) * SECOND)
