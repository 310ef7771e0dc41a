"""A client of the native API. Usage: native.py SOCKET TASK; prints "done" after the task."""
import http.client
import json
import os
import socket
import sys
import threading
import time


class Router(http.client.HTTPConnection):
    """A connection to the socket of the native API."""

    def __init__(self, path):
        super().__init__("volley", timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(self.path)

    def ask(self, method, path, body=None, kind="application/json", **headers):
        """Returns status, body and ETag of the answer."""
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            headers["Content-Type"] = kind
            body = body if isinstance(body, (str, bytes)) else json.dumps(body)
        self.request(method, path, body, headers)
        answer = self.getresponse()
        text = answer.read()
        is_json = "json" in answer.headers.get("Content-Type", "") and text
        return answer.status, json.loads(text) if is_json else text, answer.headers["ETag"]


def config(path):
    """The document is read, replaced, patched, confirmed and rolled back."""
    router = Router(path)
    status, about, _ = router.ask("GET", "/v1")
    assert status == 200 and about["version"], about
    status, was, tag = router.ask("GET", "/v1/config")
    assert status == 200 and tag == f'"{about["generation"]}"', (status, tag, about)
    assert router.ask("GET", "/v1/config", If_None_Match=tag)[0] == 304
    assert router.ask("GET", "/v1/config", If_None_Match="*")[0] == 304
    sessions = router.ask("POST", "/v1/commands", {"commands": ["show cli-sessions"]})[1]["results"][0]["output"]
    assert [s["command"] for s in sessions if s["kind"] == "native"] == ["POST /v1/commands"], sessions
    assert b"\n  host-eth0:" in router.ask("GET", "/v1/config", Accept="application/yaml")[1]
    wanted = json.loads(json.dumps(was))
    wanted["routes"] = [{"prefix": "198.51.100.0/24", "via": "drop"}]
    # A dry run changes nothing.
    status, changed, _ = router.ask("PUT", "/v1/config?dry-run=true", wanted)
    assert status == 200 and changed["difference"] == ["+ ip route add 198.51.100.0/24 via drop"], changed
    assert not changed["changed"] and router.ask("GET", "/v1/config")[2] == tag
    status, changed, now = router.ask("PUT", "/v1/config", wanted, If_Match=tag)
    assert status == 200 and changed["changed"] and now == f'"{changed["generation"]}"' != tag, changed
    assert router.ask("GET", "/v1/config")[1] == wanted
    # Somebody else has changed the configuration meanwhile.
    status, refused, _ = router.ask("PUT", "/v1/config", was, If_Match=tag)
    assert status == 412 and "generation" in refused["detail"], refused
    # The same again changes nothing.
    status, changed, _ = router.ask("PUT", "/v1/config", wanted)
    assert status == 200 and not changed["changed"] and changed["difference"] == [], changed
    # A patch changes one field, and removes one; a confirmation keeps it.
    patch = {"interfaces": {"host-eth0": {"mtu": 1400, "description": "uplink"}}}
    kind = "application/merge-patch+json"
    status, changed, _ = router.ask("PATCH", "/v1/config?confirm=60", patch, kind)
    assert status == 200 and changed["rolls_back_in"] == 60, changed
    other, own = (f'"{changed["generation"] - before}"' for before in (1, 0))
    status, refused, _ = router.ask("POST", "/v1/config/confirm", If_Match=other)
    assert status == 412 and "applied as generation" in refused["detail"], refused
    status, refused, _ = router.ask("POST", "/v1/config/rollback", If_Match=other)
    assert status == 412 and "has generation" in refused["detail"], refused
    assert router.ask("POST", "/v1/config/confirm", If_Match=own)[0] == 200
    status, refused, _ = router.ask("POST", "/v1/config/confirm")
    assert status == 409 and "awaits confirmation" in refused["detail"], refused
    status, _, _ = router.ask("PATCH", "/v1/config", {"interfaces": {"host-eth0": {"description": None}}}, kind)
    assert status == 200
    port = router.ask("GET", "/v1/config")[1]["interfaces"]["host-eth0"]
    assert port["mtu"] == 1400 and "description" not in port, port
    # Operations: if the test fails, none of them is done.
    kind = "application/json-patch+json"
    place = "/interfaces/host-eth0/mtu"
    test = {"op": "test", "path": place, "value": 1400}
    add = {"op": "add", "path": "/routes/-", "value": {"prefix": "203.0.113.0/24", "via": "drop"}}
    status, changed, _ = router.ask("PATCH", "/v1/config", [test, add, {"op": "replace", "path": place, "value": 1450}], kind)
    assert status == 200 and "+ ip route add 203.0.113.0/24 via drop" in changed["difference"], changed
    status, refused, _ = router.ask("PATCH", "/v1/config", [{"op": "remove", "path": "/routes/1"}, test], kind)
    assert status == 409 and "operation 2 of the patch, at '/interfaces/host-eth0/mtu': the test failed" in refused["detail"], refused
    assert len(router.ask("GET", "/v1/config")[1]["routes"]) == 2
    status, refused, _ = router.ask("PATCH", "/v1/config", [{"op": "add", "path": "/interfaces/host-eth0/mtu", "value": 1}], kind)
    assert status == 422 and refused["faults"][0]["pointer"] == place, refused
    assert router.ask("PATCH", "/v1/config", {"routes": []}, kind)[0] == 400
    assert router.ask("POST", "/v1/config/rollback")[0] == 200
    kind = "application/merge-patch+json"
    # A patch that is itself a long document.
    long = {"routes": [{"prefix": f"30.{n >> 8}.{n & 255}.0/24", "via": "drop"} for n in range(50000)]}
    assert 2 << 20 < len(json.dumps(long)) < 4 << 20
    status, changed, _ = router.ask("PATCH", "/v1/config", long, kind)
    assert status == 200 and changed["changed"], changed
    assert router.ask("POST", "/v1/config/rollback")[0] == 200
    # Rollbacks go further and further back.
    assert router.ask("POST", "/v1/config/rollback?dry-run=true")[1]["difference"]
    assert router.ask("POST", "/v1/config/rollback", {"changes": 2})[0] == 200
    assert router.ask("GET", "/v1/config")[1] == wanted
    assert router.ask("POST", "/v1/config/rollback")[0] == 200
    assert router.ask("GET", "/v1/config")[1] == was
    history = router.ask("GET", "/v1/show/config/history")[1]
    assert history[0]["front_end"] == "native" and history[0]["command"] == "POST /v1/config/rollback", history[0]


def faults(path):
    """Wrong requests are refused with the place and the reason, and change nothing."""
    router = Router(path)
    before = router.ask("GET", "/v1/config")

    def refused(status, method, path, body=None, *args, **headers):
        got, said, _ = router.ask(method, path, body, *args, **headers)
        assert got == status and said["status"] == status and said["detail"], (got, said)
        return said

    wrong = {"interfaces": {"host-eth0": {"mtu": "big", "mut": 1}}, "routes": [{"prefix": "192.0.2.0/33", "via": "drop"}]}
    found = {fault["pointer"]: fault for fault in refused(422, "PUT", "/v1/config", wrong)["faults"]}
    assert {"/interfaces/host-eth0/mtu", "/interfaces/host-eth0/mut", "/routes/0/prefix"} <= set(found), found
    assert "'mtu'" in found["/interfaces/host-eth0/mut"]["detail"], found
    # A fault that only the whole configuration shows.
    wrong = {"routes": [{"prefix": "192.0.2.0/24", "via": "10.0.0.1", "interface": "host-nowhere"}]}
    found = refused(422, "PUT", "/v1/config", wrong)["faults"]
    assert found[0]["pointer"].startswith("/routes/0"), found
    refused(422, "PUT", "/v1/config", "{ not: [ json")
    refused(422, "PUT", "/v1/config", "")
    refused(400, "PUT", "/v1/config?confirm=0", {})
    refused(400, "PUT", "/v1/config?confirm=1&dry-run=true", {})
    assert "'dry-run'" in refused(400, "PUT", "/v1/config?dry_run=true", {})["detail"]
    refused(400, "PUT", "/v1/config", {}, If_Match="7")
    refused(415, "PATCH", "/v1/config", "a: 1", "text/plain")
    refused(400, "PATCH", "/v1/config", "[]", "application/merge-patch+json")
    refused(400, "PATCH", "/v1/config", "{", "application/merge-patch+json")
    refused(404, "GET", "/v2")
    assert refused(405, "DELETE", "/v1/config")["detail"].endswith("HEAD")
    refused(409, "POST", "/v1/config/rollback", {"changes": 1000000})
    refused(400, "POST", "/v1/config/rollback", {"number": 1})
    refused(400, "POST", "/v1/commands", {})
    refused(404, "GET", "/v1/show/interface/host-nowhere")
    refused(404, "GET", "/v1/show/nothing/like/this")
    # Not even a valid part of a refused document was applied.
    assert router.ask("GET", "/v1/config") == before
    # A body that breaks off, and one that is announced only.
    for text in [b"PUT /v1/config HTTP/1.1\r\nHost: v\r\nContent-Length: 100\r\n\r\n{", b"PUT /v1/config HTTP/1.1\r\nHos"]:
        cut = socket.socket(socket.AF_UNIX)
        cut.connect(path)
        cut.sendall(text)
        cut.close()
    assert router.ask("GET", "/v1/config") == before


def commands(path):
    """Commands run in order until one fails."""
    router = Router(path)
    wanted = ["create loopback interface", "show interface", "set interface mtu packet 9000 nowhere", "show version"]
    status, said, _ = router.ask("POST", "/v1/commands", {"commands": wanted})
    results = said["results"]
    assert status == 200 and not said["complete"] and len(results) == 3, said
    assert "loop0" in [port["name"] for port in results[1]["output"]], said
    assert "nowhere" in results[2]["error"], said
    # The largest list comes in pieces.
    assert router.ask("POST", "/v1/commands", {"commands": ["ip route add count 50000 20.0.0.0/24 drop"]})[1]["complete"]
    assert len(router.ask("GET", "/v1/show/ip/fib")[1]) >= 50000
    assert len(router.ask("GET", "/v1/config")[1]["routes"]) == 50000
    # While one client reads a long list, another is served.
    slow = Router(path)
    slow.request("GET", "/v1/config")
    answer = slow.getresponse()
    assert answer.read(100)
    begun = time.monotonic()
    assert router.ask("GET", "/v1")[0] == 200
    assert time.monotonic() - begun < 5
    # The configuration changes while the first client reads: its answer breaks off.
    assert router.ask("POST", "/v1/commands", {"commands": ["ip route del 20.0.0.0/24"]})[1]["complete"]
    try:
        answer.read()
        raise AssertionError("a mixture of two configurations was complete")
    except http.client.IncompleteRead:
        pass


PACKETS = 'packet-generator new {{ name {name} limit 20 interface pg0 node ethernet-input size 64-64 data {{ IP4: 2.3.4 -> 1.2.3 ' \
          'UDP: 192.0.2.1 -> 192.0.2.2 UDP: 1234 -> 2345 incrementing 8 }} }}'


# The beginning of capture files, with times in microseconds or nanoseconds.
MAGIC = (b"\xa1\xb2\xc3\xd4", b"\xa1\xb2\x3c\x4d")


def packets(path):
    """Packets are traced, and captured while a client reads."""
    router, other = Router(path), Router(path)

    def run(*commands):
        status, said, _ = router.ask("POST", "/v1/commands", {"commands": commands})
        assert status == 200 and said["complete"], said

    def later(*commands):
        """Runs commands half a second later, beside a request."""
        def work():
            time.sleep(0.5)
            run(*commands)
        thread = threading.Thread(target=work)
        thread.start()
        return thread

    run("create packet-generator interface pg0", "set interface state pg0 up", PACKETS.format(name="x"))
    thread = later("packet-generator enable-stream x")
    wanted = {"node": "pg-input", "packets": 3, "filter": "udp port 2345"}
    status, traced, _ = other.ask("POST", "/v1/trace", wanted)
    thread.join()
    assert status == 200 and len(traced) == 3, traced
    assert traced[0]["steps"][0]["node"] == "pg-input" and traced[0]["steps"][0]["rx_interface"] == "pg0", traced
    # The time is over before the packets come; traces of others are left out, and nothing is left to trace.
    status, traced, _ = other.ask("POST", "/v1/trace", {"node": "pg-input", "packets": 3, "wait_ms": 100})
    assert status == 200 and traced == [], traced
    run("clear trace", "packet-generator delete x", PACKETS.format(name="x"), "packet-generator enable-stream x")
    time.sleep(0.5)
    assert router.ask("GET", "/v1/show/trace")[1] == []
    # One client at a time traces a node; one that leaves takes its request back.
    other.request("POST", "/v1/trace", '{"node": "pg-input", "packets": 3}', {"Content-Type": "application/json"})
    time.sleep(0.3)
    status, refused, _ = router.ask("POST", "/v1/trace", wanted)
    assert status == 409 and "another client" in refused["detail"], refused
    other.close()
    until = time.monotonic() + 10
    while router.ask("POST", "/v1/trace", {"node": "pg-input", "packets": 1, "wait_ms": 0})[0] == 409:
        assert time.monotonic() < until
    status, refused, _ = other.ask("POST", "/v1/trace", {"node": "nowhere", "packets": 3})
    assert status == 422 and "there is no node 'nowhere'" in refused["detail"], refused
    assert other.ask("POST", "/v1/trace", {"node": "pg-input", "packets": 1001})[0] == 400
    assert other.ask("POST", "/v1/trace", {"node": "pg-input", "packets": 1, "wait_ms": 60001})[0] == 400
    assert other.ask("POST", "/v1/trace", {"node": "pg-input", "packets": 0})[0] == 422
    # A capture ends with its packets.
    run("packet-generator delete x", PACKETS.format(name="x"))
    thread = later("packet-generator enable-stream x")
    status, file, _ = other.ask("GET", "/v1/capture?rx=true&interface=pg0&packets=5&filter=udp%20port%202345")
    thread.join()
    assert status == 200 and len(file) == 24 + 5 * (16 + 64) and file[:4] in MAGIC, (status, len(file))
    # A client that leaves ends its capture.
    other.request("GET", "/v1/capture?interface=pg0&bytes=64")
    assert len(other.getresponse().read(24)) == 24
    status, refused, _ = router.ask("GET", "/v1/capture")
    assert status in (409, 422) and "capture" in refused["detail"], refused
    other.close()
    until = time.monotonic() + 10
    while router.ask("GET", "/v1/capture?filter=nonsense%20words")[1]["detail"].find("running") >= 0:
        assert time.monotonic() < until
    for query in ("interface=nowhere", "filter=nonsense%20words", "packets=0", "packets=x", "rx=perhaps", "filter=%3F", "bytes=1"):
        status, refused, _ = router.ask("GET", "/v1/capture?" + query)
        assert status in (400, 404, 422), (query, status, refused)


def views(path):
    """A viewer captures packets, but must not trace them."""
    router = Router(path)
    router.request("GET", "/v1/capture?bytes=64")
    answer = router.getresponse()
    assert answer.status == 200 and len(answer.read(24)) == 24
    router.close()
    assert Router(path).ask("POST", "/v1/trace", {"node": "pg-input", "packets": 3})[0] == 403


def words(path):
    """Words with slashes, and others that the command line treats specially."""
    router, folder = Router(path), os.path.dirname(path)
    for line in [f"create memif socket id 1 filename {folder}/m.sock", "create interface memif socket-id 1 id 0 master secret hush", "ip route add 10.9.0.0/16 drop"]:
        said = router.ask("POST", "/v1/commands", {"commands": [line]})[1]
        assert said["complete"], said
    assert router.ask("GET", "/v1/show/interface/memif1%2F0")[1][0]["name"] == "memif1/0"
    assert router.ask("GET", "/v1/show/ip/fib/10.9.0.0%2F16")[0] == 200
    for odd in ["interface/%23", "interface/%7C/count", "interface%20host-eth0", "interface/%0Acreate%20loopback%20interface", "%22", "interface/%3F%3F"]:
        assert router.ask("GET", "/v1/show/" + odd)[0] == 404, odd
    assert "loop" not in str(router.ask("GET", "/v1/show/interface")[1])
    # Characters beyond 16 bits, as this program and others write them.
    wanted = router.ask("GET", "/v1/config")[1]
    wanted["interfaces"]["host-eth0"]["description"] = "up \U0001F600"
    assert "\\ud83d" in json.dumps(wanted)
    status, changed, _ = router.ask("PUT", "/v1/config", wanted)
    assert status == 200 and changed["changed"], changed
    assert router.ask("GET", "/v1/config")[1] == wanted
    # HEAD is GET without a body.
    router.request("HEAD", "/v1/config")
    answer = router.getresponse()
    assert answer.status == 200 and answer.headers["ETag"] and answer.read() == b""
    assert router.ask("POST", "/v1/commands", {"commands": []}, If_Match='"1"')[0] == 400
    # A client that has read its answer may be silent for long.
    time.sleep(11)
    router.auto_open = False
    assert router.ask("GET", "/v1")[0] == 200


def secrets(path):
    """A read-only client sees no secrets."""
    router = Router(path)
    for path in ["config", "show/memif", "show/config", "show/config/history", "show/config/yaml", "show/config/change/1", "openapi.json"]:
        said = router.ask("GET", "/v1/" + path)
        assert said[0] in (200, 404) and "hush" not in str(said), said
    for accept in ["application/yaml", "application/json"]:
        assert "hush" not in str(router.ask("GET", "/v1/config", Accept=accept))
    said = router.ask("POST", "/v1/commands", {"commands": ["show config", "show config yaml", "show memif"]})[1]
    assert said["complete"] and "hush" not in str(said), said


def leaves(path):
    """A client that leaves in the middle of a long change takes it back, and the next change is made."""
    router = Router(path)
    before = router.ask("GET", "/v1/config")
    wanted = dict(before[1], routes=[{"prefix": f"30.{n >> 8}.{n & 255}.0/24", "via": "drop"} for n in range(60000)])
    for wait in [0.05, 0.2, 0.4]:
        leaver = Router(path)
        leaver.connect()
        leaver.request("PUT", "/v1/config", json.dumps(wanted))
        time.sleep(wait)
        leaver.sock.shutdown(2)
        leaver.close()
        deadline = time.monotonic() + 30
        while True:
            now = router.ask("GET", "/v1/config")
            if now[1] == before[1] or time.monotonic() > deadline:
                break
            # The change may have been complete before the client left.
            if now[0] == 200 and now[1] == wanted:
                assert router.ask("POST", "/v1/config/rollback")[0] == 200
            time.sleep(0.1)
        assert now[1] == before[1]
    status, changed, tag = router.ask("PUT", "/v1/config", wanted)
    assert status == 200 and changed["changed"] and tag == f'"{changed["generation"]}"', changed
    assert router.ask("POST", "/v1/config/rollback")[1]["changed"]


def watch(path):
    """Events come with the state first, and then with each change."""
    router, watcher = Router(path), Router(path)
    watcher.request("GET", "/v1/watch")
    answer = watcher.getresponse()
    events = []

    def next_event():
        while True:
            line = answer.readline()
            assert line, events
            if line.strip():
                events.append(json.loads(line))
                return events[-1]

    while "complete" not in next_event():
        pass
    assert "generation" in events[0], events
    assert "host-eth0" in [event["interface"]["name"] for event in events if "interface" in event], events
    begun = time.monotonic()
    router.ask("PATCH", "/v1/config", {"interfaces": {"host-eth0": {"state": "down"}}}, "application/merge-patch+json")
    seen = [next_event(), next_event()]
    assert any("generation" in event for event in seen), seen
    port = next(event["interface"] for event in seen if "interface" in event)
    assert port["name"] == "host-eth0" and not port["admin_up"], seen
    assert time.monotonic() - begun < 5
    # An interface that is made anew with its old name is there at the end.
    router.ask("POST", "/v1/commands", {"commands": ["create loopback interface"]})
    while events[-1].get("interface", {}).get("name") != "loop0":
        next_event()
    again = ["delete loopback interface intfc loop0", "create loopback interface"]
    assert router.ask("POST", "/v1/commands", {"commands": again})[1]["complete"]
    time.sleep(0.5)
    router.ask("POST", "/v1/commands", {"commands": ["create loopback interface"]})
    while events[-1].get("interface", {}).get("name") != "loop1":
        next_event()
    of_loop0 = [event for event in events if "loop0" in str(event)]
    assert "interface" in of_loop0[-1], of_loop0


def reads(path):
    """A read-only client reads, and changes nothing."""
    router = Router(path)
    status, was, tag = router.ask("GET", "/v1/config")
    assert status == 200
    for method, path in [("PUT", "/v1/config"), ("PATCH", "/v1/config"), ("POST", "/v1/config/rollback")]:
        status, refused, _ = router.ask(method, path, {})
        assert status == 403 and "read-only" in refused["detail"], refused
    status, said, _ = router.ask("POST", "/v1/commands", {"commands": ["show version", "create loopback interface"]})
    assert status == 200 and "error" in said["results"][1], said
    assert router.ask("GET", "/v1/config", If_None_Match=tag)[0] == 304


def operates(path):
    """An operator resets counters, and changes no configuration."""
    router = Router(path)
    for method, resource in [("PUT", "/v1/config"), ("PATCH", "/v1/config"), ("POST", "/v1/config/rollback")]:
        status, refused, _ = router.ask(method, resource, {})
        assert status == 403 and refused["detail"] == "this socket is for operators", refused
    commands = ["clear interfaces", "clear trace", "create loopback interface"]
    status, said, _ = router.ask("POST", "/v1/commands", {"commands": commands})
    assert status == 200 and ["error" in result for result in said["results"]] == [False, False, True], said


def slow(path):
    """A long document that arrives slowly delays no change of others, and is refused at last."""
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(30)
    one.connect(path)
    head = b"PUT /v1/config HTTP/1.1\r\nHost: v\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    one.sendall(head % (3 << 20) + b" " * ((2 << 20) + 4096))
    begun = time.monotonic()
    for _ in range(3):
        patch = {"interfaces": {"host-eth0": {"description": "a"}}}
        assert Router(path).ask("PATCH", "/v1/config", patch, "application/merge-patch+json")[0] == 200
    assert time.monotonic() - begun < 5, "a patch does not wait for the upload"
    time.sleep(6)
    one.sendall(b" ")
    answer = one.recv(4096)
    assert b" 408 " in answer and b"1 MiB a second" in answer, answer


def describes(path):
    """The description has all operations, and the fields of features."""
    router = Router(path)
    status, api, _ = router.ask("GET", "/v1/openapi.json")
    assert status == 200 and api["openapi"].startswith("3.1"), api
    config = api["components"]["schemas"]["Config"]["properties"]
    port = config["interfaces"]["additionalProperties"]["properties"]
    assert port["mtu"]["type"] == "integer" and port["mtu"]["minimum"] == 68, port["mtu"]
    assert port["urpf"]["enum"] == ["off", "strict", "loose"], port["urpf"]
    queue = port["receive"]["properties"]["queues"]["additionalProperties"]["properties"]
    assert queue["worker"]["maximum"] == 255, queue
    sub = port["sub-interfaces"]["additionalProperties"]["properties"]
    assert {"addresses", "encapsulation", "mtu", "urpf"} <= set(sub) and "sub-interfaces" not in sub, sub
    assert config["routes"]["items"]["properties"]["via"], config["routes"]


def floods(path):
    """Frames that belong to no request come in their client's turns: they delay nobody, however many there are."""
    def flood():
        os.setuid(65534)
        hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
        ping = b"\0\0\x08\6\0\0\0\0\0" + b"12345678"
        room = [b"\0\0\6\4\0\0\0\0\0\0\4" + size.to_bytes(4, "big") for size in (0, 0x7fffffff)]
        units = [ping, b"".join(room)]
        sides = []
        for n in range(32):
            side = socket.socket(socket.AF_UNIX)
            side.connect(path)
            side.sendall(hello)
            side.setblocking(False)
            sides.append((side, units[n % 2] * (200000 // len(units[n % 2])), [0]))
        # Bytes that come all at once after a pause, and then without pauses.
        for n in range(20):
            time.sleep(0.02)
            for side, text, at in sides:
                try:
                    at[0] = (at[0] + side.send(text[at[0]:at[0] + 16000])) % len(text)
                except OSError:
                    pass
        while sides:
            for side, text, at in list(sides):
                try:
                    side.recv(1 << 16)
                except BlockingIOError:
                    pass
                except OSError:
                    sides.remove((side, text, at))
                    continue
                try:
                    at[0] = (at[0] + side.send(text[at[0]:])) % len(text)
                except BlockingIOError:
                    pass
                except OSError:
                    sides.remove((side, text, at))
        os._exit(0)

    child = os.fork()
    if child == 0:
        flood()
    time.sleep(0.3)
    waits = []
    until = time.monotonic() + 3
    while time.monotonic() < until:
        begun = time.monotonic()
        assert Router(path).ask("GET", "/v1")[0] == 200
        waits.append(time.monotonic() - begun)
    assert os.waitpid(child, os.WNOHANG) == (0, 0), "the flood has ended"
    os.kill(child, 9)
    os.waitpid(child, 0)
    print(f"longest wait {max(waits) * 1000:.1f} ms of {len(waits)}", file=sys.stderr)
    assert sorted(waits)[len(waits) // 2] < 0.05 and max(waits) < 0.5, sorted(waits)[-5:]


def many(path):
    """Many clients at once, and clients that leave in the middle, leave nothing behind."""
    def one():
        for _ in range(20):
            assert Router(path).ask("GET", "/v1")[0] == 200

    threads = [threading.Thread(target=one) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]


if __name__ == "__main__":
    globals()[sys.argv[2]](sys.argv[1])
    print("done")
