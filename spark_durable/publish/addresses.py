"""Where an event goes: a URL with places for the event's own fields."""

from __future__ import annotations

import re
from urllib.parse import quote

from spark_durable.protocol.errors import OptionError
from spark_durable.publish.contract import Event

FIELDS = ("destination", "partition_key", "ordering_key", "event_type")
_PLACE = re.compile(r"\{([^{}]*)\}")


def check_template(template: str) -> None:
    for name in _PLACE.findall(template):
        if name not in FIELDS:
            raise OptionError(
                f"the target has a place {{{name}}}; known are "
                + ", ".join(f"{{{field}}}" for field in FIELDS)
            )


def missing_field(template: str, event: Event) -> str | None:
    """Why the event has no address, or None."""
    for name in _PLACE.findall(template):
        if not getattr(event, name):
            return f"{name} is empty, but the target's address needs it"
    return None


def resolve(template: str, event: Event) -> str:
    """The template with the event's fields, each URL-encoded as one path segment.

    Raises ValueError for an event that lacks one of them.
    """
    if problem := missing_field(template, event):
        raise ValueError(problem)
    return _PLACE.sub(lambda place: quote(str(getattr(event, place[1])), safe=""), template)


def uses(template: str, field: str) -> bool:
    return f"{{{field}}}" in template
