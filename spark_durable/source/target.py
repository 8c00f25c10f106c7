"""The stream a request goes to."""

from __future__ import annotations

from dataclasses import dataclass

from spark_durable.protocol import ReadResponse
from spark_durable.source import loss


@dataclass(frozen=True, slots=True)
class Target:
    """One stream in one of its lives. Where offsets are decimals, they have ``width`` digits."""

    name: str
    url: str
    life: str | None = None
    width: int = 0

    def offset(self, position: int) -> str:
        return f"{position:0{self.width}d}"

    def check_life(self, response: ReadResponse) -> None:
        """A response of another life holds none of the messages that were planned."""
        found = response.incarnation
        if self.life is not None and found is not None and found != self.life:
            raise loss.created_again(self.name, f"incarnation {found}, not {self.life}")
