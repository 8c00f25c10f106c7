"""The outbox relay: from an outbox table to a publisher, each event once and in order per key.

``plan``, ``settle`` and ``lanes`` decide; ``delta`` and ``postgres`` keep the state;
``spark_publish`` spreads a run over executors; ``engine`` puts a run together.
"""
