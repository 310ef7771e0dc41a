"""Relays frames between two interfaces with a fixed delay: relay.py LEFT RIGHT SOCKET MILLISECONDS DROP SWAP.

From LEFT to RIGHT it drops every DROPth frame and swaps every SWAPth frame with the one before it.

`relay.py SOCKET` prints the counters of a running relay, as soon as no frame is delayed: frames received on LEFT, sent on
RIGHT, dropped, and swapped.
"""

import collections
import select
import socket
import sys
import time

ALL = 3  # ETH_P_ALL
FORCE = 33  # SO_RCVBUFFORCE
ROOM = 4 << 20


def port(name):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        s.setsockopt(socket.SOL_SOCKET, FORCE, ROOM)
    except PermissionError:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOM)
    s.bind((name, ALL))
    return s


def frames(s):
    """Yields all received frames that wait to be read."""
    while True:
        try:
            frame, (_, _, way, *_) = s.recvfrom(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if way != socket.PACKET_OUTGOING:
            yield frame


if len(sys.argv) == 2:
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(sys.argv[1])
        sys.exit(print(s.makefile().read(), end=""))

left, right = port(sys.argv[1]), port(sys.argv[2])
delay, drop, swap = float(sys.argv[4]) / 1000, int(sys.argv[5]), int(sys.argv[6])
asked = socket.socket(socket.AF_UNIX)
asked.bind(sys.argv[3])
asked.listen()
there, back = collections.deque(), collections.deque()
count = {"came": 0, "left": 0, "dropped": 0, "swapped": 0}
print("it relays", flush=True)
while True:
    due = [way[0][0] for way in (there, back) if way]
    wait = max(0, min(due) - time.monotonic()) if due else None
    ready, _, _ = select.select([left, right, asked], [], [], wait)
    for frame in frames(left):
        at = time.monotonic() + delay
        count["came"] += 1
        if count["came"] % drop == 0:
            count["dropped"] += 1
        elif count["came"] % swap == 0 and there:
            count["swapped"] += 1
            _, before = there.pop()
            # Both get at least the full delay.
            there.extend([(at, frame), (at, before)])
        else:
            there.append((at, frame))
    back.extend((time.monotonic() + delay, frame) for frame in frames(right))
    now = time.monotonic()
    for way, to in (there, right), (back, left):
        while way and way[0][0] <= now:
            to.send(way.popleft()[1])
            count["left"] += way is there
    if asked in ready and not (there or back):
        with asked.accept()[0] as who:
            who.sendall("".join(f"{name}: {n}\n" for name, n in count.items()).encode())
