"""Rows to messages and back: Arrow to JSON, JSON to Arrow."""
