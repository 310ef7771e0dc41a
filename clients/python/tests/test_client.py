"""Tests with a real router: VOLLEY_BIN=PROGRAM python3 -m unittest discover -s clients/python/tests

They make loopback interfaces and routes only. The router's devices are in the namespace in which they run.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import unittest
from collections.abc import Iterator
from contextlib import closing
from typing import Any

PACKAGE = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(PACKAGE))

import volley  # noqa: E402

PROGRAM = os.environ["VOLLEY_BIN"]
READY = 20.0


class Router:
    """A router with a folder of its own."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.socket = f"{self.folder.name}/http.sock"
        self.readers = f"{self.folder.name}/http-ro.sock"
        self.start()

    def start(self) -> None:
        folder = self.folder.name
        sections = [
            f"unix {{ nodaemon runtime-dir {folder} cli-listen cli.sock log {folder}/log }}",
            f"native-api {{ socket-name {self.socket} socket-name-read-only {self.readers} }}",
            "socksvr { socket-name api.sock }",
        ]
        startup = pathlib.Path(folder, "startup.conf")
        startup.write_text("\n".join(sections))
        log = pathlib.Path(folder, "stderr")
        with log.open("w") as stderr:
            # The router ends with the tests.
            command = ["setpriv", "--pdeathsig", "KILL", PROGRAM, "run", "-c", str(startup)]
            self.process = subprocess.Popen(command, stderr=stderr)
        end = time.monotonic() + READY
        while "volley: ready" not in log.read_text():
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"the router does not start: {log.read_text()}")
            time.sleep(0.01)

    def end(self, with_signal: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(with_signal)
        self.process.wait(READY)

    def ctl(self, command: str) -> None:
        socket = f"{self.folder.name}/cli.sock"
        subprocess.run([PROGRAM, "ctl", "-s", socket, command], check=True, stdout=subprocess.DEVNULL, timeout=READY)


class WithRouter(unittest.TestCase):
    """Tests that share a router. Each begins without any configuration."""

    shared: Router

    @classmethod
    def setUpClass(cls) -> None:
        cls.shared = Router()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.shared.end()
        cls.shared.folder.cleanup()

    def setUp(self) -> None:
        self.router = volley.Client(self.shared.socket)
        self.router.replace({})


class Configuration(WithRouter):
    """The document is read, replaced, patched, confirmed and rolled back."""

    def test_about(self) -> None:
        about = self.router.about()
        project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
        self.assertEqual(about.version, project["version"], "the package has the version of the router")
        self.assertEqual(about.generation, self.router.config().generation)

    def test_replace(self) -> None:
        config, generation = self.router.config()
        config["routes"] = [{"prefix": "198.51.100.0/24", "via": "drop"}]
        change = self.router.replace(config, generation=generation)
        self.assertTrue(change.changed and change.generation > generation, change)
        self.assertEqual(change.difference, ["+ ip route add 198.51.100.0/24 via drop"])
        self.assertEqual(self.router.config(), (config, change.generation))
        again = self.router.replace(config)
        self.assertFalse(again.changed or again.difference, again)

    def test_dry_run(self) -> None:
        before = self.router.config()
        change = self.router.replace({"loopbacks": {"loop0": {}}}, dry_run=True)
        self.assertIn("+ create loopback interface instance 0", change.difference)
        self.assertFalse(change.changed)
        self.assertTrue(self.router.patch({"tables": [7]}, dry_run=True).difference)
        self.assertEqual(self.router.config(), before)

    def test_patch(self) -> None:
        self.router.patch({"loopbacks": {"loop0": {"mtu": 1400, "description": "uplink"}}})
        self.router.patch({"loopbacks": {"loop0": {"description": None}}})
        loop = self.router.config().config["loopbacks"]["loop0"]
        self.assertEqual(loop.get("mtu"), 1400)
        self.assertNotIn("description", loop)

    def test_texts_of_files(self) -> None:
        text = "loopbacks:\n  # The router's own address.\n  loop0: { addresses: [ 192.0.2.1/32 ] }\n"
        self.assertTrue(self.router.replace(text).changed)
        written = self.router.config_yaml()
        self.assertIn("192.0.2.1/32", written)
        self.assertFalse(self.router.replace(written).changed)

    def test_confirm(self) -> None:
        change = self.router.patch({"tables": [7]}, confirm_within=60)
        self.assertEqual(change.rolls_back_in, 60)
        with self.assertRaisesRegex(volley.Refused, "awaits confirmation was applied as generation"):
            self.router.confirm(dataclasses.replace(change, generation=change.generation - 1))
        self.assertEqual(self.router.confirm(change).generation, change.generation)
        with self.assertRaisesRegex(volley.Refused, "awaits confirmation") as refused:
            self.router.confirm()
        self.assertEqual(refused.exception.status, 409)

    def test_a_change_that_is_not_confirmed_is_rolled_back(self) -> None:
        before = self.router.config().config
        self.router.patch({"tables": [7]}, confirm_within=1)
        generations = (event for event in self.router.watch(READY) if isinstance(event, volley.Generation))
        next(generations)
        next(generations)
        self.assertEqual(self.router.config().config, before)

    def test_rollback(self) -> None:
        before = self.router.config().config
        self.router.patch({"tables": [7]})
        self.router.patch({"tables": [7, 8]})
        self.assertEqual(self.router.rollback(dry_run=True).difference, ["- ip table add 8"])
        generation = self.router.config().generation
        with self.assertRaises(volley.Conflict):
            self.router.rollback(generation=generation - 1)
        self.router.rollback(generation=generation)
        self.assertEqual(self.router.config().config["tables"], [7])
        self.router.rollback()
        self.assertEqual(self.router.config().config, before)
        self.router.patch({"tables": [7]})
        self.router.patch({"tables": [7, 8]})
        self.router.rollback(2)
        self.assertEqual(self.router.config().config, before)
        with self.assertRaises(volley.Refused):
            self.router.rollback(1_000_000)

    def test_conflict(self) -> None:
        config, generation = self.router.config()
        self.shared.ctl("ip table add 9")
        for change in (self.router.replace, self.router.patch):
            with self.assertRaisesRegex(volley.Conflict, "read the configuration again") as conflict:
                change(config, generation=generation)
            now = self.router.about().generation
            self.assertEqual((conflict.exception.expected, conflict.exception.generation), (generation, now))
            self.assertEqual(conflict.exception.status, 412)
        self.assertEqual(self.router.config().config, {"tables": [9]})

    def test_faults(self) -> None:
        before = self.router.config()
        with self.assertRaisesRegex(volley.Refused, "/loopbacks/loop0/mtu: ") as refused:
            wrong: Any = {"loopbacks": {"loop0": {"mtu": "big", "mut": 1}}}
            self.router.replace(wrong)
        error = refused.exception
        self.assertEqual((error.status, error.detail), (422, "the document has faults; nothing was changed"))
        self.assertEqual({fault.pointer for fault in error.faults}, {"/loopbacks/loop0/mtu", "/loopbacks/loop0/mut"})
        with self.assertRaises(volley.Refused) as refused:
            self.router.replace("loopbacks:\n  loop0: { mtu: 7 }\n")
        fault = refused.exception.faults[0]
        self.assertEqual((fault.line, fault.column, fault.pointer), (2, 17, "/loopbacks/loop0/mtu"))
        # A fault that only the whole configuration shows.
        with self.assertRaises(volley.Refused) as refused:
            self.router.patch({"routes": [{"prefix": "192.0.2.0/24", "via": "10.0.0.1", "interface": "loop9"}]})
        self.assertTrue(str(refused.exception.faults[0].pointer).startswith("/routes/0"))
        for text in ["{ not: [ yaml", "", "- 1\n"]:
            with self.assertRaises(volley.Refused):
                self.router.replace(text)
        self.assertEqual(self.router.config(), before)

    def test_wrong_options(self) -> None:
        with self.assertRaisesRegex(volley.Refused, "confirm must be 1 to 86400 seconds"):
            self.router.patch({}, confirm_within=0)
        with self.assertRaisesRegex(volley.Refused, "cannot be combined"):
            self.router.patch({}, confirm_within=1, dry_run=True)
        with self.assertRaises(ValueError):
            self.router.patch({"loopbacks": {"loop0": {"mtu": float("nan")}}})

    def test_characters(self) -> None:
        for text in ["Zürich – \u65e5\u672c", "up \U0001f600", 'quotes " and \\', "true", "123", "~", "# x: y"]:
            config: volley.Config = {"loopbacks": {"loop0": {"description": text}}}
            self.router.replace(config)
            self.assertEqual(self.router.config().config["loopbacks"]["loop0"].get("description"), text)
            self.assertFalse(self.router.replace(self.router.config_yaml()).changed, text)

    def test_many_routes(self) -> None:
        prefixes = [f"20.{n >> 8 & 255}.{n & 255}.{n >> 16 << 7}/25" for n in range(100_000)]
        config: volley.Config = {"routes": [{"prefix": prefix, "via": "drop"} for prefix in prefixes]}
        self.assertTrue(self.router.replace(config).is_cut)
        read, generation = self.router.config()
        self.assertEqual(len(read["routes"]), 100_000)
        removed = read["routes"].pop()
        change = self.router.replace(read, generation=generation)
        self.assertEqual(change.difference, [f"- ip route add {removed.get('prefix')} via drop"])
        # A document that is too long for a patch.
        with self.assertRaises(volley.Refused) as refused:
            self.router.patch({"routes": read["routes"] * 2})
        self.assertEqual(refused.exception.status, 413)
        self.router.replace({})

    def test_a_load_of_routes_is_waited_for(self) -> None:
        load = threading.Thread(target=self.router.run, args=["ip route add count 200000 30.0.0.0/24 drop"])
        load.start()
        seen = set()
        while load.is_alive():
            seen.add(len(self.router.config().config.get("routes", [])))
        load.join()
        self.assertLessEqual(seen, {0, 200_000})
        self.assertEqual(len(self.router.config().config["routes"]), 200_000)
        self.router.replace({})


class Commands(WithRouter):
    """Commands, and what they show."""

    def test_show(self) -> None:
        self.router.run("create loopback interface", "ip route add 10.9.0.0/16 drop")
        self.assertIn("loop0", [port["name"] for port in self.router.show("interface")])
        self.assertEqual(self.router.show("show interface loop0")[0]["name"], "loop0")
        self.assertTrue(self.router.show("ip fib 10.9.0.0/16"))
        for wrong in ["interface loop9", "no such", "", "interface #", "interface loop0?x=1", "interface |", "%2F"]:
            with self.assertRaises(volley.Refused, msg=wrong) as refused:
                self.router.show(wrong)
            self.assertEqual(refused.exception.status, 404)

    def test_run(self) -> None:
        commands = ["create loopback interface", "show interface", "set interface state loop0 up"]
        made, shown, nothing = self.router.run(*commands)
        self.assertEqual((made.command, nothing.output), ("create loopback interface", None))
        self.assertIn("loop0", [port["name"] for port in shown.output])

    def test_a_command_that_fails(self) -> None:
        with self.assertRaisesRegex(volley.CommandFailed, "^set interface state loop9 up: .*loop9") as failed:
            self.router.run("create loopback interface", "set interface state loop9 up", "create loopback interface")
        self.assertEqual([result.command for result in failed.exception.results], ["create loopback interface"])
        self.assertEqual(failed.exception.command, "set interface state loop9 up")
        self.assertEqual(list(self.router.config().config["loopbacks"]), ["loop0"])
        with self.assertRaisesRegex(volley.Refused, "1 to 1000 commands"):
            self.router.run()

    def test_read_only(self) -> None:
        reader = volley.Client(self.shared.readers)
        generation = reader.config().generation
        self.assertEqual(reader.about().generation, generation)
        for change in (reader.replace, reader.patch):
            with self.assertRaisesRegex(volley.Refused, "read-only") as refused:
                change({"tables": [7]})
            self.assertEqual(refused.exception.status, 403)
        # The router refuses a long document before its end.
        with self.assertRaisesRegex(volley.Refused, "read-only"):
            reader.replace({"routes": [{"prefix": "20.0.0.0/24", "via": "drop"}] * 200_000})
        with self.assertRaises(volley.CommandFailed):
            reader.run("show version", "ip table add 7")
        self.assertEqual(self.router.config().generation, generation)

    def test_threads_share_a_client(self) -> None:
        found: list[int] = []
        ask = lambda: found.extend(self.router.about().generation for _ in range(20))  # noqa: E731
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(found), 160)


class Watching(WithRouter):
    """Events."""

    def until(self, events: Iterator[volley.Event], last: object) -> list[volley.Event]:
        """Returns the events up to `last`."""
        seen: list[volley.Event] = []
        for event in events:
            seen.append(event)
            if event == last or isinstance(last, type) and isinstance(event, last):
                return seen
        raise AssertionError(f"no {last} in {seen}")

    def test_changes_of_others_are_seen(self) -> None:
        self.router.run("create loopback interface")
        generation = self.router.about().generation
        with closing(self.router.watch(READY)) as events:
            begin = self.until(events, volley.Complete)
            self.assertEqual(begin[0], volley.Generation(generation))
            loop = next(e for e in begin if isinstance(e, volley.InterfaceState) and e.name == "loop0")
            self.assertFalse(loop.admin_up)
            self.shared.ctl("set interface state loop0 up")
            seen = self.until(events, volley.InterfaceState)
            changed = seen[-1]
            assert isinstance(changed, volley.InterfaceState)
            self.assertEqual((changed.name, changed.admin_up, changed.index), ("loop0", True, loop.index))
            self.shared.ctl("delete loopback interface intfc loop0")
            self.until(events, volley.Removed("loop0"))

    def test_a_watch_ends_in_time(self) -> None:
        self.assertIn(volley.Complete(), list(self.router.watch(0.5)))

    def test_many_watchers_leave_nothing_behind(self) -> None:
        for _ in range(100):
            next(self.router.watch())
        self.router.about()


class Connections(unittest.TestCase):
    """The router is not there, goes, and returns."""

    def setUp(self) -> None:
        self.server = Router()
        self.addCleanup(self.server.folder.cleanup)
        self.addCleanup(self.server.end)
        self.router = volley.Client(pathlib.Path(self.server.socket), timeout=READY)

    def test_a_restart(self) -> None:
        before = self.router.about().generation
        watch = self.router.watch()
        next(watch)
        self.server.end()
        with self.assertRaisesRegex(volley.Disconnected, "watch again"):
            list(watch)
        with self.assertRaisesRegex(volley.Unreachable, "is the router running"):
            self.router.about()
        self.server.start()
        self.assertGreaterEqual(self.router.about().generation, before)
        self.assertTrue(self.router.patch({"tables": [7]}).changed)

    def test_a_kill(self) -> None:
        watch = self.router.watch()
        next(watch)
        self.server.end(signal.SIGKILL)
        with self.assertRaises(volley.Disconnected):
            list(watch)
        # The socket is still there, and nobody listens.
        with self.assertRaisesRegex(volley.Unreachable, "is the router running"):
            self.router.config()
        self.server.start()
        self.router.about()

    def test_wrong_paths(self) -> None:
        folder = self.server.folder.name
        long = f"{folder}/{'x' * 200}"
        for path in [f"{folder}/nothing", folder, f"{folder}/startup.conf", long]:
            with self.assertRaisesRegex(volley.Unreachable, "/"):
                volley.Client(path).about()
        # The CLI's socket speaks another language.
        with self.assertRaises(volley.VolleyError):
            volley.Client(f"{folder}/cli.sock", timeout=2).about()

    def test_no_answer(self) -> None:
        path = f"{self.server.folder.name}/silent.sock"
        with closing(socket.socket(socket.AF_UNIX)) as silent:
            silent.bind(path)
            silent.listen()
            with self.assertRaisesRegex(volley.Disconnected, "no answer within 0.2 s"):
                volley.Client(path, timeout=0.2).about()
            with self.assertRaisesRegex(volley.Disconnected, "no answer within 0.2 s"):
                next(volley.Client(path, timeout=0.2).watch())

    def test_answers_that_break_off(self) -> None:
        path = f"{self.server.folder.name}/cut.sock"
        cut, failed = (b"200 OK\r\nContent-Length: 9\r\n\r\n{", b"500 No\r\nContent-Length: 2\r\n\r\nhi")
        for answer in [b"", b"HTTP/1.1 " + cut, b"HTTP/1.1 " + failed]:
            with closing(socket.socket(socket.AF_UNIX)) as server:
                pathlib.Path(path).unlink(missing_ok=True)
                server.bind(path)
                server.listen()

                def serve(server: socket.socket = server, answer: bytes = answer) -> None:
                    client = server.accept()[0]
                    client.recv(65536)
                    client.sendall(answer)
                    client.close()

                thread = threading.Thread(target=serve)
                thread.start()
                with self.assertRaises((volley.Disconnected, volley.Refused)):
                    volley.Client(path).about()
                thread.join()


if __name__ == "__main__":
    unittest.main()
