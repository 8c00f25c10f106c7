"""Outbox events to a stream or a topic: each once, in order per key.

    spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0 jobs/outbox_relay.py run \\
        --delta /data/outbox --target http://127.0.0.1:4437/ds/shop/orders

    OUTBOX_DSN=postgresql://… python jobs/outbox_relay.py run --postgres outbox --continuous \\
        --target "http://127.0.0.1:4437/v0/topics/{destination}"

The plan is committed before anything is sent, so a killed relay repeats the same requests and the
target stores each event once. SIGTERM ends it after the run in hand. ``init``, ``status``,
``replay`` and ``prune`` look after the tables.
"""

from spark_durable.publish.relay.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
