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

MODULE = "place.runtime.spark.worker_daemon"


def serve() -> None:
    """Import the engine, then do what Spark's daemon does, until Spark ends."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import pyspark.daemon
    import pyspark.worker

    import place.runtime.spark.serve_cell  # noqa: F401

    gc.freeze()  # so that no collection in a forked process copies the pages that all share
    pyspark.daemon.manager()


if __name__ == "__main__":
    serve()
