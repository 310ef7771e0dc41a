"""What can go wrong. Each message says what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .answers import CommandResult


class VolleyError(Exception):
    """Any error of this package."""


class Unreachable(VolleyError):
    """The router does not listen at the socket, or this user may not connect to it. Nothing was sent."""


class Disconnected(VolleyError):
    """The connection ended before the end of the answer, or the answer did not arrive in time.

    The router rolls back a change whose client has left, unless it was complete: look at `show("config history")`.
    """


@dataclass(frozen=True)
class Fault:
    """A fault of a document that was sent."""

    detail: str
    """What is wrong."""
    pointer: str | None = None
    """Its place in the document, as a JSON Pointer (RFC 6901)."""
    line: int | None = None
    """Its line in the text that was sent, from 1."""
    column: int | None = None
    """Its column in this line, from 1."""

    def __str__(self) -> str:
        return f"{self.pointer}: {self.detail}" if self.pointer else self.detail


class Refused(VolleyError):
    """The router refuses the request. Nothing was changed."""

    def __init__(self, status: int, detail: str, faults: tuple[Fault, ...] = ()) -> None:
        super().__init__("\n".join([detail, *map(str, faults)]))
        self.status = status
        """The status of the HTTP answer."""
        self.detail = detail
        """Why the request is refused."""
        self.faults = faults
        """All faults of the document, if it has any."""


class Conflict(Refused):
    """The configuration has changed since it was read. Read it again, and repeat the change."""

    def __init__(self, detail: str, expected: int, generation: int) -> None:
        super().__init__(412, f"{detail}: read the configuration again")
        self.expected = expected
        """The generation that the change was made for."""
        self.generation = generation
        """The generation that the configuration has now."""


class CommandFailed(VolleyError):
    """A command failed. The commands before it were run, and those after it were not."""

    def __init__(self, command: str, reason: str, results: list[CommandResult]) -> None:
        super().__init__(f"{command}: {reason}")
        self.command = command
        """The command that failed."""
        self.reason = reason
        """Why it failed."""
        self.results = results
        """The results of the commands before it."""
