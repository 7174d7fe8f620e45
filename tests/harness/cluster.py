"""A cluster of Spark's own making: one Master and some Workers, each a process, on loopback.

    with standalone_cluster(workers=2, directory=tmp_path) as cluster:
        spark = start_session(cluster.master, settings=cluster.settings)
        ...
        cluster.kill_worker(0)

Logs are in the directory: `master.log`, `worker-0/worker.log`, and those of the executors in
`worker-0/app-…/0/stderr`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark

from place.runtime.spark.java import find_java, launcher_home
from tests.harness import LOOPBACK, Processes

PATIENCE = 60.0  # seconds for each step of the start; all of it takes six
MEMORY = "1g"  # of a worker, which is what an executor asks for

_ADDRESSES = re.compile(
    r"Starting Spark master at (spark://\S+).*?MasterWebUI.*? started at (http://\S+)", re.DOTALL
)
_HOME = Path(pyspark.__file__).parent


@dataclass(frozen=True)
class Cluster:
    """A running cluster: its address, its workers by number, and what a session on it sets."""

    master: str
    workers: list[subprocess.Popen[bytes]]
    settings: dict[str, str]
    _page: str
    _processes: Processes

    def kill_worker(self, number: int) -> None:
        """SIGKILL to a worker, its executors and their Python processes, as a machine is lost."""
        self._processes.kill(self.workers[number])

    def alive_workers(self) -> int:
        """How many workers the master believes to be there."""
        with urllib.request.urlopen(f"{self._page}/json/", timeout=PATIENCE) as answer:
            return sum(worker["state"] == "ALIVE" for worker in json.load(answer)["workers"])


@contextlib.contextmanager
def standalone_cluster(
    workers: int = 2, *, directory: Path, cores: int = 1, worker_timeout: int = 60
) -> Iterator[Cluster]:
    """A cluster whose workers have 1 GB each, and so many cores, all of them registered.

    A killed worker is missed at once, by the master and by the driver, since its connections
    break. `worker_timeout` is for one that is there and silent (SIGSTOP): after so many seconds
    the master gives it up, and tells the driver.
    """
    directory = directory.absolute()
    environ = _environment(directory, worker_timeout)
    with Processes() as processes:
        log = directory / "master.log"
        master = processes.start(
            _daemon("master.Master"),
            log=log,
            environ=environ,
        )
        address, page = processes.wait(
            master,
            lambda: _ADDRESSES.search(log.read_text(errors="replace")),
            purpose="the master",
            timeout=PATIENCE,
        ).groups()
        started = [
            processes.start(
                _daemon(
                    "worker.Worker",
                    *("--cores", str(cores), "--memory", MEMORY),
                    *("--work-dir", str(directory / f"worker-{number}"), address),
                ),
                log=directory / f"worker-{number}" / "worker.log",
                environ=environ,
            )
            for number in range(workers)
        ]
        cluster = Cluster(address, started, _settings(workers * cores, directory), page, processes)
        for process in started:
            processes.wait(
                process,
                lambda: True if cluster.alive_workers() >= workers else None,
                purpose=f"{workers} workers to register",
                timeout=PATIENCE,
            )
        yield cluster


def _daemon(name: str, *arguments: str) -> list[str]:
    """The command for one of Spark's daemons, on ports that are free."""
    address = ["--host", LOOPBACK, "--port", "0", "--webui-port", "0"]
    command = str(_HOME / "bin" / "spark-class")
    return [command, f"org.apache.spark.deploy.{name}", *address, *arguments]


def _environment(directory: Path, worker_timeout: int) -> dict[str, str]:
    """The environment of all daemons: nothing of another Spark's, and the Java that PLACE finds."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    configuration = directory / "conf"
    configuration.mkdir(parents=True, exist_ok=True)
    options = [
        f"-Dspark.worker.timeout={worker_timeout}",  # a worker reports four times in it
        "-Dspark.master.rest.enabled=false",  # it would take a port of its own, 6066
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # little to do and soon to start
    ]
    return inherited | {
        "JAVA_HOME": str(launcher_home(find_java())),
        "SPARK_HOME": str(_HOME),
        "SPARK_CONF_DIR": str(configuration),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_DIRS": str(directory / "local"),
        "SPARK_PUBLIC_DNS": LOOPBACK,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": " ".join(options),
    }


def _settings(cores: int, directory: Path) -> dict[str, str]:
    """What a session has to set, since its own settings are for a master within the driver."""
    return {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.executor.memory": MEMORY,
        # For libraries that a killed Java leaves behind.
        "spark.executor.defaultJavaOptions": f"-Djava.io.tmpdir={directory}",
        # The session waits until each worker has an executor; else one gets all the first tasks.
        "spark.cores.max": str(cores),
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    }
