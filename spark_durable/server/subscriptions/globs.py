"""Glob patterns over stream paths, matched without backtracking.

``*`` is one whole segment, ``**`` any number of them, none included. Inside a segment ``*`` stands
for any characters.
"""

from __future__ import annotations


def matches(pattern: str, path: str) -> bool:
    # The states a pattern can be in after each segment: linear in segments times pattern length.
    parts = _parts(pattern)
    states = _skip(parts, {0})
    for segment in path.split("/"):
        after: set[int] = set()
        for state in states:
            if state == len(parts):
                continue
            if parts[state] == "**":
                after.add(state)
            elif _segment_matches(parts[state], segment):
                after.add(state + 1)
        states = _skip(parts, after)
        if not states:
            return False
    return len(parts) in states


def _parts(pattern: str) -> list[str]:
    """The segments, with ``**/**`` as the one ``**`` it means."""
    parts: list[str] = []
    for part in pattern.split("/"):
        if part != "**" or parts[-1:] != ["**"]:
            parts.append(part)
    return parts


def _skip(parts: list[str], states: set[int]) -> set[int]:
    """States reached by letting ``**`` stand for nothing."""
    return states | {state + 1 for state in states if parts[state : state + 1] == ["**"]}


def _segment_matches(pattern: str, segment: str) -> bool:
    if pattern == "*":
        return bool(segment)
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == segment
    *middle, last = rest
    if not segment.startswith(first):
        return False
    position = len(first)
    for piece in middle:
        found = segment.find(piece, position)
        if found < 0:
            return False
        position = found + len(piece)
    return len(segment) - position >= len(last) and segment.endswith(last)
