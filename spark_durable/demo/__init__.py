"""The demo: orders written, streamed, compacted and read back, with a worker killed on the way."""
