"""The application: all routes, what holds for each of them, and the page."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse
from starlette.middleware.cors import CORSMiddleware
from starlette.staticfiles import StaticFiles

import place.web
from place import __version__
from place.server import (
    operate,
    past,
    pushes,
    queries,
    quotas,
    readings,
    trackers,
    updates,
    webhooks,
)
from place.server.access import Gate
from place.server.errors import Refused, add_handlers
from place.server.state import Server
from place.web import VENDOR, vendored


def make_app(server: Server) -> FastAPI:
    """The application of a server that runs."""
    app = FastAPI(
        title="PLACE",
        version=__version__,
        description="Continuous queries over moving objects.",
        docs_url=None,  # their scripts come from elsewhere; `/docs` is a page of our own
        redoc_url=None,
    )
    app.state.place = server
    add_handlers(app)
    of_data = queries, past, readings, pushes, trackers, updates
    for part in (*of_data, webhooks, quotas, operate):
        app.include_router(part.router)
    if importlib.util.find_spec("place.server.map") is not None:
        from place.server import map as live

        app.include_router(live.router(server))
    _add_page(app)
    if server.settings.cors:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(server.settings.cors),
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Last-Event-ID"],
        )
    app.add_middleware(Gate, server=server)
    return app


def _add_page(app: FastAPI) -> None:
    """The page and its parts, which hold nothing that is not public."""
    web = Path(place.web.__path__[0])

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(web / "index.html", media_type="text/html")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> FileResponse:
        return FileResponse(web / "docs.html", media_type="text/html")

    @app.get("/vendor/{name}", include_in_schema=False)
    async def vendor(name: str) -> FileResponse:
        file = vendored(name)
        if file is None:
            raise Refused(404, "not_found", "there is no such file")
        headers = {"Cache-Control": "public, max-age=86400"}
        return FileResponse(file, media_type=VENDOR[name], headers=headers)

    app.mount("/static", Parts(directory=web), name="static")


class Parts(StaticFiles):
    """The files of the page, and no others of its directory."""

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        if Path(path).suffix not in (".html", ".js", ".css", ".svg"):
            return "", None
        return super().lookup_path(path)
