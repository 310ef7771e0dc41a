"""The client: a method for each operation of the native API."""

from __future__ import annotations

import http.client
import json
import os
import socket
import time
import urllib.parse
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from . import answers
from .answers import About, Change, CommandResult, Event, Snapshot
from .document import Config
from .errors import CommandFailed, Conflict, Disconnected, Fault, Refused, Unreachable

_JSON = "application/json"
_YAML = "application/yaml"
_PATCH = "application/merge-patch+json"
# The text of a request, and its media type.
_Body = tuple[str, str]
_Headers = Mapping[str, str]
_NONE: _Headers = {}
# Seconds between two attempts to read a configuration that changes meanwhile.
_AGAIN = 0.2


class Client:
    """A router's native API.

    Each call has a connection of its own, so that a client survives restarts of the router, and threads may share it.
    """

    def __init__(self, socket: str | os.PathLike[str] = "/run/volley/http.sock", *, timeout: float = 120) -> None:
        """Names the router by the path of its socket. Each call waits at most `timeout` seconds for the router."""
        self.socket = os.fspath(socket)
        self.timeout = timeout

    def about(self) -> About:
        """Returns the router's version, and the generation of its configuration."""
        answer = self._json("GET", "/v1")
        return About(version=answer["version"], generation=answer["generation"])

    def config(self) -> Snapshot:
        """Returns the configuration and its generation. While routes are being loaded, waits for their end."""
        text, generation = self._whole_config(_JSON)
        config: Config = json.loads(text)
        return Snapshot(config, generation)

    def config_yaml(self) -> str:
        """Returns the configuration as YAML, as in the files of `config apply`."""
        return self._whole_config(_YAML)[0].decode()

    def replace(
        self,
        config: Config | str,
        *,
        generation: int | None = None,
        dry_run: bool = False,
        confirm_within: int | None = None,
    ) -> Change:
        """Replaces the configuration, all or nothing. A string is a whole document as YAML or JSON text.

        `generation`: changes the configuration only if it still has this generation; otherwise raises Conflict.
        `dry_run`: only returns what would change.
        `confirm_within`: rolls the change back after this number of seconds, unless `confirm` is called.
        """
        body = (config, _YAML) if isinstance(config, str) else (_dump(config), _JSON)
        return self._change("PUT", "/v1/config", body, generation, dry_run, confirm_within)

    def patch(
        self,
        patch: Config | Mapping[str, Any],
        *,
        generation: int | None = None,
        dry_run: bool = False,
        confirm_within: int | None = None,
    ) -> Change:
        """Changes the parts of the configuration that `patch` names, all or nothing (RFC 7396).

        None removes a member. Lists are replaced as a whole. The options are those of `replace`.
        """
        return self._change("PATCH", "/v1/config", (_dump(patch), _PATCH), generation, dry_run, confirm_within)

    def confirm(self, change: Change | None = None) -> Change:
        """Keeps the change that was made with `confirm_within`.

        `change`: confirms only this change: if another one is to be confirmed, raises Refused. By default, any.
        """
        headers = {} if change is None else _if_match(change.generation)
        return answers.change(self._json("POST", "/v1/config/confirm", None, headers))

    def rollback(self, changes: int = 1, *, generation: int | None = None, dry_run: bool = False) -> Change:
        """Rolls back the last changes. Rolling back again goes further back. `generation` and `dry_run` are as for `replace`."""
        body = (_dump({"changes": changes}), _JSON)
        return self._change("POST", "/v1/config/rollback", body, generation, dry_run, None)

    def show(self, command: str) -> Any:
        """Returns the output of a `show` command as JSON: `show("interface host-eth1")`."""
        words = command.split()
        if words[:1] == ["show"]:
            words = words[1:]
        return self._json("GET", "/v1/show/" + "/".join(urllib.parse.quote(word, safe="") for word in words))

    def run(self, *commands: str) -> list[CommandResult]:
        """Runs commands in order, each a change of its own. Raises CommandFailed at the first that fails."""
        answer = self._json("POST", "/v1/commands", (_dump({"commands": commands}), _JSON))
        results = [CommandResult(one["command"], one.get("output")) for one in answer["results"]]
        if not answer["complete"]:
            failed = answer["results"][-1]
            raise CommandFailed(failed["command"], failed["error"], results[:-1])
        return results

    def watch(self, seconds: float | None = None) -> Generator[Event, None, None]:
        """Yields the generation and all interfaces, then Complete, and then each change of them.

        Ends after a number of seconds, if it is given. Raises Disconnected when the router stops.
        """
        end = None if seconds is None else time.monotonic() + seconds
        with self._exchange("GET", "/v1/watch") as (connection, answer):
            while True:
                # The router sends an empty line after 15 s without events.
                left = self.timeout if end is None else end - time.monotonic()
                if left <= 0:
                    return
                connection.sock.settimeout(min(left, self.timeout))
                try:
                    line = answer.readline()
                except TimeoutError:
                    if end is not None and time.monotonic() >= end:
                        return
                    raise
                if not line.endswith(b"\n"):
                    raise Disconnected(f"{self.socket}: the router ended the watch: watch again")
                event = answers.event(json.loads(line)) if line.strip() else None
                if event is not None:
                    yield event

    def _whole_config(self, kind: str) -> tuple[bytes, int]:
        """Returns the configuration as text of this media type, and its generation."""
        end = time.monotonic() + self.timeout
        while True:
            try:
                with self._exchange("GET", "/v1/config", headers={"Accept": kind}) as (_, answer):
                    text, tag = answer.read(), answer.headers["ETag"]
                # Without a tag, routes are being loaded.
                if tag is not None:
                    return text, int(tag.strip('"'))
                why = "routes are being loaded: try again later"
            except Disconnected as e:
                # The router breaks its answer off if the configuration changes meanwhile.
                if not isinstance(e.__cause__, http.client.IncompleteRead):
                    raise
                why = "the configuration changes again and again: try again later"
            if time.monotonic() >= end:
                raise Disconnected(f"{self.socket}: {why}")
            time.sleep(_AGAIN)

    def _change(
        self,
        method: str,
        path: str,
        body: _Body,
        generation: int | None,
        dry_run: bool,
        confirm_within: int | None,
    ) -> Change:
        options: dict[str, str | int] = {}
        if dry_run:
            options["dry-run"] = "true"
        if confirm_within is not None:
            options["confirm"] = confirm_within
        if options:
            path += "?" + urllib.parse.urlencode(options)
        headers = {} if generation is None else _if_match(generation)
        try:
            return answers.change(self._json(method, path, body, headers))
        except Refused as e:
            if e.status == 412 and generation is not None:
                raise Conflict(e.detail, generation, self.about().generation) from None
            raise

    def _json(self, method: str, path: str, body: _Body | None = None, headers: _Headers = _NONE) -> Any:
        """Returns the answer to a request, which is JSON."""
        with self._exchange(method, path, body, headers) as (_, answer):
            return json.loads(answer.read())

    @contextmanager
    def _exchange(
        self, method: str, path: str, body: _Body | None = None, headers: _Headers = _NONE
    ) -> Iterator[tuple[_Connection, http.client.HTTPResponse]]:
        """Sends a request, and yields the connection and the answer. Raises Refused if the router refuses it."""
        connection = _Connection(self.socket, self.timeout)
        try:
            connection.connect()
            try:
                if body is None:
                    connection.request(method, path, None, headers)
                else:
                    text, kind = body
                    connection.request(method, path, text.encode(), {**headers, "Content-Type": kind})
            except (BrokenPipeError, ConnectionResetError):
                # The router may have refused the request before its end.
                pass
            answer = connection.getresponse()
            if answer.status >= 400:
                raise _refusal(answer.status, answer.read())
            yield connection, answer
        except TimeoutError as e:
            raise Disconnected(
                f"{self.socket}: no answer within {self.timeout:g} s, so the router rolls a change back: "
                "try again, or with a longer timeout"
            ) from e
        except http.client.BadStatusLine as e:
            if isinstance(e, http.client.RemoteDisconnected):
                raise self._left() from e
            raise Unreachable(
                f"{self.socket}: the answer is not HTTP: name the socket of `native-api` in startup.conf"
            ) from e
        except (http.client.HTTPException, OSError) as e:
            raise self._left() from e
        finally:
            connection.close()

    def _left(self) -> Disconnected:
        return Disconnected(
            f"{self.socket}: the router closed the connection before the end of its answer: "
            "look at `show config history` before you repeat a change"
        )


class _Connection(http.client.HTTPConnection):
    """A connection to a UNIX socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("volley", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        try:
            self.sock.connect(self.path)
        except OSError as e:
            raise Unreachable(f"{self.path}: {e.strerror or e}: {_advice(e)}") from e


def _advice(e: OSError) -> str:
    match e:
        case FileNotFoundError() | ConnectionRefusedError():
            return "is the router running, with `native-api { socket-name http.sock }` in its startup.conf?"
        case PermissionError():
            return "this user must be in the group `gid` of `unix` in startup.conf, or of its parent directory"
        case TimeoutError() | BlockingIOError():
            return "the router accepts no connections: too many clients wait"
    return "expected the path of a UNIX socket"


def _if_match(generation: int) -> _Headers:
    return {"If-Match": f'"{generation}"'}


def _dump(value: object) -> str:
    """Returns a value as JSON."""
    return json.dumps(value, allow_nan=False)


def _refusal(status: int, body: bytes) -> Refused:
    """Returns the error that an answer reports (RFC 9457)."""
    try:
        problem = json.loads(body)
        faults = problem.get("faults", [])
        found = (Fault(f["detail"], f.get("pointer"), f.get("line"), f.get("column")) for f in faults)
        return Refused(status, problem["detail"], tuple(found))
    except (ValueError, LookupError, AttributeError, TypeError):
        return Refused(status, f"HTTP status {status}: {body[:200]!r}")
