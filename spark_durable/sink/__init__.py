"""The sink: a partition becomes numbered appends that a retry or a replay repeats exactly."""
