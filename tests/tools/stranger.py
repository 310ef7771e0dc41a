"""Attacks the router's sockets: stranger.py ATTACK SOCKET [ARGUMENT...]. It has its own implementation of memif 2.0.

"Until stopped" means until SIGTERM.

hang SOCKET KIND COUNT PID passes files whose close takes a minute or hangs to the router with this PID; prints "refused",
                          "passed", or "cannot" if such files cannot be made; releases them when stopped
mute [OPERATION]          serves a file on which READ, or this operation (LOOKUP, or each WRITE but the first), hangs until
                          stopped; prints its name, or "cannot", and "somebody waits" once a process hangs
slow SECONDS              serves a file without end until stopped; each read takes SECONDS and gets 64 bytes; prints its name, or
                          "cannot"
silent SOCKET COUNT       connects and sends nothing; connects again after each disconnect, until stopped
unread SOCKET COUNT UID LINE  connects COUNT clients of this user, runs LINE and reads nothing, until stopped
rubbish SOCKET ID RINGS   connects and fills all rings with descriptors of invalid packets, again and again, until stopped;
                          then prints how often it was disconnected, and the last reason
holes SOCKET ID           connects, sends packets, and tries to punch holes into its memory meanwhile, until stopped; then
                          prints the number of holes, and whether it is still connected
held SOCKET ID STAYS      connects with event descriptors whose close hangs until stopped; disconnects at once, or stays
                          connected (STAYS 1); prints "held", or "cannot" if the kernel does not allow this
rewrite SOCKET ID SECONDS writes random descriptors and indices into its rings for SECONDS, while the router reads them
lie SOCKET ID COUNT       connects COUNT times, each time with other invalid messages in the handshake
sparse SOCKET ID MIB      connects with memory without pages; stays connected, or prints why it was refused
splice SOCKET SECONDS     serves clients for SECONDS and keeps the pages of their memory in sockets, until stopped; prints the
                          number of connections after SECONDS
punch SOCKET SECONDS      the same, but removes the pages from the memory before it accepts the connection
serve SOCKET SECONDS      serves clients for SECONDS with invalid messages
"""

import array
import ctypes
import errno
import fcntl
import mmap
import os
import random
import select
import signal
import socket
import struct
import sys
import tempfile
import threading
import time

# Readable after SIGTERM.
STOP, wake = os.pipe()
os.set_blocking(wake, False)
signal.set_wakeup_fd(wake)
signal.signal(signal.SIGTERM, lambda *_: None)

ACK, HELLO, INIT, ADD_REGION, ADD_RING, CONNECT, CONNECTED, DISCONNECT = range(1, 9)
SHRINK = 2  # F_SEAL_SHRINK
COOKIE = 0x3E31F20
LOG2 = 14


def message(kind, *parts):
    return b"".join([struct.pack("<H", kind), *parts]).ljust(128, b"\0")


def init(interface, secret=b""):
    return message(INIT, struct.pack("<HIB24s32s", 0x200, interface, 0, secret, "stranger\x1b\u202e".encode()))


def add_region(index, size):
    return message(ADD_REGION, struct.pack("<HQ", index, size))


def add_ring(to_server, index, offset, log2=LOG2, region=0, private=0):
    return message(ADD_RING, struct.pack("<HHHIBH", to_server, index, region, offset, log2, private))


def passed(s, data, *files):
    s.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else [])


def connected(path, kind=socket.SOCK_SEQPACKET):
    s = socket.socket(socket.AF_UNIX, kind)
    # Waits if the listener's backlog is full.
    s.connect(path)
    s.settimeout(10)
    return s


def slow_to_close():
    """Returns a socket whose last close waits until everything is sent, and its other end, which reads nothing."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    s = socket.create_connection(listener.getsockname())
    reader, _ = listener.accept()
    s.setblocking(False)
    try:
        while True:
            s.send(bytes(65536))
    except BlockingIOError:
        pass
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60))
    return s, reader


class Mute(threading.Thread):
    """A FUSE file system with one file. Its server does not answer some operations until `let_go`."""

    INIT, LOOKUP, GETATTR, SETATTR, STATFS, OPEN, READ, WRITE, RELEASE, FLUSH = 26, 1, 3, 4, 17, 14, 15, 16, 18, 25
    CREATE, UNLINK = 35, 10
    # INTERRUPT, FORGET, BATCH_FORGET need no reply.
    TOLD = 36, 2, 42

    def __init__(self, *unanswered, pace=0):
        super().__init__(daemon=True)
        self.pace = pace
        libc = ctypes.CDLL(None, use_errno=True)
        self.unanswered, self.held, self.directory = unanswered, [], tempfile.mkdtemp()
        # A file to write is empty; one without end is large.
        self.is_written = self.WRITE in unanswered
        self.size = 0 if self.is_written else 1 << 22 if pace else 4096
        self.begun, self.is_gone = False, False
        self.device = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self.device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
        # In a mount namespace of its own (CLONE_NEWNS, MS_REC | MS_PRIVATE), so that no mount remains.
        if (
            libc.unshare(0x20000)
            or libc.mount(b"none", b"/", None, 1 << 14 | 1 << 18, None)
            or libc.mount(b"mute", self.directory.encode(), b"fuse", 0, options.encode())
        ):
            raise OSError(ctypes.get_errno(), "mounting a FUSE file system")
        self.start()
        self.path = os.path.join(self.directory, "file")

    def reply(self, unique, body=b"", error=0):
        os.write(self.device, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)

    def run(self):
        attributes = lambda node: struct.pack("<6Q10I", node, self.size, 8, *[0] * 6, 0o40755 if node == 1 else 0o100644, 1, *[0] * 3, 4096, 0)
        while True:
            request = os.read(self.device, 1 << 20)
            _, kind, unique, node = struct.unpack_from("<IIQQ", request)
            if kind == self.WRITE and not self.begun:
                self.begun = True
                self.reply(unique, struct.pack("<II", len(request) - 80, 0))
            elif kind in self.unanswered:
                self.held.append((unique, errno.EIO if kind in (self.LOOKUP, self.WRITE) else 0))
            elif kind == self.INIT:
                self.reply(unique, struct.pack("<IIIIHHII", 7, 31, 65536, 0, 16, 12, 65536, 1) + bytes(32))
            elif kind == self.LOOKUP and self.is_gone:
                self.reply(unique, error=errno.ENOENT)
            elif kind == self.LOOKUP:
                self.reply(unique, struct.pack("<4QII", 2, 0, 3600, 3600, 0, 0) + attributes(2))
            elif kind == self.UNLINK and self.is_written:
                self.is_gone = True
                self.reply(unique)
            elif kind == self.CREATE and self.is_written:
                self.is_gone = False
                entry = struct.pack("<4QII", 2, 0, 3600, 3600, 0, 0) + attributes(2)
                self.reply(unique, entry + struct.pack("<QII", 1, 0, 0))
            elif kind in (self.GETATTR, self.SETATTR):
                self.reply(unique, struct.pack("<QII", 3600, 0, 0) + attributes(node))
            elif kind == self.STATFS:
                self.reply(unique, bytes(80))
            elif kind == self.OPEN:
                # FOPEN_DIRECT_IO: the kernel passes each read on.
                self.reply(unique, struct.pack("<QII", 1, 1 if self.pace else 0, 0))
            elif kind == self.READ and self.pace:
                time.sleep(self.pace)
                self.reply(unique, bytes(64))
            elif kind in (self.RELEASE, self.FLUSH, self.READ):
                self.reply(unique)
            elif kind not in self.TOLD:
                self.reply(unique, error=errno.ENOSYS)

    def let_go(self):
        self.unanswered = ()
        for unique, error in self.held:
            self.reply(unique, error=error)
        time.sleep(0.2)
        # Removes the empty directory of the mount.
        ctypes.CDLL(None).umount2(self.directory.encode(), 2)
        os.rmdir(self.directory)


def mute(operation="READ"):
    try:
        files = Mute(getattr(Mute, operation))
    except OSError:
        return print("cannot")
    print(f"/proc/{os.getpid()}/root{files.path}", flush=True)
    while not files.held and goes_on(wait=0.01):
        pass
    print("somebody waits", flush=True)
    goes_on()
    files.let_go()


def slow(seconds):
    try:
        files = Mute(pace=float(seconds))
    except OSError:
        return print("cannot")
    print(f"/proc/{os.getpid()}/root{files.path}", flush=True)
    goes_on()
    files.let_go()


def goes_on(*watched, wait=None):
    """Waits for one of these files, for at most `wait` seconds. Returns false after SIGTERM."""
    return STOP not in select.select([STOP, *watched], [], [], wait)[0]


def hang(path, kind, count, router):
    kind, readers, outcome, mute = getattr(socket, kind), [], "passed", None
    if kind == socket.SOCK_SEQPACKET:
        try:
            mute = Mute(Mute.FLUSH)
        except OSError:
            return print("cannot")
    clients = [connected(path, kind) for _ in range(int(count))]
    # The last close of a file hangs. So the router must not read before it is the only process that has the files.
    os.kill(int(router), signal.SIGSTOP)
    try:
        for n, c in enumerate(clients):
            if mute:
                # This process's own close must not hang.
                mute.unanswered = ()
                file = os.open(mute.path, os.O_RDONLY)
                passed(c, add_region(0, 4096) if n % 2 else b"show version\n", file)
                os.close(file)
                mute.unanswered = (Mute.FLUSH,)
                continue
            s, reader = slow_to_close()
            try:
                passed(c, b"show version\n", s.fileno())
            except PermissionError:
                outcome = "refused"
                reader.close()
            s.close()
            readers.append(reader)
    finally:
        os.kill(int(router), signal.SIGCONT)
    for c in clients[::2]:
        c.close()
    print(outcome, flush=True)
    goes_on()
    if mute:
        mute.let_go()


def silent(path, count):
    clients = [connected(path) for _ in range(int(count))]
    print("silent", flush=True)
    while goes_on(*clients):
        for i, c in enumerate(clients):
            while select.select([c], [], [], 0)[0]:
                try:
                    if not c.recv(128):
                        clients[i] = c = connected(path)
                except OSError:
                    clients[i] = c = connected(path)


def unread(path, count, user, *line):
    os.setgroups([])
    os.setuid(int(user))
    clients = [connected(path, socket.SOCK_STREAM) for _ in range(int(count))]
    request = '{"run":{"line":"%s"}}\n' % " ".join(line)
    for c in clients:
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.sendall(request.encode())
    print("unread", flush=True)
    goes_on()


class Client:
    """A client with rings of 16,384 descriptors, and `room` bytes for packets behind them."""

    def __init__(self, path, interface, rings, secret=b"", room=1 << 20):
        self.rings, self.step = rings, 128 + 16 * (1 << LOG2)
        self.size = (2 * rings * self.step + 4095) // 4096 * 4096 + room
        self.file = os.memfd_create("stranger", os.MFD_ALLOW_SEALING)
        os.ftruncate(self.file, self.size)
        fcntl.fcntl(self.file, 1033, SHRINK)
        self.memory = mmap.mmap(self.file, self.size)
        # 16-bit words, which are written atomically.
        self.words = memoryview(self.memory).cast("H")
        for n in range(2 * rings):
            struct.pack_into("<I", self.memory, n * self.step, COOKIE)
        self.bells = [os.eventfd(0) for _ in range(2 * rings)]
        self.socket = connected(path)
        try:
            self.greet(interface, secret)
        except (ConnectionError, OSError):
            self.close()
            raise

    def greet(self, interface, secret):
        self.ask(None, HELLO)
        self.ask(init(interface, secret), ACK)
        self.ask(add_region(0, self.size), ACK, self.file)
        for n in range(self.rings):
            self.ask(add_ring(1, n, n * self.step), ACK, self.bells[n])
            self.ask(add_ring(0, n, (self.rings + n) * self.step), ACK, self.bells[self.rings + n])
        self.ask(message(CONNECT, b"stranger"), CONNECTED)

    def ask(self, data, answer, *files):
        if data:
            passed(self.socket, data, *files)
        got = self.socket.recv(128)
        if not got or got[0] != answer:
            raise ConnectionError(reason(got))

    def close(self):
        self.socket.close()
        self.words.release()
        self.memory.close()
        for f in [self.file, *self.bells]:
            os.close(f)

    def ended(self):
        """Returns the reason of the server's disconnect, or nothing."""
        if select.select([self.socket], [], [], 0)[0]:
            try:
                return reason(self.socket.recv(128))
            except ConnectionResetError:
                return "reset"
        return None


def reason(got):
    if not got:
        return "closed"
    return got[6:].split(b"\0")[0].decode() if got[0] == DISCONNECT else f"message {got[0]}"


def rubbish(path, interface, rings):
    ends, last = 0, ""
    # A long part with the flag for more parts, then an empty part.
    pair = struct.pack("<HHIII", 1, 0, 65535, 0, 0) + struct.pack("<HHIII", 0, 0, 0, 0, 0)
    full = pair * (1 << (LOG2 - 1))
    print("begins", flush=True)
    while goes_on(wait=0):
        try:
            c = Client(path, int(interface), int(rings))
        except (ConnectionError, OSError) as e:
            last = str(e) or last
            time.sleep(0.01)
            continue
        why = None
        while why is None and goes_on(wait=0):
            for n in range(c.rings):
                tail, head = c.words[(n * c.step + 64) // 2], c.words[(n * c.step + 6) // 2]
                # The router clears flags, so the ring is rewritten as soon as half of it was read.
                if (head - tail) & 0xFFFF <= 1 << (LOG2 - 1):
                    c.memory[n * c.step + 128:(n + 1) * c.step] = full
                    c.words[(n * c.step + 6) // 2] = (tail + (1 << LOG2)) & 0xFFFE
            why = c.ended()
        if why is not None:
            ends, last = ends + 1, why
        c.close()
    print(f"{ends} times: {last}", flush=True)


def holes(path, interface):
    libc, room = ctypes.CDLL(None), 64 << 20
    # 3: FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE.
    punch = lambda c, first: libc.fallocate(c.file, 3, ctypes.c_long(first), ctypes.c_long(room)) == 0
    c = Client(path, int(interface), 1, room=room)
    first, punched, tried = c.size - room, 0, 0
    for n in range(1 << LOG2):
        struct.pack_into("<HHIII", c.memory, 128 + 16 * n, 0, 0, 60, first + n * 4096, 0)
    print("begins", flush=True)
    while goes_on(wait=0.001):
        c.words[3] = (c.words[32] + (1 << LOG2) - 1) & 0xFFFF
        punched, tried = punched + punch(c, first), tried + 1
    print(f"{punched} of {tried} holes; {c.ended() or 'connected'}", flush=True)
    c.close()


def never_there():
    """Returns the address of a page whose fault is never resolved (userfaultfd(2)), or nothing if this is not allowed."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    faults = libc.syscall(323, os.O_CLOEXEC)
    if faults < 0:
        return None
    page = libc.mmap(None, ctypes.c_size_t(4096), mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    fcntl.ioctl(faults, 0xC018AA3F, struct.pack("QQQ", 0xAA, 0, 0))
    fcntl.ioctl(faults, 0xC020AA00, struct.pack("QQQQ", page, 4096, 1, 0))
    return page


def held(path, interface, stays):
    page = never_there()
    if page is None:
        print("cannot", flush=True)
        return
    c = Client(path, int(interface), 1)
    watch = select.epoll()
    for bell in c.bells:
        os.eventfd_write(bell, 1)
        watch.register(bell, select.EPOLLIN)
    # epoll_wait holds its lock while the kernel writes the events. The write to the page never completes.
    libc = ctypes.CDLL(None)
    waits = lambda: libc.epoll_wait(watch.fileno(), ctypes.c_void_p(page), 1, -1)
    threading.Thread(target=waits, daemon=True).start()
    time.sleep(0.2)
    # The router does the last close.
    for bell in c.bells:
        threading.Thread(target=os.close, args=(bell,), daemon=True).start()
    if stays == "0":
        # The router waits for the memory first.
        c.words.release()
        c.memory.close()
        os.close(c.file)
        c.socket.close()
    print("held", flush=True)
    goes_on()
    os._exit(0)


def rewrite(path, interface, seconds):
    end, r, n = time.monotonic() + float(seconds), random.Random(1), 0
    while time.monotonic() < end:
        try:
            c = Client(path, int(interface), 2)
        except (ConnectionError, OSError):
            time.sleep(0.01)
            continue
        while time.monotonic() < end and c.ended() is None:
            ring = r.randrange(4) * c.step
            for _ in range(200):
                # Flags, region, length and offset of one of the first descriptors. Most are valid.
                length = r.choice([60, 64, 1500, 2048, 0, 65535, r.randrange(1 << 32)])
                region = r.choice([0, 0, 0, 0, 1, 65535])
                offset = r.choice([c.size - (1 << 20), c.size - 60, r.randrange(1 << 32)])
                at = ring + 128 + 16 * r.randrange(256)
                struct.pack_into("<HHIII", c.memory, at, r.choice([0, 0, 0, 1]), region, length, offset, 0)
            # The index of this side, valid most of the time.
            tail = c.words[(ring + 64) // 2]
            ahead = r.randrange(1 << 16) if r.random() < 0.001 else r.randrange(256)
            c.words[(ring + 6) // 2] = (tail + ahead) & 0xFFFF
            n += 1
        c.close()
    print(n, flush=True)


def lie(path, interface, count):
    interface, r, told = int(interface), random.Random(2), 0
    memory = os.memfd_create("lie", os.MFD_ALLOW_SEALING)
    os.ftruncate(memory, 1 << 20)
    null, bell = os.open("/dev/null", os.O_RDWR), os.eventfd(0)
    for _ in range(int(count)):
        s = connected(path)
        steps = [
            lambda: passed(s, init(r.choice([interface, interface, 7, 2**32 - 1]), r.randbytes(r.choice([0, 24])))),
            lambda: passed(s, add_region(r.randrange(3), r.choice([0, 4096, 1 << 20, 1 << 21, 2**64 - 1])),
                           *[r.choice([memory, null, bell]) for _ in range(r.choice([0, 1, 1, 1, 2, 100]))]),
            lambda: passed(s, add_ring(r.randrange(2), r.randrange(3), r.randrange(1 << 20), r.randrange(20),
                                       r.randrange(3), r.randrange(2)), *[r.choice([bell, null])] * r.randrange(3)),
            lambda: passed(s, message(CONNECT, r.randbytes(32))),
            lambda: s.send(r.randbytes(r.choice([1, 64, 127, 128, 4096]))),
            lambda: passed(s, message(DISCONNECT, struct.pack("<I", 1), r.randbytes(96))),
        ]
        try:
            # Every connection starts with a valid INIT.
            passed(s, init(interface))
            for _ in range(r.randrange(8)):
                r.choice(steps)()
            told += 1
            if r.random() < 0.5:
                s.settimeout(0.02)
                s.recv(128)
        except OSError:
            pass
        s.close()
    print(told, flush=True)


def sparse(path, interface, mib):
    try:
        c = Client(path, int(interface), 1, room=int(mib) << 20)
    except (ConnectionError, OSError) as e:
        return print(e)
    print("connected", flush=True)
    goes_on(c.socket)


def kept_pages(memory, size):
    """Puts the pages of memory into sockets, and returns these."""
    at, kept = 0, []
    while at < size:
        a, b = socket.socketpair()
        a.setblocking(False)
        kept += [a, b]
        try:
            while at < size:
                at += os.sendfile(a.fileno(), memory, at, size - at)
        except BlockingIOError:
            pass
    return kept


def punch(path, seconds):
    splice(path, seconds, True)


def splice(path, seconds, punches=False):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(16)
    print("serves", flush=True)
    end, kept, count = time.monotonic() + float(seconds), [], 0
    while (left := end - time.monotonic()) > 0:
        if not select.select([listener], [], [], left)[0]:
            continue
        s, _ = listener.accept()
        s.settimeout(5)
        s.send(message(HELLO, struct.pack("<32sHHHHHB", b"stranger", 0x200, 0x200, 0, 0, 0, LOG2)))
        memory = None
        while memory is None or data[0] != CONNECT:
            data, files, _, _ = socket.recv_fds(s, 128, 4)
            if not data or data[0] == DISCONNECT:
                break
            if data[0] == ADD_REGION:
                memory = files.pop()
                size = os.fstat(memory).st_size
                # The client seals its memory as soon as it is connected: it can be mapped until then.
                pages = mmap.mmap(memory, size)
                if punches:
                    kept += kept_pages(memory, size)
                    libc = ctypes.CDLL(None, use_errno=True)
                    # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE.
                    if libc.fallocate(memory, 3, ctypes.c_long(0), ctypes.c_long(size)):
                        sys.exit(os.strerror(ctypes.get_errno()))
            for f in files:
                os.close(f)
            s.send(message(CONNECTED if data[0] == CONNECT else ACK, b"stranger"))
        if memory is None:
            continue
        count += 1
        if not punches:
            for at in range(0, size, 4096):
                pages[at + 64] = 1
            kept += kept_pages(memory, size)
        pages.close()
        # The client ends a connection whose memory has lost pages.
        while punches and s.recv(128):
            pass
        os.close(memory)
        s.close()
    print(count, flush=True)
    goes_on()


def serve(path, seconds):
    r, end, told = random.Random(3), time.monotonic() + float(seconds), 0
    if os.path.exists(path):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(16)
    null, bell = os.open("/dev/null", os.O_RDWR), os.eventfd(0)
    print("serves", flush=True)
    while (left := end - time.monotonic()) > 0:
        if not select.select([listener], [], [], left)[0]:
            continue
        s, _ = listener.accept()
        s.settimeout(0.3)
        told += 1
        try:
            bound = [r.choice([0, 1, 255, 65535]) for _ in range(3)]
            s.send(message(HELLO, struct.pack("<32sHHHHHB", b"liar", 0x200, 0x200, *bound, r.choice([0, 4, 10, 14, 255]))))
            for step in range(r.randrange(20)):
                s.recv(128)
                what = r.random()
                if what < 0.8:
                    s.send(message(ACK))
                elif what < 0.85:
                    passed(s, message(ACK), null, bell)
                elif what < 0.9:
                    s.send(r.randbytes(r.choice([1, 128, 500])))
                elif what < 0.95:
                    s.send(message(CONNECTED, b"liar"))
                else:
                    s.send(message(DISCONNECT, struct.pack("<I", 0), b"a lie"))
        except OSError:
            pass
        s.close()
    print(told, flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
