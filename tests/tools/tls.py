"""A client of the native API over TLS. Usage: tls.py DIRECTORY PORT TASK; prints "done" after the task."""
import collections
import http.client
import json
import os
import socket
import ssl
import sys
import threading
import time


class Router(http.client.HTTPSConnection):
    """A connection with the certificate of a client; without one if the name is None."""

    def __init__(self, directory, port, name):
        context = ssl.create_default_context(cafile=os.path.join(directory, "of-routers.pem"))
        if name:
            context.load_cert_chain(os.path.join(directory, f"{name}.pem"), os.path.join(directory, f"{name}.key"))
        super().__init__("localhost", port, timeout=20, context=context)

    def ask(self, method, path, body=None):
        """Returns status and body of the answer."""
        self.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
        answer = self.getresponse()
        return answer.status, json.loads(answer.read())

    def run(self, *commands):
        """Runs commands. Returns for each whether it succeeded."""
        status, said = self.ask("POST", "/v1/commands", {"commands": commands})
        assert status == 200, said
        return ["error" not in result for result in said["results"]]


def roles(directory, port):
    """Each role may do what it may."""
    alice, olga, victor = (Router(directory, port, name) for name in ("alice", "olga", "victor"))
    assert alice.run("create loopback interface", "clear interfaces") == [True, True]
    assert olga.run("clear interfaces", "create loopback interface") == [True, False]
    assert victor.run("show version", "clear interfaces") == [True, False]
    for router in (olga, victor):
        status, refused = router.ask("PUT", "/v1/config", {})
        assert status == 403, refused
    clients = [(one["role"], one["user"]) for one in alice.ask("GET", "/v1/show/cli-sessions")[1]]
    assert {("admin", "alice"), ("operator", "olga"), ("viewer", "victor")} <= set(clients), clients


def refused(directory, port, name):
    """True if a client gets no answer."""
    try:
        Router(directory, port, name).ask("GET", "/v1")
    except (ssl.SSLError, OSError, http.client.HTTPException):
        return True
    return False


def strangers(directory, port):
    """Clients that have no certificate, or a foreign one, or that speak no TLS, or say nothing."""
    assert refused(directory, port, None) and refused(directory, port, "mallory") and refused(directory, port, "router")
    # Some of the places of this address are taken by clients that say nothing, but not all.
    silent = [socket.create_connection(("localhost", port)) for _ in range(10)]
    for garbage in (b"GET /v1 HTTP/1.1\r\n\r\n", os.urandom(1000), b"\x16\x03\x01\xff\xff" + bytes(2000)):
        one = socket.create_connection(("localhost", port))
        one.settimeout(20)
        one.sendall(garbage)
        while True:
            try:
                if not one.recv(4096):
                    break
            except ConnectionResetError:
                break
    begun = time.monotonic()
    assert Router(directory, port, "alice").ask("GET", "/v1")[0] == 200
    assert time.monotonic() - begun < 4, "silent clients delay nobody"
    # They are disconnected.
    for one in silent:
        one.settimeout(20)
        assert one.recv(1) == b""
    # Silent clients of other addresses take all places of handshakes, and one address connects again and again.
    far = [socket.create_connection(("127.0.0.1", port), source_address=(f"127.0.1.{n % 6}", 0)) for n in range(96)]
    busy = [socket.create_connection(("127.0.0.1", port), source_address=("127.0.1.9", 0)) for _ in range(400)]
    for _ in range(3):
        begun = time.monotonic()
        assert Router(directory, port, "alice").ask("GET", "/v1")[0] == 200
        assert time.monotonic() - begun < 1.5, "clients of other addresses delay nobody"
    del far, busy
    # A flood from a thousand addresses, of clients that say nothing, and of those that begin a handshake. A client whose address is known
    # comes in; among those that say nothing, an unknown one, too.
    for greeting, addresses in ((b"", [None, "127.9.9.9"]), (hello(), [None])):
        flood = Flood(port, greeting)
        flood.start()
        while flood.connections < 1000:
            time.sleep(0.01)
        for address in addresses:
            for _ in range(3):
                begun, alice = time.monotonic(), Router(directory, port, "alice")
                alice.source_address = address and (address, 0)
                assert alice.ask("GET", "/v1")[0] == 200
                took = time.monotonic() - begun
                assert took < 3, f"a flood of {greeting[:1]} keeps {address} waiting for {took:.1f} s"
        flood.ends = True
        flood.join()


def hello():
    """Returns the first message of a client."""
    there = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), there, server_hostname="localhost")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return there.read()


class Flood(threading.Thread):
    """Connects again and again from a thousand addresses, and sends the greeting."""

    def __init__(self, port, greeting):
        super().__init__()
        self.port, self.greeting, self.connections, self.ends = port, greeting, 0, False

    def run(self):
        held = collections.deque(maxlen=600)
        while not self.ends:
            n = self.connections % 1000
            try:
                one = socket.create_connection(("127.0.0.1", self.port), 5, (f"127.2.{n >> 8}.{n & 255}", 0))
                one.sendall(self.greeting)
                held.append(one)
            except OSError:
                pass
            self.connections += 1


def grpc(directory, port):
    """A call over TLS."""
    # The folder of this file has a file of the same name as the library.
    sys.path.remove(os.path.dirname(os.path.abspath(__file__)))
    import grpc as library

    read = lambda name: open(os.path.join(directory, name), "rb").read()
    credentials = library.ssl_channel_credentials(read("of-routers.pem"), read("olga.key"), read("olga.pem"))
    with library.secure_channel(f"localhost:{port}", credentials) as channel:
        about = channel.unary_unary("/volley.v1.Volley/About")
        assert about(b"", timeout=20)
        try:
            channel.stream_unary("/volley.v1.Volley/Apply")(iter([]), timeout=20)
            raise AssertionError("an operator may not apply")
        except library.RpcError as error:
            assert error.code() == library.StatusCode.PERMISSION_DENIED, error


if __name__ == "__main__":
    globals()[sys.argv[3]](sys.argv[1], int(sys.argv[2]))
    print("done")
