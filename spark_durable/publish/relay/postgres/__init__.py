"""An outbox in PostgreSQL: state in the outbox table itself, the plan beside it.

Relays claim shards of ordering keys, not rows: two relays never work on one key at a time. A claim
carries a token; results are written only while it is still the shard's.
"""
