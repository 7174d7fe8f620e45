"""What Flink's own Python runs for `place bench triggers --rival flink`: one query over a CSV file.

It stands alone, as the environment of Flink has nothing of PLACE. It is given a file with what to
do as JSON, and prints as JSON how many seconds the job took. What is found goes to files: rows that
are handed to Python one by one would take longer than the query.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

SOURCE = """
CREATE TABLE readings (
  n BIGINT, id BIGINT, x DOUBLE, y DOUBLE, sst DOUBLE, pressure DOUBLE, humidity DOUBLE,
  wind DOUBLE, salinity DOUBLE, t BIGINT, sea INT,
  ts AS TO_TIMESTAMP_LTZ(t / 1000, 3),
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')
"""
SINK = """
CREATE TABLE told (an BIGINT, bn BIGINT)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')
"""


def main(file: str) -> None:
    """Run the query of a file once."""
    from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

    given: dict[str, Any] = json.loads(Path(file).read_text("utf-8"))
    table: Any = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    table.get_config().set("parallelism.default", "1")
    table.execute_sql(SOURCE.format(path=given["path"]))
    table.execute_sql(SINK.format(path=given["out"]))
    start = time.perf_counter()
    table.execute_sql(f"INSERT INTO told {given['query']}").wait()
    print(json.dumps({"seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    main(sys.argv[1])
