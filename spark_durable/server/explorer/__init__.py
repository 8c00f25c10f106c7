"""The page at the server's root: streams, their messages as they arrive, producers, snapshots."""
