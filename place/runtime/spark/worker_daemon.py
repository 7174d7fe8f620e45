"""The process that Spark forks its Python processes from, with the engine imported once for all.

Spark's own daemon imports next to nothing, so that each process that it forks would take one to two
seconds of a processor to import the engine: at each start, for each cell, and whenever a cell is
started again. Spark imports nothing before it forks because some libraries start threads, which a
forked process does not have. Here that is the thread of Arrow's allocator alone, which knows how to
be forked; NumPy's linear algebra, which nobody here uses, is told to start none.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

MODULE = "place.runtime.spark.worker_daemon"


def serve() -> None:
    """Import the engine, then do what Spark's daemon does, until Spark ends."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.path[:] = [entry for entry in sys.path if not _is_packed_twice(entry)]
    import pyspark.daemon
    import pyspark.worker

    import place.runtime.spark.serve_cell  # noqa: F401

    gc.freeze()  # so that no collection in a forked process copies the pages that all share
    pyspark.daemon.manager()


def _is_packed_twice(entry: str) -> bool:
    """Whether an entry of the path is the archive of PySpark inside an installed PySpark.

    Spark puts the archive before the package that it is a copy of. Modules in an archive are
    compiled at each start, which takes a second.
    """
    archive = Path(entry)
    if archive.name != "pyspark.zip" or len(archive.parents) < 4:
        return False
    installed = archive.parents[3]
    return str(installed) in sys.path and (installed / "pyspark" / "daemon.py").is_file()


if __name__ == "__main__":
    serve()
