"""A query to be killed: tails a stream into a Delta table, and counts it in foreachBatch beside it.

Arguments: a JSON object with url, schema, table, counts, checkpoints, options and trigger.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

import spark_durable
from spark_durable.local import local_spark


def main(job: dict[str, Any]) -> None:
    spark = local_spark("kill", delta=True, conf={"spark.driver.memory": "1g"})
    spark_durable.register(spark)

    def stream() -> DataFrame:
        reader = spark.readStream.format("durablestream").schema(job["schema"])
        return reader.options(**job["options"]).load(job["url"])

    def count(frame: DataFrame, batch: int) -> None:
        found = Counter((row._stream, row.n) for row in frame.select("_stream", "n").collect())
        text = json.dumps([[stream, n, times] for (stream, n), times in sorted(found.items())])
        target = Path(job["counts"]) / f"{batch}.json"
        # A batch that is run again replaces what it counted, as a transactional sink would.
        (scratch := target.with_suffix(".part")).write_text(text)
        scratch.replace(target)

    trigger = job["trigger"] or {"processingTime": "0 seconds"}
    table = stream().writeStream.format("delta").trigger(**trigger)
    table = table.option("checkpointLocation", f"{job['checkpoints']}/table")
    counted = stream().writeStream.foreachBatch(count).trigger(**trigger)
    counted = counted.option("checkpointLocation", f"{job['checkpoints']}/counts")
    queries = [table.start(job["table"]), counted.start()]
    print("started", flush=True)
    for query in queries:
        query.awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
