"""`place bench store`: both processes answer the same, and one of them holds few objects."""

import json
from pathlib import Path

from place.cli import main


def test_the_disk_store_answers_as_memory_does(tmp_path: Path) -> None:
    file = tmp_path / "store.json"
    sizes = ["--objects", "5000", "--queries", "4", "--moving", "2", "--tick", "1000"]
    assert main(["bench", "store", *sizes, "--json", str(file)]) == 0
    figures = json.loads(file.read_text())
    assert figures["equal"]
    assert figures["all"]["in_memory"] == 5000
    assert figures["all"]["on_disk"] == 0
    assert figures["disk"]["in_memory"] < 1000
    assert figures["disk"]["in_memory"] + figures["disk"]["on_disk"] == 5000
    assert figures["disk"]["before"] < figures["disk"]["resident"] <= figures["disk"]["peak"]
    assert figures["disk"]["libraries"] < figures["disk"]["resident"]
