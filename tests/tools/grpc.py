"""A client of the native API over gRPC. Usage: grpc.py PROTO_FOLDER SOCKET TASK; prints "done" after the task."""
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

# The name of this file is that of the package.
sys.path.pop(0)
import grpc  # noqa: E402
from grpc_tools import protoc  # noqa: E402


def stubs(folder):
    """Generates the modules of the service, and returns that of the messages and that of the client."""
    made = tempfile.mkdtemp()
    try:
        arguments = [f"-I{folder}", f"--python_out={made}", f"--grpc_python_out={made}", "volley/v1/volley.proto"]
        assert protoc.main(["protoc", *arguments]) == 0
        sys.path.insert(0, made)
        from volley.v1 import volley_pb2, volley_pb2_grpc
        return volley_pb2, volley_pb2_grpc
    finally:
        shutil.rmtree(made)


v1, services = stubs(sys.argv[1])
KIND = v1.ApplyOptions


def connect(path):
    """Returns a channel and a client."""
    # Without a name, this client sends the path of the socket as the name of the host, which HTTP does not allow.
    channel = grpc.insecure_channel(f"unix:{path}", [("grpc.default_authority", "localhost")])
    return channel, services.VolleyStub(channel)


def refused(code, call, *arguments, **options):
    """Makes a call that must fail with this code. Returns the message."""
    try:
        answer = call(*arguments, timeout=30, **options)
        if hasattr(answer, "__next__"):
            answer = list(answer)
    except grpc.RpcError as error:
        assert error.code() == code, (error.code(), error.details())
        return error.details()
    raise AssertionError(f"expected {code}, got {answer}")


def document(router, format=v1.JSON):
    """Returns the head of the configuration, and its text."""
    parts = list(router.Get(v1.GetRequest(format=format)))
    return parts[0].head, b"".join(part.document for part in parts[1:])


def apply(router, text, timeout=30, **options):
    """Applies a document, in pieces."""
    text = text if isinstance(text, bytes) else json.dumps(text).encode()

    def parts():
        yield v1.ApplyRequest(options=v1.ApplyOptions(**options))
        for begin in range(0, len(text), 50000):
            yield v1.ApplyRequest(document=text[begin:begin + 50000])

    return router.Apply(parts(), timeout=timeout)


def show(router, command):
    """Returns the output of a show command."""
    return json.loads(b"".join(part.json for part in router.Show(v1.ShowRequest(command=command))))


def generation(router):
    return router.About(v1.AboutRequest()).generation


def config(path):
    """The document is read, replaced, patched, confirmed and rolled back; other front ends see the changes."""
    _, router = connect(path)
    about = router.About(v1.AboutRequest())
    assert about.version, about
    head, was = document(router)
    assert head.generation == about.generation and not head.is_known, head
    known = list(router.Get(v1.GetRequest(known_generation=head.generation)))
    assert len(known) == 1 and known[0].head.is_known, known
    assert b"\n  host-eth0:" in document(router, v1.YAML)[1]
    wanted = json.loads(was)
    wanted["routes"] = [{"prefix": "198.51.100.0/24", "via": "drop"}]
    added = ["+ ip route add 198.51.100.0/24 via drop"]
    # A dry run changes nothing.
    answer = apply(router, wanted, dry_run=True)
    assert list(answer.changed.difference) == added and not answer.changed.changed, answer
    assert generation(router) == head.generation
    answer = apply(router, wanted, expected_generation=head.generation)
    assert answer.changed.changed and answer.changed.generation == generation(router), answer
    assert json.loads(document(router)[1]) == wanted
    # Somebody else has changed the configuration meanwhile.
    try:
        apply(router, was, expected_generation=head.generation)
        raise AssertionError("an outdated change was made")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.ABORTED and "generation" in error.details(), error
    # A patch changes one field, and is kept by a confirmation.
    patch = {"interfaces": {"host-eth0": {"mtu": 1400}}}
    answer = apply(router, patch, kind=KIND.MERGE_PATCH, confirm_seconds=60)
    assert answer.changed.rolls_back_in == 60, answer
    applied = answer.changed.generation
    other = v1.ConfirmRequest(expected_generation=applied - 1)
    assert "applied as generation" in refused(grpc.StatusCode.ABORTED, router.Confirm, other)
    assert router.Confirm(v1.ConfirmRequest(expected_generation=applied)).generation == applied
    assert "awaits confirmation" in refused(grpc.StatusCode.FAILED_PRECONDITION, router.Confirm, v1.ConfirmRequest())
    # Operations change what they name, if their test passes.
    place = "/interfaces/host-eth0/mtu"
    test = {"op": "test", "path": place, "value": 1400}
    answer = apply(router, [test, {"op": "replace", "path": place, "value": 1450}], kind=KIND.JSON_PATCH)
    assert answer.changed.changed, answer
    try:
        apply(router, [test], kind=KIND.JSON_PATCH)
        raise AssertionError("a change was made although its test failed")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.FAILED_PRECONDITION and "the test failed" in error.details(), error
    assert router.Rollback(v1.RollbackRequest()).changed
    # Without one, it is rolled back.
    patch = {"interfaces": {"host-eth0": {"mtu": 1300}}}
    assert apply(router, patch, kind=KIND.MERGE_PATCH, confirm_seconds=1).changed.changed
    assert show(router, "interface host-eth0")
    until = time.monotonic() + 20
    while json.loads(document(router)[1])["interfaces"]["host-eth0"]["mtu"] != 1400:
        assert time.monotonic() < until, "the change was not rolled back"
        time.sleep(0.1)
    # Rollbacks go further and further back.
    assert router.Rollback(v1.RollbackRequest(dry_run=True)).difference
    assert router.Rollback(v1.RollbackRequest(changes=2)).changed
    assert json.loads(document(router)[1]) == json.loads(was)
    refused(grpc.StatusCode.FAILED_PRECONDITION, router.Rollback, v1.RollbackRequest(changes=10**12))
    history = show(router, "show config history")
    assert history[0]["front_end"] == "native" and history[0]["command"] == "gRPC Rollback", history[0]


def faults(path):
    """Wrong requests are refused, with the place and the reason, and change nothing."""
    channel, router = connect(path)
    before = document(router)
    wrong = {"interfaces": {"host-eth0": {"mtu": "big", "mut": 1}}, "routes": [{"prefix": "192.0.2.0/33", "via": "drop"}]}
    answer = apply(router, wrong)
    found = {fault.pointer: fault for fault in answer.faults.faults}
    assert {"/interfaces/host-eth0/mtu", "/interfaces/host-eth0/mut", "/routes/0/prefix"} <= set(found), found
    assert "'mtu'" in found["/interfaces/host-eth0/mut"].detail and found["/routes/0/prefix"].line == 1, found
    # Very many faults.
    wrong = {"routes": [{"prefix": f"10.{n}.0.0/33", "via": "drop"} for n in range(250)]}
    assert len(apply(router, wrong).faults.faults) == 250
    code = grpc.StatusCode
    part = v1.ApplyRequest
    options = part(options=v1.ApplyOptions())
    refused(code.INVALID_ARGUMENT, router.Apply, iter([]))
    refused(code.INVALID_ARGUMENT, router.Apply, iter([part(document=b"{}")]))
    refused(code.INVALID_ARGUMENT, router.Apply, iter([options, options]))
    refused(code.INVALID_ARGUMENT, router.Apply, iter([part(options=v1.ApplyOptions(kind=7))]))
    refused(code.INVALID_ARGUMENT, router.Apply, iter([part(options=v1.ApplyOptions(confirm_seconds=0))]))
    refused(code.INVALID_ARGUMENT, router.Apply, iter([part(options=v1.ApplyOptions(confirm_seconds=1, dry_run=True))]))
    refused(code.NOT_FOUND, router.Show, v1.ShowRequest(command="interface host-nowhere"))
    refused(code.NOT_FOUND, router.Show, v1.ShowRequest(command="nothing like this"))
    refused(code.NOT_FOUND, router.Show, v1.ShowRequest(command=""))
    refused(code.INVALID_ARGUMENT, router.Exec, v1.ExecRequest())
    refused(code.INVALID_ARGUMENT, router.Stats, v1.StatsRequest(interval_ms=1))
    # A message that is too long, an unknown call, and one that is no message.
    refused(code.OUT_OF_RANGE, router.Exec, v1.ExecRequest(commands=["x" * (2 << 20)]))
    refused(code.UNIMPLEMENTED, channel.unary_unary("/volley.v1.Volley/Nothing"), b"")
    refused(code.INTERNAL, channel.unary_unary("/volley.v1.Volley/Show"), b"\x0a\xff")
    # A client that sends no more.
    def stalls():
        yield options
        time.sleep(30)
    begun = time.monotonic()
    refused(code.DEADLINE_EXCEEDED, router.Apply, stalls())
    assert 5 < time.monotonic() - begun < 20
    assert document(router) == before


def garbage(path):
    """Bytes that are no HTTP/2 close the connection, and nothing else."""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    settings = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
    texts = [
        preface + b"\xff" * 1000,
        preface[:10],
        preface + settings + b"\x00\x00\x08\x00\x00\x00\x00\x00\x01" + b"x" * 8,
        # A head that never ends.
        preface + settings + b"\x00\x00\x01\x01\x00\x00\x00\x00\x01\x00" + b"\x00\x3f\xff\x09\x00\x00\x00\x00\x01" * 100,
        preface + settings + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01",
    ]
    for text in texts:
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(30)
        client.connect(path)
        try:
            client.sendall(text)
            client.shutdown(socket.SHUT_WR)
            while client.recv(65536):
                pass
        except (BrokenPipeError, ConnectionResetError):
            pass
        client.close()
    # Requests that are begun and reset at once, again and again.
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(30)
    client.connect(path)
    client.sendall(preface + settings)
    # :method POST, :scheme http, :path /volley.v1.Volley/About, and the type of the content.
    literal = lambda name, value: b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value
    head = b"\x83\x86" + literal(b":path", b"/volley.v1.Volley/About") + literal(b":authority", b"v") + literal(b"content-type", b"application/grpc")
    try:
        for n in range(20000):
            stream = struct.pack(">I", 2 * n + 1)
            client.sendall(struct.pack(">I", len(head))[1:] + b"\x01\x04" + stream + head + b"\x00\x00\x04\x03\x00" + stream + b"\x00\x00\x00\x08")
        while client.recv(65536):
            pass
    except (BrokenPipeError, ConnectionResetError):
        pass
    client.close()
    _, router = connect(path)
    assert router.About(v1.AboutRequest()).version


def commands(path):
    """Commands run until one fails, and long lists come in pieces, while another call is answered."""
    _, router = connect(path)
    wanted = ["create loopback interface", "show interface", "set interface mtu packet 9000 nowhere", "show version"]
    answer = router.Exec(v1.ExecRequest(commands=wanted))
    assert not answer.complete and len(answer.results) == 3 and "nowhere" in answer.results[2].error, answer
    assert "loop0" in [port["name"] for port in json.loads(answer.results[1].output)], answer
    assert router.Exec(v1.ExecRequest(commands=["ip route add count 50000 20.0.0.0/24 drop"])).complete
    assert len(show(router, "ip fib")) >= 50000
    # While one call's answer is not read, others on the same connection are answered.
    slow = router.Get(v1.GetRequest())
    assert next(slow).head.generation
    assert router.About(v1.AboutRequest(), timeout=5).version
    assert len(json.loads(b"".join(part.document for part in slow))["routes"]) == 50000
    # If the configuration changes meanwhile, the call ends with an error.
    slow = router.Get(v1.GetRequest())
    next(slow)
    assert router.Exec(v1.ExecRequest(commands=["ip route add 30.0.0.0/24 drop"])).complete
    try:
        sum(1 for _ in slow)
        raise AssertionError("the document has parts of two configurations")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.ABORTED, error


def many(path):
    """Many calls at a time, more than the router serves at once, are all answered."""
    _, router = connect(path)
    calls = [router.About.future(v1.AboutRequest(), timeout=30) for _ in range(300)]
    assert all(call.result().version for call in calls)
    watchers = [router.Watch(v1.WatchRequest()) for _ in range(10)]
    assert all(next(watcher) for watcher in watchers)
    assert router.About(v1.AboutRequest(), timeout=10).version
    for watcher in watchers:
        watcher.cancel()


def packets(path):
    """Packets are traced and captured."""
    _, router = connect(path)
    stream = "packet-generator new { name y limit 20 interface pg0 node ethernet-input size 64-64 data { IP4: 2.3.4 -> 1.2.3 " \
             "UDP: 192.0.2.1 -> 192.0.2.2 UDP: 1234 -> 2345 incrementing 8 } }"
    assert router.Exec(v1.ExecRequest(commands=[stream])).complete
    capture = router.Capture(v1.CaptureRequest(points=[v1.CaptureRequest.RECEIVED], interface="pg0", packets=4))
    file = next(capture).pcap
    assert len(file) == 24, file
    assert router.Exec(v1.ExecRequest(commands=["trace add pg-input 2", "packet-generator enable-stream y"])).complete
    file += b"".join(part.pcap for part in capture)
    assert len(file) == 24 + 4 * (16 + 64), len(file)
    assert len(show(router, "trace max 2")) == 2
    # The packets of others, which came before, are left out.
    traced = b"".join(part.json for part in router.Trace(v1.TraceRequest(node="pg-input", packets=2, wait_ms=100)))
    assert json.loads(traced) == [], traced
    assert "no node 'nowhere'" in refused(grpc.StatusCode.INVALID_ARGUMENT, router.Trace, v1.TraceRequest(node="nowhere", packets=2))
    bad = v1.CaptureRequest(interface="nowhere")
    assert "nowhere" in refused(grpc.StatusCode.INVALID_ARGUMENT, router.Capture, bad)


def watch(path):
    """Watchers get the state, and then each change."""
    _, router = connect(path)
    _, other = connect(path)
    watcher = router.Watch(v1.WatchRequest(), timeout=60)
    first = []
    while not first or first[-1].WhichOneof("event") != "complete":
        first.append(next(watcher))
    assert first[0].WhichOneof("event") == "generation", first
    assert "host-eth0" in [event.interface.name for event in first], first
    assert other.Exec(v1.ExecRequest(commands=["create loopback interface"])).complete
    seen = [next(watcher) for _ in range(2)]
    assert {event.WhichOneof("event") for event in seen} == {"generation", "interface"}, seen
    assert other.Exec(v1.ExecRequest(commands=["delete loopback interface intfc loop0"])).complete
    while True:
        event = next(watcher)
        if event.WhichOneof("event") == "removed":
            assert event.removed == "loop0"
            break
    watcher.cancel()


def stats(path):
    """The metrics are the same as in the text for Prometheus, once and at an interval."""
    _, router = connect(path)

    def one(answers):
        all = {}
        for answer in answers:
            for metric in answer.metrics:
                all.setdefault(metric.name, []).extend((metric.kind, dict(zip(metric.labels, s.labels)), s) for s in metric.samples)
            if answer.complete:
                return all

    all = one(router.Stats(v1.StatsRequest()))
    kind, labels, sample = next(one for one in all["volley_interface_mtu_bytes"] if one[1]["interface"] == "host-eth0")
    assert kind == v1.Metric.GAUGE and sample.integer > 0, sample
    assert any(s.suffix == "_bucket" and s.bound == "+Inf" for _, _, s in all["volley_worker_vector_size_packets"])
    assert all["volley_worker_busy_seconds_total"][0][2].WhichOneof("value") == "number"
    answers = router.Stats(v1.StatsRequest(interval_ms=100, prefixes=["volley_worker_turns"]), timeout=30)
    for _ in range(3):
        assert set(one(answers)) == {"volley_worker_turns_total"}
    answers.cancel()


def reads(path):
    """A read-only client reads all but secrets, and changes nothing."""
    _, router = connect(path)
    before = document(router)
    code = grpc.StatusCode.PERMISSION_DENIED
    refused(code, router.Apply, iter([v1.ApplyRequest(options=v1.ApplyOptions())]))
    refused(code, router.Confirm, v1.ConfirmRequest())
    refused(code, router.Rollback, v1.RollbackRequest())
    refused(code, router.Load, iter([v1.LoadRequest(options=v1.LoadOptions())]))
    answer = router.Exec(v1.ExecRequest(commands=["show version", "create loopback interface"]))
    assert not answer.complete and len(answer.results) == 2 and answer.results[1].error, answer
    assert next(router.Watch(v1.WatchRequest())) and next(router.Stats(v1.StatsRequest()))
    assert document(router) == before


def secrets(path):
    """A read-only client sees no secrets in the document."""
    _, router = connect(path)
    assert b"hush" not in document(router)[1]


def ip4(*prefixes):
    """Packs IPv4 prefixes."""
    return b"".join(socket.inet_aton(address) + bytes([length]) for address, length in prefixes)


def ip6(*prefixes):
    """Packs IPv6 prefixes."""
    return b"".join(socket.inet_pton(socket.AF_INET6, address) + bytes([length]) for address, length in prefixes)


def via(address, **options):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return v1.Path(next_hop=socket.inet_pton(family, address), **options)


def routes(paths, v4=b"", v6=b"", **options):
    return v1.LoadRequest(routes=v1.RouteGroup(paths=paths, ip4=v4, ip6=v6, **options))


def begin(**options):
    return v1.LoadRequest(options=v1.LoadOptions(**options))


def unchanging(router):
    """Returns the configuration, while another client may change it."""
    while True:
        try:
            return document(router)[1]
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.ABORTED, error


def configured(router):
    """Returns the configured routes of table 0, with their paths."""
    return {route["prefix"]: route.get("via") for route in json.loads(unchanging(router)).get("routes", [])}


def load(path):
    """Routes and neighbors are added, replaced, withdrawn and swept, as one change."""
    _, router = connect(path)
    before = document(router)[1]
    drop = [v1.Path(special=v1.Path.DROP)]
    answer = router.Load(iter([
        begin(),
        routes([via("10.0.0.2")], ip4(("20.0.0.0", 24), ("20.0.1.0", 24), ("20.0.2.0", 25)), ip6()),
        routes([via("2001:db8::2"), via("2001:db8::3", weight=3)], v6=ip6(("2001:db8:1::", 48), ("2001:db8:2::", 48))),
        routes(drop, ip4(("0.0.0.0", 0)), ip6(("::", 0))),
        v1.LoadRequest(neighbors=v1.NeighborGroup(interface="host-eth0", ip4=socket.inet_aton("10.0.0.9") + b"\x02\x00\x00\x00\x00\x09")),
    ]))
    assert (answer.added, answer.refused, answer.generation) == (8, 0, generation(router)), answer
    all = configured(router)
    assert all["20.0.2.0/25"] == "10.0.0.2" and all["::/0"] == "drop" and len(all) == 7, all
    text = document(router)[1]
    assert b"02:00:00:00:00:09" in text
    history = show(router, "config history")
    assert history[0]["command"] == "gRPC Load" and history[0]["added"] == 8, history[0]
    # The same again, with another path for one, one withdrawn, and one that is missing.
    answer = router.Load(iter([
        begin(),
        routes([via("10.0.0.2")], ip4(("20.0.0.0", 24), ("20.0.1.0", 24))),
        routes([via("10.0.0.3")], ip4(("20.0.0.0", 24))),
        routes([], ip4(("20.0.2.0", 25), ("99.0.0.0", 8)), withdraw=True),
    ]))
    assert (answer.added, answer.replaced, answer.withdrawn, answer.unchanged) == (0, 1, 1, 3), answer
    assert configured(router)["20.0.0.0/24"] == "10.0.0.3"
    # Only these IPv4 routes remain.
    answer = router.Load(iter([begin(replace=True, family=v1.LoadOptions.IP4), routes(drop, ip4(("20.0.0.0", 24), ("20.7.0.0", 16)))]))
    assert (answer.added, answer.replaced, answer.swept) == (1, 1, 2), answer
    all = configured(router)
    assert set(all) == {"20.0.0.0/24", "20.7.0.0/16", "::/0", "2001:db8:1::/48", "2001:db8:2::/48"}, all
    # Nothing is changed, and nothing is in the journal.
    was = generation(router)
    answer = router.Load(iter([begin(), routes(drop, ip4(("20.7.0.0", 16)))]))
    assert answer.unchanged == 1 and answer.generation == was == generation(router), answer
    assert router.Rollback(v1.RollbackRequest(changes=3)).changed
    assert document(router)[1] == before


def refuses(path):
    """Items with faults are counted and described; a strict load is rolled back."""
    _, router = connect(path)
    before = document(router)[1]
    code = grpc.StatusCode
    group = routes([via("10.0.0.2")], ip4(("20.0.0.0", 24), ("20.0.1.1", 24), ("20.0.2.0", 33), ("20.0.3.0", 24)))
    answer = router.Load(iter([begin(), group, routes([via("10.0.0.2", interface="nowhere")], ip4(*[(f"21.{n}.0.0", 16) for n in range(100)]))]))
    assert (answer.added, answer.refused, len(answer.refusals)) == (2, 102, 10), answer
    one, two, three = answer.refusals[:3]
    assert one.item == 1 and "did you mean 20.0.1.0/24" in one.reason, one
    assert two.item == 2 and "33" in two.reason, two
    assert three.item == 4 and "21.0.0.0/16" in three.name and "nowhere" in three.reason, three
    assert router.Rollback(v1.RollbackRequest()).changed
    said = refused(code.INVALID_ARGUMENT, router.Load, iter([begin(strict=True), routes([via("10.0.0.2")], ip4(*[(f"20.{n >> 8}.{n & 255}.0", 24) for n in range(50000)])), group]))
    assert "item 50001" in said and "host bits" in said, said
    for message in [
        routes([], ip4(("20.0.0.0", 24))),
        routes([via("10.0.0.2")], ip4(("20.0.0.0", 24)), withdraw=True),
        routes([via("10.0.0.2")], b"1234"),
        routes([v1.Path()], ip4(("20.0.0.0", 24))),
        routes([v1.Path(next_hop=b"123")], ip4(("20.0.0.0", 24))),
        routes([v1.Path(attached=v1.Path.Attached())], ip4(("20.0.0.0", 24))),
        routes([via("10.0.0.2"), via("10.0.0.2")], ip4(("20.0.0.0", 24))),
        routes([via("10.0.0.2", weight=256)], ip4(("20.0.0.0", 24))),
        begin(),
        v1.LoadRequest(),
    ]:
        # What came before is rolled back.
        refused(code.INVALID_ARGUMENT, router.Load, iter([begin(), routes([via("10.0.0.2")], ip4(("20.9.0.0", 16))), message]))
    refused(code.INVALID_ARGUMENT, router.Load, iter([]))
    refused(code.NOT_FOUND, router.Load, iter([begin(table=77)]))
    assert document(router)[1] == before


def loads(path):
    """While one client loads very many routes, another is answered soon; a client that leaves takes its routes with it."""
    _, router = connect(path)
    _, other = connect(path)
    before = document(router)[1]
    done = threading.Event()
    longest = [0]

    def ask():
        while not done.is_set():
            begun = time.monotonic()
            other.About(v1.AboutRequest())
            longest[0] = max(longest[0], time.monotonic() - begun)
            time.sleep(0.001)

    asker = threading.Thread(target=ask)
    asker.start()
    groups = [routes([via("10.0.0.2")], b"".join(struct.pack(">IB", (20 << 24) + (n << 8), 24) for n in range(begin, begin + 10000))) for begin in range(0, 100000, 10000)]
    answer = router.Load(iter([begin(), *groups]))
    done.set()
    asker.join()
    assert answer.added == 100000, answer
    print(f"longest answer {longest[0] * 1000:.1f} ms", file=sys.stderr)
    assert router.Rollback(v1.RollbackRequest()).changed
    # Of two loads that replace all routes of a VRF, the later one waits for the other.
    calls = [side.Load.future(iter([begin(replace=True), *part])) for side, part in ((router, groups[:4]), (other, groups[2:6]))]
    assert sorted(call.result().added for call in calls) == [20000, 40000], [call.result() for call in calls]
    assert len(show(other, "ip fib")) > 40000
    assert router.Rollback(v1.RollbackRequest(changes=2)).changed
    # A load that waits for its client does not keep the rollback of an unconfirmed configuration waiting.
    patch = {"interfaces": {"host-eth0": {"mtu": 1300}}}
    assert apply(router, patch, kind=KIND.MERGE_PATCH, confirm_seconds=1).changed.changed

    def silent():
        yield begin()
        yield groups[0]
        time.sleep(8)

    begun = time.monotonic()
    assert "not confirmed" in refused(grpc.StatusCode.FAILED_PRECONDITION, router.Load, silent())
    assert time.monotonic() - begun < 5
    until = time.monotonic() + 20
    while unchanging(other) != before:
        assert time.monotonic() < until, "the configuration was not rolled back"
        time.sleep(0.1)
    # A client that cancels in the middle.
    arrived = threading.Event()

    def half():
        yield begin()
        yield from groups
        arrived.set()
        time.sleep(60)

    call = router.Load.future(half())
    assert arrived.wait(30)
    while len(show(other, "ip fib")) < 50000:
        time.sleep(0.1)
    # A change of the whole configuration waits, or is refused.
    call.cancel()
    until = time.monotonic() + 60
    while unchanging(other) != before:
        assert time.monotonic() < until, "the routes are still there"
        time.sleep(0.1)


def half(path):
    """Sends half of a load, and is gone."""
    _, router = connect(path)

    def parts():
        yield begin()
        yield routes([via("10.0.0.2")], b"".join(struct.pack(">IB", (30 << 24) + (n << 8), 24) for n in range(30000)))
        time.sleep(2)
        os._exit(0)

    router.Load(parts())


def leaves(path):
    """A client that is gone in the middle of a load, with its whole connection, takes its routes with it."""
    _, router = connect(path)
    client = subprocess.Popen([sys.executable, __file__, sys.argv[1], path, "half"])
    until = time.monotonic() + 30
    while len(show(router, "ip fib")) < 30000:
        assert time.monotonic() < until, "the routes are not there"
        time.sleep(0.05)
    assert client.wait() == 0
    while any(prefix.startswith("30.") for prefix in configured(router)):
        assert time.monotonic() < until, "the routes are still there"
        time.sleep(0.1)


def measure(path):
    """Prints how many million routes per second are loaded, in order or at random, and the longest wait of another client for an answer, in
    milliseconds. Arguments: the number of routes, and "ordered" or "random"."""
    number, order = int(sys.argv[4]), sys.argv[5]
    _, router = connect(path)
    _, other = connect(path)
    networks = list(range(number))
    if order == "random":
        random.Random(1).shuffle(networks)
    group = 50000
    # Networks of 256 addresses, from 16.0.0.0 on.
    groups = [
        routes([via("10.0.0.2")], b"".join(struct.pack(">IB", (16 << 24) + (n << 8), 24) for n in networks[first:first + group]))
        for first in range(0, number, group)
    ]
    done = threading.Event()
    longest = [0]

    def ask():
        while not done.wait(0.002):
            begun = time.monotonic()
            other.About(v1.AboutRequest())
            longest[0] = max(longest[0], time.monotonic() - begun)

    asker = threading.Thread(target=ask)
    asker.start()
    begun = time.monotonic()
    answer = router.Load(iter([begin(), *groups]))
    took = time.monotonic() - begun
    done.set()
    asker.join()
    assert answer.added == number, answer
    print(number / took / 1e6, longest[0] * 1e3)


if __name__ == "__main__":
    globals()[sys.argv[3]](sys.argv[2])
    print("done")
