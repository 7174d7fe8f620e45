"""Where compiled kernels are kept, so that they are compiled once on a machine.

Numba keeps them beside their source. Where that cannot be written, as in a package that somebody
else has installed, they are kept in the user's cache directory, and where there is none, in one of
all temporary files: a kernel that can be kept nowhere could not even be imported.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

PACKAGE = Path(__file__).parent
VARIABLE = "NUMBA_CACHE_DIR"


def prepare_cache() -> None:
    """Tell Numba, before it is imported, where to keep what it compiles."""
    if not os.environ.get(VARIABLE) and not _is_writable(PACKAGE / "__pycache__"):
        chosen = choose_cache(os.environ)
        if chosen is not None:
            os.environ[VARIABLE] = str(chosen)


def choose_cache(environ: Mapping[str, str]) -> Path | None:
    """The first directory of this user that can be written."""
    return next((each for each in _directories(environ) if _is_writable(each)), None)


def cache_directory() -> Path:
    """Where compiled kernels are."""
    return Path(os.environ.get(VARIABLE) or PACKAGE / "__pycache__")


def fingerprint() -> str:
    """What compiled kernels depend on: their sources, the compiler and this processor."""
    import llvmlite.binding  # type: ignore[import-untyped]
    import numba

    digest = hashlib.sha256()
    for source in sorted(PACKAGE.glob("*.py")):
        digest.update(source.name.encode() + source.read_bytes())
    processor = llvmlite.binding.get_host_cpu_name()
    digest.update(f"{numba.__version__} {llvmlite.__version__} {processor}".encode())
    return digest.hexdigest()[:16]


def _directories(environ: Mapping[str, str]) -> Iterator[Path]:
    cache, home = Path(environ.get("XDG_CACHE_HOME", "")), Path(environ.get("HOME", ""))
    if cache.is_absolute():
        yield cache / "place" / "kernels"
    if home.is_absolute():
        yield home / ".cache" / "place" / "kernels"
    yield Path(tempfile.gettempdir()) / f"place-kernels-{os.getuid()}"


def _is_writable(directory: Path) -> bool:
    with contextlib.suppress(OSError):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if directory.stat().st_uid not in (os.getuid(), PACKAGE.stat().st_uid):
            return False  # somebody else's code would be run
        with tempfile.TemporaryFile(dir=directory):
            return True
    return False
