"""Sends frames of many kinds from one Ethernet address: mixed.py INTERFACE SOURCE SEED COUNT.

The same seed makes the same frames.
"""

import random
import socket
import struct
import sys

interface, source, seed, count = sys.argv[1], bytes.fromhex(sys.argv[2].replace(":", "")), int(sys.argv[3]), int(sys.argv[4])
rng = random.Random(seed)
sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sender.bind((interface, 0))


def ip4():
    host = lambda: bytes([10, 0, rng.randrange(3), rng.randrange(1, 4)])
    protocol = rng.choice([1, 6, 17, 17, 200])
    port = lambda: rng.choice([53, 80, 443, rng.randrange(65536)])
    body = struct.pack("!HH", port(), port()) + rng.randbytes(rng.choice([8, 16, 40, 400, 1400]))
    if protocol == 1:
        body = bytes([rng.choice([0, 3, 8]), 0]) + body
    options = rng.randbytes(4 * rng.choice([0, 0, 0, 2]))
    first = 0x45 + len(options) // 4
    fragment = rng.choice([0, 0, 0x2000, 7])
    header = struct.pack("!BBHHHBBH", first, 0, 20 + len(options) + len(body), rng.randrange(65536), fragment, 64, protocol, 0)
    return 0x0800, header + host() + host() + options + body


def arp():
    return 0x0806, struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + source + bytes([10, 0, 0, 9]) + bytes(6) + bytes([10, 0, 0, 1])


def ip6():
    body = struct.pack("!HHHH", 1000, 53, 20, 0) + rng.randbytes(12)
    return 0x86DD, struct.pack("!IHBB", 6 << 28, len(body), 17, 64) + rng.randbytes(32) + body


def tagged():
    kind, body = rng.choice([ip4, ip6])()
    return 0x8100, struct.pack("!HH", rng.choice([5, 100]), kind) + body


for _ in range(count):
    kind, body = rng.choice([ip4, ip4, ip4, arp, ip6, tagged])()
    to = rng.choice([b"\xff" * 6, bytes([2, 0, 0, 0, 0, 1]), bytes([1, 0, 0x5E, 0, 0, 5])])
    sender.send(to + source + struct.pack("!H", kind) + body)
