"""The ``topics`` dialect of the embedded server: append logs with idempotency keys, ``/v0/topics``.

A topic is a stream of the store that the other surfaces cannot name. Each flush of writes is one
append, so records, seqs and idempotency keys become durable together, before the answer.
"""
