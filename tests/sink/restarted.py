"""A driver to be killed: ``python -m tests.sink.restarted SOURCE CHECKPOINT URL [URL …]``.

Runs one streaming query per URL over the same files, one file a batch, until all are written.
"""

from __future__ import annotations

import sys

from tests.sink.queries import SCHEMA


def main() -> None:
    import spark_durable
    from spark_durable.local import local_spark

    source, checkpoint, *urls = sys.argv[1:]
    spark = local_spark("restarted", conf={"spark.driver.memory": "1g"})
    spark_durable.register(spark)
    queries = []
    for number, url in enumerate(urls):
        df = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(source)
        queries.append(
            df.writeStream.format("durablestream")
            .option("maxAppendBytes", "10k")
            .option("checkpointLocation", f"{checkpoint}/{number}")
            .trigger(availableNow=True)
            .start(url)
        )
    for query in queries:
        query.awaitTermination()


if __name__ == "__main__":
    main()
