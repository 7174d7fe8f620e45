"""A Kafka broker: Kafka's own server, alone, on loopback, with its data in a directory of the test.

    if reason := unavailable():
        pytest.skip(reason)
    with broker(directory=tmp_path) as kafka:
        kafka.create_topic("readings", partitions=2)
        kafka.produce("readings", [("17", '{"x": 1}'), ("18", '{"x": 2}')])
        assert len(kafka.consume("readings")) == 2

Its jars come by Spark's own way to packages. The clients are those of the library that PLACE uses.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import functools
import json
import os
import re
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyspark
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from place.runtime.spark.java import find_java
from tests.harness import LOOPBACK, Processes, end_session, free_port

KAFKA = "org.apache.kafka:kafka_2.13:4.3.1"  # serves clients of all versions since 2.1

PATIENCE = 60.0  # seconds for each step of the start; all of it takes five
RESOLUTION_PATIENCE = 240.0  # seconds; without any of the jars at hand it takes 20
REFUSAL_LASTS = 600.0  # seconds in which a package that could not be had is not asked for again

_SPARK_JARS = Path(pyspark.__file__).parent / "jars"
# What Spark leaves out of a package because it has it, and a way for Kafka to log.
_JARS_OF_SPARK = ["slf4j-api-*", "log4j-slf4j2-impl-*", "scala-library-*"]

_RESOLUTION = """
import sys
from place.runtime.spark.session import start_session

settings = {"spark.jars.packages": sys.argv[1], "spark.driver.memory": "512m"}
spark = start_session("local[1]", settings=settings)
print("jars:" + spark.conf.get("spark.jars"))
spark.stop()
"""
_PROBLEM = re.compile(r"\[((?:unresolved dependency|download failed): .+)\]$", re.MULTILINE)

_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n%ex
"""

_SERVER = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
controller.quorum.voters=1@{host}:{controller}
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""


@dataclass
class Broker:
    """A running broker: its address, its process, and what a test does with it."""

    servers: str
    _start: Callable[[], subprocess.Popen[bytes]]
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.process = self._start()

    def restart(self) -> None:
        """Kill the broker, and start it again with what it has on its disk."""
        self.process.kill()
        self.process.wait()
        self.process = self._start()

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic, ready to be written to when this returns."""
        admin = AdminClient(self._options())
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(PATIENCE)

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Let go of the messages before an offset, as a broker does when they are old."""
        admin = AdminClient(self._options())
        place = TopicPartition(topic, partition, offset)
        for done in admin.delete_records([place]).values():
            done.result(PATIENCE)

    def add_partitions(self, topic: str, total: int) -> None:
        """Have more partitions of a topic."""
        admin = AdminClient(self._options())
        admin.create_partitions([NewPartitions(topic, total)])[topic].result(PATIENCE)

    def produce(
        self,
        topic: str,
        messages: Iterable[tuple[str | None, str | bytes | None]],
        partition: int | None = None,
    ) -> None:
        """Write messages (key, value); when this returns, the broker has acknowledged all.

        Without a partition it follows from the key; None is Kafka's null.
        """
        failed: list[str] = []

        def told(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error.str())

        producer = Producer(self._options() | {"delivery.timeout.ms": "30000", "linger.ms": "20"})
        where = {} if partition is None else {"partition": partition}
        for key, value in messages:
            while True:
                try:
                    producer.produce(topic, value, key, on_delivery=told, **where)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush(PATIENCE)
        assert not failed, failed[0]

    def consume(
        self, topic: str, timeout: float = 30
    ) -> list[tuple[int, int, str | None, str | None]]:
        """All committed messages of a topic as (partition, offset, key, value), ordered by the
        first two, from the beginning to where it ends now."""
        own = {"group.id": "test", "enable.partition.eof": True, "enable.auto.commit": False}
        consumer = Consumer(self._options() | own | {"isolation.level": "read_committed"})
        found: list[tuple[int, int, str | None, str | None]] = []
        try:
            partitions = consumer.list_topics(topic, timeout).topics[topic].partitions
            consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in partitions])
            ended: set[int | None] = set()
            deadline = time.monotonic() + timeout
            while len(ended) < len(partitions) and time.monotonic() < deadline:
                for message in consumer.consume(10_000, 0.5):
                    error = message.error()
                    if error is not None:
                        assert error.code() == KafkaError._PARTITION_EOF, error.str()
                        ended.add(message.partition())
                        continue
                    key, value = message.key(), message.value()
                    texts = (None if t is None else bytes(t).decode() for t in (key, value))
                    found.append((message.partition() or 0, message.offset() or 0, *texts))
        finally:
            consumer.close()
        return sorted(found, key=lambda message: message[:2])

    def _options(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.servers}


@contextlib.contextmanager
def broker(*, directory: Path) -> Iterator[Broker]:
    """A broker with no topics, ready for clients. Fails where `unavailable()` gives a reason."""
    jars = _resolve(KAFKA)
    if isinstance(jars, str):
        raise RuntimeError(jars)
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "log4j2.properties").write_text(_LOGGING)
    port, controller = free_port(), free_port()
    settings = directory / "server.properties"
    settings.write_text(
        _SERVER.format(host=LOOPBACK, port=port, controller=controller, data=directory / "data")
    )
    own = [next(_SPARK_JARS.glob(f"{name}.jar")) for name in _JARS_OF_SPARK]
    java = [
        str(find_java().home / "bin" / "java"),
        *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        f"-Djava.io.tmpdir={directory}",  # for libraries that a killed Java leaves behind
        f"-Dlog4j2.configurationFile={(directory / 'log4j2.properties').as_uri()}",
        *("-classpath", os.pathsep.join(map(str, [*own, *jars]))),
    ]
    with Processes() as processes:
        identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        formatting = processes.start(
            [
                *(*java, "-Xmx256m", "kafka.tools.StorageTool", "format"),
                *(f"--cluster-id={identity}", f"--config={settings}"),
            ],
            log=directory / "format.log",
            environ=os.environ,
        )
        processes.finish(formatting, timeout=PATIENCE)

        def start() -> subprocess.Popen[bytes]:
            server = processes.start(
                [*java, "-Xmx512m", "kafka.Kafka", str(settings)],
                log=directory / "server.log",
                environ=os.environ,
            )
            processes.wait(
                server, lambda: _listens(port), purpose="the broker's port", timeout=PATIENCE
            )
            return server

        yield Broker(f"{LOOPBACK}:{port}", start)


def unavailable(package: str = KAFKA) -> str | None:
    """Why a package cannot be had on this machine, or None when it can.

    The first call may load it from the network. The answer is kept: for this process, and for
    others as long as the jars are there, or for some minutes if they could not be had.
    """
    jars = _resolve(package)
    return jars if isinstance(jars, str) else None


@functools.cache
def _resolve(package: str) -> list[Path] | str:
    """The jars of a package and of all that it needs, or why they cannot be had."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "place" / "packages"
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    record = cache / f"{package.replace(':', '_')}.json"
    # One at a time, whatever the package: Ivy's cache does not expect company.
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(OSError, ValueError):
            known = json.loads(record.read_text())
            jars = [Path(jar) for jar in known["jars"]]
            if jars and all(jar.is_file() for jar in jars):
                return jars
            if known["reason"] and 0 <= time.time() - known["time"] < REFUSAL_LASTS:
                return str(known["reason"])
        answer = _ask_spark(package)
        refused = isinstance(answer, str)
        known = {
            "jars": [] if refused else list(map(str, answer)),
            "reason": answer if refused else None,
            "time": time.time(),
        }
        record.write_text(json.dumps(known, indent=1))
    return answer


def _ask_spark(package: str) -> list[Path] | str:
    """Let a Spark that is started for it alone load a package, and tell where the jars are."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    process = subprocess.Popen(
        [sys.executable, "-c", _RESOLUTION, package],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environ,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=RESOLUTION_PATIENCE)
    except subprocess.TimeoutExpired:
        return f"{package} cannot be had: Spark has not found it in {RESOLUTION_PATIENCE:g} s"
    finally:
        end_session(process.pid)
        process.wait()
    listed = re.search(r"^jars:(.+)$", output, re.MULTILINE)
    if process.returncode == 0 and listed:
        return [Path(jar.removeprefix("file://")) for jar in listed.group(1).split(",")]
    problem = _PROBLEM.search(output)
    if problem:
        return (
            f"{package} cannot be had: Spark's package resolution says {problem.group(1)} "
            "(there is no network, or it is not published)"
        )
    # Anything else is not a reason to skip a test.
    raise RuntimeError(f"Spark did not start to resolve {package}:\n{output[-2000:]}")


def _listens(port: int) -> bool | None:
    with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1):
        return True
    return None
