"""The map: the files of its page, and where the library is that draws it."""

from __future__ import annotations

import importlib.util
from importlib.resources import files
from pathlib import Path

VENDOR = {
    "maplibre-gl.js": "text/javascript",
    "maplibre-gl.css": "text/css",
}
"""The files of the map's library, which comes as a package, and what they are."""


def vendored(name: str) -> Path | None:
    """A file of the map's library."""
    if name not in VENDOR:
        return None
    # The package is looked for and not imported: it would ask for a framework that nobody needs.
    package = importlib.util.find_spec("maplibre")
    for directory in (package.submodule_search_locations or ()) if package is not None else ():
        file = Path(directory) / "srcjs" / name
        if file.is_file():
            return file
    return None


def module_text(name: str) -> str:
    """The text of a module of the page."""
    return (files("place.web") / name).read_text("utf-8")
