"""How a topics request is refused: a status, a stable code, a text, perhaps details."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class TopicError(Exception):
    """Root of the refusals; nothing was appended or changed."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        detail: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.detail = dict(detail or {})
        self.headers = dict(headers or {})

    def document(self) -> dict[str, Any]:
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.detail:
            error["detail"] = self.detail
        return {"error": error}


def invalid(message: str, **detail: Any) -> TopicError:
    return TopicError(400, "invalid_request", message, detail)


def not_found(topic: str) -> TopicError:
    return TopicError(404, "topic_not_found", f"topic {topic!r} does not exist", {"topic": topic})
