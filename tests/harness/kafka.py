"""A Kafka broker: Kafka's own server, alone, on loopback, with its data in a directory of the test.

    if reason := unavailable():
        pytest.skip(reason)
    with broker(directory=tmp_path) as kafka:
        kafka.create_topic("readings", partitions=2)
        kafka.produce("readings", [("17", '{"x": 1}'), ("18", '{"x": 2}')])
        assert len(kafka.consume("readings")) == 2

Its jars, and those of Spark's connector, come by Spark's own way to packages, as PLACE's do. The
clients are Kafka's, too: they run in a Java process that Python speaks to through Py4J, which
PySpark brings along, so keys and values are passed as they are and not as lines of a console.
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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway

from place.runtime.spark.java import find_java
from tests.harness import LOOPBACK, Processes, end_session, free_port

KAFKA = "org.apache.kafka:kafka_2.13:4.3.1"  # serves clients of all versions since 2.1
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"

PATIENCE = 60.0  # seconds for each step of the start; all of it takes five
RESOLUTION_PATIENCE = 240.0  # seconds; without any of the jars at hand it takes 20
REFUSAL_LASTS = 600.0  # seconds in which a package that could not be had is not asked for again

_SPARK_JARS = Path(pyspark.__file__).parent / "jars"
# What Spark leaves out of a package because it has it, and a way for Kafka to log.
_JARS_OF_SPARK = ["slf4j-api-*", "log4j-slf4j2-impl-*", "scala-library-*", "py4j-*"]

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


@dataclass(frozen=True)
class Broker:
    """A running broker: its address, its process, and what a test does with it."""

    servers: str
    process: subprocess.Popen[bytes]
    _java: Any  # the virtual machine of the clients

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic, ready to be written to when this returns."""
        packages = self._java.org.apache.kafka.clients.admin
        with contextlib.closing(packages.Admin.create(self._options())) as admin:
            topic = packages.NewTopic(name, partitions, 1)
            admin.createTopics([topic]).all().get()  # Kafka waits a minute for its broker

    def produce(self, topic: str, messages: Iterable[tuple[str | None, str | None]]) -> None:
        """Write messages (key, value); when this returns, the broker has acknowledged all.

        The partition follows from the key, by Kafka's own hash; None is Kafka's null.
        """
        packages = self._java.org.apache.kafka
        text = packages.common.serialization.StringSerializer
        options = self._options() | {
            "max.block.ms": "20000",  # for a topic that is not there
            "request.timeout.ms": "10000",
            "delivery.timeout.ms": "30000",
        }
        with contextlib.closing(
            packages.clients.producer.KafkaProducer(options, text(), text())
        ) as producer:
            record = packages.clients.producer.ProducerRecord
            sent = [producer.send(record(topic, key, value)) for key, value in messages]
            producer.flush()
            for acknowledgement in sent:
                acknowledgement.get()

    def consume(
        self, topic: str, timeout: float = 30, *, count: int | None = None
    ) -> list[tuple[int, int, str | None, str | None]]:
        """All that is in a topic as (partition, offset, key, value), ordered by the first two.

        Reads from the beginning to where the topic ends now, or until there are `count` messages;
        after `timeout` seconds, whatever it has by then.
        """
        packages = self._java.org.apache.kafka
        text = packages.common.serialization.StringDeserializer
        options = self._options() | {"default.api.timeout.ms": str(int(timeout * 1000))}
        deadline = time.monotonic() + timeout
        messages: list[tuple[int, int, str | None, str | None]] = []
        with contextlib.closing(
            packages.clients.consumer.KafkaConsumer(options, text(), text())
        ) as consumer:
            partitions = [
                packages.common.TopicPartition(topic, each.partition())
                for each in consumer.partitionsFor(topic)
            ]
            consumer.assign(partitions)
            consumer.seekToBeginning(partitions)
            ends = consumer.endOffsets(partitions)
            while time.monotonic() < deadline and (
                len(messages) < count
                if count is not None
                else any(consumer.position(each) < ends[each] for each in partitions)
            ):
                for record in consumer.poll(self._java.java.time.Duration.ofMillis(100)).iterator():
                    messages.append(
                        (record.partition(), record.offset(), record.key(), record.value())
                    )
        return sorted(messages, key=lambda message: message[:2])

    def _options(self) -> dict[str, str]:
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
    with Processes() as processes, contextlib.ExitStack() as stack:
        clients_log = directory / "clients.log"
        clients = processes.start(
            [*java, "-Xmx256m", "py4j.GatewayServer", "--enable-auth", "0"],
            log=clients_log,
            environ=os.environ,
        )
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
        server = processes.start(
            [*java, "-Xmx512m", "kafka.Kafka", str(settings)],
            log=directory / "server.log",
            environ=os.environ,
        )
        processes.wait(
            server, lambda: _listens(port), purpose="the broker's port", timeout=PATIENCE
        )
        gateway_port, token = processes.wait(
            clients, lambda: _gateway(clients_log), purpose="the clients' Java", timeout=PATIENCE
        )
        gateway = stack.enter_context(
            contextlib.closing(
                JavaGateway(
                    gateway_parameters=GatewayParameters(
                        address=LOOPBACK, port=gateway_port, auth_token=token, auto_convert=True
                    )
                )
            )
        )
        yield Broker(f"{LOOPBACK}:{port}", server, gateway.jvm)


def unavailable(package: str = KAFKA) -> str | None:
    """Why a package (`KAFKA`, `CONNECTOR`) cannot be had on this machine, or None when it can.

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


def _gateway(log: Path) -> tuple[int, str] | None:
    """The port and the token that Py4J's gateway has printed."""
    match = re.match(r"(\d+)\n(\S+)\n", log.read_text())
    return (int(match.group(1)), match.group(2)) if match else None
