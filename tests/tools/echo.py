#!/usr/bin/env python3
"""Sends one echo request that is made by hand, and prints what comes of it.

echo.py SRC DST [--size N] [--options HEX] [--piece N] [--order forward|backward|shuffled|twice|overlap|lost] [--wait S]

--piece cuts the packet into fragments of so many bytes. Prints one line: "reply SIZE ok|wrong [options HEX]" for an echo
reply, "error TYPE CODE WORD" for a report about the request, or "nothing".
"""

import argparse
import random
import select
import socket
import struct
import time

IDENT = random.randrange(1, 65536)


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def header(args, options, fragment, length):
    words = 5 + len(options) // 4
    source, target = (socket.inet_aton(a) for a in (args.src, args.dst))
    return (
        struct.pack("!BBHHHBBH4s4s", 0x40 | words, 0, 4 * words + length, IDENT, fragment, 64, 1, 0, source, target)
        + options
    )


def pieces(payload, size, order):
    """(offset, bytes, more) of each fragment, in the order in which they are sent."""
    all_ = [(at, payload[at : at + size], at + size < len(payload)) for at in range(0, len(payload), size)]
    if order == "backward":
        all_.reverse()
    elif order == "shuffled":
        random.shuffle(all_)
    elif order == "twice":
        all_ = [piece for piece in all_[:-1] for _ in range(2)] + all_[-1:]
    elif order == "overlap":
        at, data, more = all_[1]
        all_[1] = (at - 8, payload[at - 8 : at] + data, more)
    elif order == "lost":
        del all_[1]
    return all_


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("src")
    parser.add_argument("dst")
    parser.add_argument("--size", type=int, default=56)
    parser.add_argument("--options", type=bytes.fromhex, default=b"")
    parser.add_argument("--piece", type=int, default=65528)
    parser.add_argument("--order", default="forward")
    parser.add_argument("--wait", type=float, default=2)
    args = parser.parse_args()

    receiver = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    sender = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
    data = random.randbytes(args.size)
    icmp = struct.pack("!BBHHH", 8, 0, 0, IDENT, 1) + data
    icmp = icmp[:2] + struct.pack("!H", checksum(icmp)) + icmp[4:]
    for at, part, more in pieces(icmp, args.piece, args.order):
        packet = header(args, args.options, at // 8 | (0x2000 if more else 0), len(part)) + part
        sender.sendto(packet, (args.dst, 0))

    end = time.monotonic() + args.wait
    while (left := end - time.monotonic()) > 0:
        if not select.select([receiver], [], [], left)[0]:
            continue
        packet = receiver.recv(65536)
        start = (packet[0] & 15) * 4
        options, message = packet[20:start], packet[start:]
        kind, code, _, word = struct.unpack("!BBHI", message[:8])
        if kind == 0 and word >> 16 == IDENT:
            same = message[8:] == data and checksum(message) == 0
            print("reply", len(message) - 8, "ok" if same else "wrong", *(["options", options.hex()] if options else []))
            return
        if kind in (3, 5, 11, 12) and struct.unpack("!H", message[12:14])[0] == IDENT:
            print("error", kind, code, word)
            return
    print("nothing")


main()
