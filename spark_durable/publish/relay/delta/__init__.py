"""An outbox in Delta: producers append to one table, the relay to another.

The relay's working set is a third, small table: the events that are still open, with their place in
the plan. Each of its commits also carries how far the events table has been read and the number of
the run, so one commit moves everything together.
"""
