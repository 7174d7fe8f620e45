"""The options of a stream that say which objects memory holds, and what the disk has of the others.

`retain = 'cache'` holds the objects that queries can reach. Without a disk store that is exact only
as far as objects keep a promise: how fast they move, and how often they report. With a store of
every reading nothing has to be promised.
"""

from __future__ import annotations

from place.model.schema import Retention, Storing
from place.plan.options import Options, fraction, positive_duration, positive_number, stored
from place.sql import statements as s
from place.sql.statements import wrong


def define_retention(options: Options, name: s.Name) -> tuple[Retention | None, Storing | None]:
    """What memory holds and what the disk has; None and None where memory holds all objects."""
    kind = options.read("retain", lambda text: text.strip().casefold())
    if kind not in (None, "all", "cache"):
        option = options.get("retain")
        raise wrong(
            f"retain = '{kind}' does not exist",
            option.value.at if option else name.at,
            expected="'all' or 'cache'",
        )
    promised = {
        "max_speed": options.read("max_speed", positive_number),
        "report_every": options.read("report_every", positive_duration),
        "cache": options.read("cache", fraction),
    }
    given = {part: value for part, value in promised.items() if value is not None}
    storing = _storing(options)
    if kind != "cache":
        for part in (*given, *(("store",) if storing is not None else ())):
            option = options.get(part)
            assert option is not None
            raise wrong(
                f"option \"{option.name.text}\" goes with retain = 'cache'",
                option.name.at,
                hint="add retain = 'cache'",
            )
        return None, None
    is_exact = storing is not None and storing.nth == 1
    if not {"max_speed", "report_every"} <= given.keys() and (given or not is_exact):
        raise wrong(
            "retain = 'cache' needs to know how far an object moves between readings",
            name.at,
            expected="options max_speed and report_every",
            hint="write retain = 'cache', max_speed = 30, report_every = '5 seconds', cache = 1.0;"
            " or retain = 'cache', store = 'every reading', which needs none of them",
        )
    return Retention(**given), storing


def _storing(options: Options) -> Storing | None:
    """What the options `store` and `flush` say together."""
    nth = options.read("store", stored)
    flush = options.read("flush", positive_duration)
    if nth is not None:
        return Storing(nth) if flush is None else Storing(nth, flush)
    option = options.get("flush")
    if option is not None:
        raise wrong(
            'option "flush" speaks of a disk store, and there is none',
            option.name.at,
            hint="add store = 'every reading'",
        )
    return None
