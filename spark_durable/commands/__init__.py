"""The commands behind ``spark-durable``; each has one module."""
