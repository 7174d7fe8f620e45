"""How the server is: health, figures for Prometheus, and the page's way to log in."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel, Field

from place.runtime.durable.manifest import counts_of
from place.runtime.durable.state_figures import told_of
from place.server.access import COOKIE, Anyone, Monitor, server_of
from place.server.errors import Refused
from place.server.quotas import COUNTED, clients
from place.server.state import Server

router = APIRouter()
STALLED = 10.0
"""Seconds after which a tick that is still under way is told of."""
MOST_NAMED = 1_000
"""Of so many triggers, and of so many joins, there are figures of their own."""
STAGES = ("load", "route", "match", "answer", "state", "outbox", "settle", "spark", "seconds")


class Health(BaseModel):
    """Whether ticks run, and how far they are.

    It is `ok`, `failing` while no tick can be made, `degraded` while acknowledged readings are set
    aside of which none could be made (`place retry` puts them back) or while the past of streams
    cannot be read or written (of so many as `past_faults` says; `GET /past` says why), or `stalled`
    while one tick runs for long: what is pushed meanwhile waits on the disk. `busy` are the seconds
    of that tick.
    """

    status: str
    tick: int
    failure: str | None
    set_aside: int
    past_faults: int
    busy: int


class Login(BaseModel):
    """A token, to be kept by the browser."""

    token: str = Field(max_length=200)


class Me(BaseModel):
    """Who you are to this server."""

    name: str
    role: str


@router.get("/health", response_model=Health, responses={503: {"model": Health}})
async def health(request: Request) -> Response:
    """Is all well? Anybody may ask without a token, so the answer says nothing else."""
    server = server_of(request)
    failure = type(server.pump.failure).__name__ if server.pump.failure is not None else None
    if not server.hub.is_alive:
        failure = "no deltas are given out"
    aside = len(await to_thread.run_sync(server.runtime.set_aside))
    busy = server.pump.busy
    well = "stalled" if busy > STALLED else "ok"
    faults = len(server.runtime.past_faults())
    status = "failing" if failure is not None else "degraded" if aside or faults else well
    body = Health(
        status=status,
        tick=server.hub.tick,
        failure=failure,
        set_aside=aside,
        past_faults=faults,
        busy=int(busy),
    )
    return JSONResponse(body.model_dump(), 200 if failure is None else 503)


@router.get("/me", response_model=Me)
async def me(who: Anyone) -> Me:
    """Who is asking."""
    return Me(name=who.name, role=who.role)


@router.post("/login", response_model=Me)
async def login(request: Request, response: Response, wanted: Login) -> Me:
    """Keep a token in a cookie that scripts cannot read and other sites cannot send."""
    server = server_of(request)
    token = server.store.check_token(wanted.token)
    if token is None:
        raise Refused(401, "not_authenticated", "the token is not valid")
    response.set_cookie(
        COOKIE,
        wanted.token,
        httponly=True,
        samesite="strict",
        secure=server.settings.secure,
        path="/",
    )
    return Me(name=token.name, role=token.role)


@router.post("/logout", status_code=204)
async def logout(response: Response) -> None:
    """Forget the cookie."""
    response.delete_cookie(COOKIE, path="/")


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request, who: Monitor) -> PlainTextResponse:
    """Figures in Prometheus' text form."""
    text = figures(server_of(request))
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def figures(server: Server) -> str:
    """The server's figures, a few lines each."""
    lines: list[str] = []

    def metric(name: str, kind: str, text: str, values: Mapping[str, float]) -> None:
        lines.append(f"# HELP place_{name} {text}")
        lines.append(f"# TYPE place_{name} {kind}")
        lines.extend(f"place_{name}{labels} {value:g}" for labels, value in values.items())

    def one(name: str, kind: str, text: str, value: float) -> None:
        metric(name, kind, text, {"": value})

    last, hub = server.runtime.last, server.hub
    catalog = server.session.catalog
    counts = {s.name: server.runtime.statistics(s.name) for s in catalog.streams.values()}
    readings, size = server.runtime.waiting()
    one("up_seconds", "gauge", "Seconds since the server began.", time.time() - server.began)
    one("tick", "counter", "Ticks that were committed.", last.tick if last else 0)
    one("failing", "gauge", "1 if the last tick failed.", float(server.pump.failure is not None))
    deltas = last.totals.get("", {}).get("deltas", 0) if last else 0
    one("deltas_total", "counter", "Deltas of all queries.", deltas)
    for key, text in (
        ("readings", "Readings taken."),
        ("late", "Readings that came too late."),
        ("bad", "Rows that were set aside."),
    ):
        metric(f"{key}_total", "counter", text, {_of(n): c[key] for n, c in counts.items()})
    objects = {_of(name): count["objects"] for name, count in counts.items()}
    metric("objects", "gauge", "Objects that are alive.", objects)
    stored = {_of(name): count.get("on_disk", 0) for name, count in counts.items()}
    metric("objects_on_disk", "gauge", "Those of them that are not in memory.", stored)
    one("waiting_readings", "gauge", "Readings accepted that no tick has taken.", readings)
    one("waiting_bytes", "gauge", "Bytes of these.", size)
    aside = len(server.runtime.set_aside())
    one("set_aside_files", "gauge", "Files of readings of which no tick could be made.", aside)
    triggers = sum(query.trigger is not None for query in catalog.queries.values())
    one("queries", "gauge", "Registered queries.", len(catalog.queries) - triggers)
    one("triggers", "gauge", "Triggers.", triggers)
    for figure, label, values in told_of(counts_of(last)):
        first = itertools.islice(values.items(), MOST_NAMED)
        told = {_of(name, label): value for name, value in first}
        metric(figure.name, figure.kind, figure.text, told)
    one("suspended", "gauge", "Queries suspended for what they cost.", len(server.suspended))
    used = server.quotas.usage(clients(server))
    for what in COUNTED:
        values = {_of(name, "client"): has[what] for name, has in used.items()}
        metric(f"client_{what}", "gauge", f"What clients have of their quota: {what}.", values)
    one("subscribers", "gauge", "Open subscriptions.", len(hub.subscribers()))
    one("delivered_total", "counter", "Deltas given to subscribers.", hub.delivered)
    one("dropped_total", "counter", "Subscribers that were too slow.", hub.dropped)
    behind = last.tick - hub.tick if last else 0
    one("behind_ticks", "gauge", "Ticks that are committed and not given out.", behind)
    seconds = last.metrics if last else {}
    stages = {f'{{stage="{stage}"}}': seconds.get(stage, 0.0) for stage in STAGES}
    metric("tick_seconds", "gauge", "Seconds of the stages of the last tick.", stages)
    lag = {"": seconds["lag"]} if "lag" in seconds else {}
    metric("tick_lag_seconds", "gauge", "Seconds that the last tick's first reading waited.", lag)
    return "\n".join(lines) + "\n"


def _of(name: str, label: str = "stream") -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{{{label}="{escaped}"}}'
