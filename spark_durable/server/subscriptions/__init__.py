"""Subscriptions: durable cursors that wake workers by webhook or through a wake stream."""
