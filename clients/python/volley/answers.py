"""What the router answers, and the events that it reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .document import Config


@dataclass(frozen=True)
class About:
    """The running router."""

    version: str
    """Its version."""
    generation: int
    """The generation of its configuration: each change makes another one."""


class Snapshot(NamedTuple):
    """The configuration at one moment."""

    config: Config
    """The configuration."""
    generation: int
    """Its generation."""


@dataclass(frozen=True)
class Change:
    """What a request has changed, or what it would change (`dry_run`)."""

    generation: int
    """The generation of the configuration after the request."""
    changed: bool
    """False if the configuration already was as wanted, and after a dry run."""
    difference: list[str] = field(default_factory=list)
    """The commands that the change removes (`- `) and adds (`+ `)."""
    is_cut: bool = False
    """True if the difference is longer than what is listed."""
    warnings: list[str] = field(default_factory=list)
    """What is valid but perhaps not intended."""
    notes: list[str] = field(default_factory=list)
    """Other remarks."""
    rolls_back_in: int | None = None
    """Seconds until the change is rolled back unless `confirm` is called."""


@dataclass(frozen=True)
class CommandResult:
    """A command that was run."""

    command: str
    """The command."""
    output: Any = None
    """What it printed: JSON of a `show` command, otherwise a text; None if nothing."""


@dataclass(frozen=True)
class Generation:
    """The configuration has this generation now."""

    generation: int


@dataclass(frozen=True)
class InterfaceState:
    """An interface is new, or its state has changed to this."""

    name: str
    index: int
    admin_up: bool
    link_up: bool
    mtu: int


@dataclass(frozen=True)
class Removed:
    """The interface with this name was removed."""

    name: str


@dataclass(frozen=True)
class Complete:
    """The events before this one are the state at the beginning; those after it are changes."""


Event = Generation | InterfaceState | Removed | Complete
"""An event of `Client.watch`."""


def change(answer: dict[str, Any]) -> Change:
    """Returns the router's answer to a change."""
    return Change(
        generation=answer["generation"],
        changed=answer["changed"],
        difference=answer["difference"],
        is_cut=answer.get("is_cut", False),
        warnings=answer.get("warnings", []),
        notes=answer.get("notes", []),
        rolls_back_in=answer.get("rolls_back_in"),
    )


def event(line: dict[str, Any]) -> Event | None:
    """Returns an event; None for one of a later version of the router."""
    match line:
        case {"generation": number}:
            return Generation(number)
        case {"interface": {"name": name, "index": index, "admin_up": admin_up, "link_up": link_up, "mtu": mtu}}:
            return InterfaceState(name, index, admin_up, link_up, mtu)
        case {"removed": name}:
            return Removed(name)
        case {"complete": _}:
            return Complete()
    return None
