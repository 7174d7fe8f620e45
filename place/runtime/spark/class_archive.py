"""Spark's classes as Java has them in memory, kept in a file: Spark then starts sooner.

Most of what Java does while Spark starts is to find some ten thousand classes in the jars, to check
and to link them. Java can write down what it made of them when it ends, and read that the next time
(class data sharing). The file is made once for a Java and a Spark, by a process that starts Spark
for nothing else, and it is only a shortcut: Java compares the jars with those that the file was
made of and goes on without it where they differ.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark

from place.runtime.spark.java import Java, cache_directory, find_java

QUIET = "-Xlog:cds*=off"
"""Java would say on the console that a file does not fit, or which classes it left out."""
AT_EXIT = "PLACE_CLASSES_AT_EXIT"
"""Names the file that is to be made, to the process that makes it."""
LONGEST = 180.0
"""Seconds that making it may take."""


def class_options(java: Java) -> str:
    """What tells Java to use the file, where there is one for it, or to make it."""
    making = os.environ.get(AT_EXIT)
    if making:
        # Nothing that lives so shortly is worth the second compiler.
        return f"-XX:ArchiveClassesAtExit={making} -XX:TieredStopAtLevel=1 {QUIET}"
    path = _path(java)
    if path is None or not path.is_file() or path.stat().st_size == 0 or " " in str(path):
        return ""
    return f"-XX:SharedArchiveFile={path} {QUIET}"


def _path(java: Java) -> Path | None:
    """Where the file of a Java is: empty if that Java could not make one."""
    directory = cache_directory()
    if directory is None:
        return None
    release = java.home / "release"
    told = release.read_bytes() if release.is_file() else b""
    parts = (str(java.home), pyspark.__version__, str(Path(pyspark.__file__).parent))
    digest = hashlib.sha256(told + "\n".join(parts).encode()).hexdigest()[:16]
    return directory / "classes" / f"spark-{digest}.jsa"


def is_missing() -> bool:
    """Has nobody tried yet to make the file for the Java that Spark would start with?"""
    path = _path(find_java())
    return path is not None and not path.exists()


@contextlib.contextmanager
def made_meanwhile(nice: int) -> Iterator[None]:
    """Make the file beside whatever runs, if it is not there."""
    process = None
    if is_missing():
        command = [sys.executable, "-m", "place.runtime.spark.class_archive", str(nice)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for whoever started it
        )
    try:
        yield
    finally:
        if process is not None:
            if process.poll() is None:
                process.terminate()
            process.wait()


def make_archive() -> None:
    """Start Spark, let it do a little of everything, and keep the classes that it needed."""
    path = _path(find_java())
    if path is None:
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (path.parent / "making").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            return
        draft = path.with_suffix(f".{os.getpid()}")
        try:
            subprocess.run(
                [sys.executable, "-c", _RUN],
                env={**os.environ, AT_EXIT: str(draft)},
                stdin=subprocess.DEVNULL,
                check=False,
                timeout=LONGEST,
            )
            if not draft.exists():
                draft.touch(mode=0o600)  # this Java cannot: nobody need try again
            os.replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)


_RUN = """
from place.runtime.spark.class_archive import run_spark
run_spark()
"""


def run_spark() -> None:
    """What a pipeline does with Spark: a job in Python, a session of SQL, and a clean end."""
    from pyspark import SparkContext

    from place.runtime.spark.session import start_session

    spark = start_session("local[2]")
    spark.sparkContext.parallelize([0], 1).map(str).collect()
    spark.range(3).selectExpr("id + 1").collect()
    spark.stop()
    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if gateway is not None and process is not None:
        gateway.shutdown()
        process.stdin.close()  # Java ends by itself, which is when it writes its classes down
        process.wait()


if __name__ == "__main__":
    os.nice(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    make_archive()
