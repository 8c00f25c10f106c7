"""What a task knows of the session it runs for."""

from __future__ import annotations

import os

from pyspark import TaskContext

_SETTING = "spark.sql.session.timeZone"
_ZONES = "zoneinfo/"


def time_zone() -> str:
    """The session's time zone. Spark hands a setting over to its tasks only where it was made; its
    default is the zone of the machine, which is taken to be that of the executors too."""
    context = TaskContext.get()
    setting = None if context is None else context.getLocalProperty(_SETTING)
    return setting or os.environ.get("TZ") or _linked_zone() or "UTC"


def _linked_zone() -> str | None:
    path = os.path.realpath("/etc/localtime")
    return path.partition(_ZONES)[2] or None
