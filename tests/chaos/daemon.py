"""Spark's Python daemon, for executors of a run: ``spark.python.daemon.module`` names it."""

from __future__ import annotations

from tests.chaos.planted import plant_from_environment

if __name__ == "__main__":
    plant_from_environment()
    from pyspark.daemon import manager

    manager()
