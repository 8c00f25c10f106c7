"""``python -m spark_durable`` is the command ``spark-durable``."""

from spark_durable.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
