"""Found by Spark on its own: it imports every top-level module named ``pyspark_*``.

Installed beside ``spark_durable``, so ``format("durablestream")`` works without ``register``. An
import error here would hide every other such source, hence nothing but this one import.
"""

from spark_durable.datasource import DurableStreamDataSource as DefaultSource

__all__ = ["DefaultSource"]
