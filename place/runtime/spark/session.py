"""The one place where a Spark session begins.

A session needs a Java, workers that run this very interpreter, and one set of settings for the
demo, the tests and the server. Whoever types `place demo` should see the demo: nothing of Spark on
the console while all is well, and one readable sentence when it is not.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from place.errors import ConfigurationError
from place.runtime.spark import worker_daemon
from place.runtime.spark.class_archive import class_options
from place.runtime.spark.console import taken_down
from place.runtime.spark.java import keep_file, prepare_java

LOG = logging.getLogger("place.spark")
LOOPBACK = "127.0.0.1"  # a number: the name `localhost` does not resolve everywhere

# Without a file of ours, Spark announces that it takes its own default; without a level for the
# class that Python talks to, it announces that it takes its own level. What SparkContext, a task or
# a batch logs as an error it also throws, and we say it in fewer words.
_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.context.name = org.apache.spark.SparkContext
logger.context.level = fatal
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = fatal
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = fatal
logger.batches.name = org.apache.spark.sql.execution.streaming
logger.batches.level = fatal
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n%ex
"""

_LOCAL = re.compile(r"local(?:\[\s*(\*|[0-9]+)\s*(?:,\s*([0-9]+)\s*)?\])?")

# A tick leaves some megabytes of garbage in Java, and what has to stay is 60 MB. Left to itself the
# collector takes more and more of the memory that it may have rather than a little time more
# often: the more it may have, the sooner. So it begins with what it needs for good, takes more only
# if half of all time went into collecting, and gives back what it does not need.
_COLLECTOR = "-Xms256m -XX:GCTimeRatio=1 -XX:MaxHeapFreeRatio=50 -XX:G1PeriodicGCInterval=60000"
# Spark remembers its last thousand jobs for a page that nobody can look at: long enough for all
# that it knows of them to become old, which is collected last.
_FORGETFUL = {
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
}


def start_session(
    master: str = "local[*]",
    *,
    cells: int = 1,
    app_name: str = "place",
    ui: bool = False,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark, or attach to the session that is already active in this process.

    A local master gets a slot more for each of the cells that will stand on it. `settings` go
    before the defaults of `session_settings`. As with `getOrCreate`, those that an active session
    can no longer change stay as they are.
    """
    java = prepare_java()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if _is_local(master):
        # Spark asks for the address of the machine's own name, which need not have one.
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    defaults = session_settings(master, ui=ui)
    defaults["spark.driver.defaultJavaOptions"] += f" {class_options(java)}"
    chosen = {**defaults, **(settings or {})}
    began = time.monotonic()
    try:
        if SparkContext._gateway is None:
            LOG.info("starting Spark (%s)", master)
            _launch({"spark.master": master, "spark.app.name": app_name, **chosen})
        widened, cores = with_slots(master, cells, _processors)
        if cores is not None:
            chosen.setdefault("spark.default.parallelism", str(cores))
        builder = SparkSession.builder.master(widened).appName(app_name)
        for name, value in chosen.items():
            builder = builder.config(name, value)
        with _interrupts_kept():
            session = builder.getOrCreate()
    except Exception as error:  # of Java, of the bridge to it, or of the system: no common base
        raise ConfigurationError(
            f'Spark did not start with master "{master}": {_cause(error)}', hint=_hint()
        ) from None
    LOG.info("Spark runs after %.1f s", time.monotonic() - began)
    return session


def _launch(settings: Mapping[str, str]) -> None:
    """Start Java as Spark would, but with a console of its own."""
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with taken_down() as console:
        gateway = launch_gateway(conf, {"stderr": console})  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway)


@contextlib.contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Spark takes Ctrl-C for itself and ends jobs in the middle; whoever has it should keep it."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGINT, before)


def session_settings(master: str, *, ui: bool = False) -> dict[str, str]:
    """The settings that every session begins with."""
    logging = keep_file("logging", "log4j2.properties", _LOGGING)
    settings = {
        # The job of a tick has one known shape: nothing to plan again while it runs.
        "spark.sql.adaptive.enabled": "false",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.daemon.module": worker_daemon.MODULE,
        # The job of the standing cells has a pool of its own. A second attempt of a task that only
        # seems slow would take the place of the first one.
        "spark.scheduler.mode": "FAIR",
        "spark.speculation": "false",
        # Without checksums, which double the files of each log entry.
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        # Renames its drafts, like the default one, but does not start a process to set the
        # permissions of each: 90 milliseconds instead of 220 beside the work of a tick.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing"
            ".FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.session.timeZone": "UTC",
        # What Spark remembers of the batches of a source: enough to go on, not its whole life.
        "spark.sql.streaming.minBatchesToRetain": "10",
        # How often an idle source is asked for news; ten milliseconds would keep a core busy.
        "spark.sql.streaming.pollingDelay": "50ms",
        "spark.driver.memory": "4g",
        "spark.ui.enabled": str(ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        # Not `extraJavaOptions`, which is the caller's and is added to these.
        "spark.driver.defaultJavaOptions": (
            f"-Dlog4j2.configurationFile={logging.as_uri()} {_COLLECTOR}"
        ),
    }
    if not ui:
        settings |= _FORGETFUL
    if _is_local(master):
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = LOOPBACK
    return settings


def with_slots(master: str, cells: int, processors: Callable[[], int]) -> tuple[str, int | None]:
    """A local master with a slot more for each standing cell, and the cores that it asked for.

    The cells hold their slots as long as they stand; the others are for ordinary jobs.

    >>> with_slots("local[2]", 4, lambda: 8), with_slots("local[*, 3]", 1, lambda: 8)
    (('local[6]', 2), ('local[9,3]', 8))
    >>> with_slots("spark://host:7077", 4, lambda: 8)
    ('spark://host:7077', None)
    """
    found = _LOCAL.fullmatch(master.strip())
    if found is None:
        return master, None
    asked, failures = found.groups()
    cores = 1 if asked is None else processors() if asked == "*" else int(asked)
    return f"local[{cores + cells}{f',{failures}' if failures else ''}]", cores


def _processors() -> int:
    """The processors that Java may use, which is what `local[*]` means."""
    java: Any = SparkContext._jvm
    return int(java.java.lang.Runtime.getRuntime().availableProcessors())


def _is_local(master: str) -> bool:
    """Does all of Spark run on this machine, so that nobody else need reach the driver?"""
    return master.startswith(("local", f"spark://{LOOPBACK}:"))


def _cause(error: Exception) -> str:
    """What went wrong, in one line and without a stack."""
    never_up = isinstance(error, PySparkException) and error.getCondition() == "JAVA_GATEWAY_EXITED"
    if never_up or isinstance(error, ConnectionError):
        return "its Java process ended, for the reason it has written above"
    thrown = getattr(error, "java_exception", None)
    if thrown is None:
        return _first_line(str(error)) or type(error).__name__
    reasons: list[str] = []
    while thrown is not None:
        reason = _first_line(thrown.getMessage() or thrown.getClass().getSimpleName())
        if not any(reason in earlier for earlier in reasons):
            reasons.append(reason)
        thrown = thrown.getCause()
    return ", because ".join(reasons)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].strip().rstrip(".")


def _hint() -> str:
    if "SPARK_HOME" in os.environ:
        return f"SPARK_HOME is set to {os.environ['SPARK_HOME']}: it has to be this version's Spark"
    return "check the master, the settings and the memory of this machine"
