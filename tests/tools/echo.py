#!/usr/bin/env python3
"""Sends one echo request from raw bytes, over IPv4 or IPv6, and prints the result.

echo.py SRC DST [--size N] [--options HEX] [--piece N] [--order forward|backward|shuffled|twice|overlap|lost] [--wait S]

--piece cuts the packet into fragments of N bytes. Prints one line: "reply SIZE ok|wrong [options HEX]" for an echo
reply, "error TYPE CODE WORD" for an ICMP error about the request, or "nothing".
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


def header4(args, at, more, length):
    words = 5 + len(args.options) // 4
    source, target = (socket.inet_aton(a) for a in (args.src, args.dst))
    fragment = at // 8 | (0x2000 if more else 0)
    return (
        struct.pack("!BBHHHBBH4s4s", 0x40 | words, 0, 4 * words + length, IDENT, fragment, 64, 1, 0, source, target)
        + args.options
    )


def header6(args, at, more, length):
    """Returns an IPv6 header with a fragment header, even for a whole packet."""
    return (
        struct.pack("!IHBB", 6 << 28, 8 + length, 44, 64)
        + addresses6(args.src, args.dst)
        + struct.pack("!BBHI", 58, 0, at | more, IDENT)
    )


def addresses6(*both):
    return b"".join(socket.inet_pton(socket.AF_INET6, a) for a in both)


def pseudo6(source, target, length):
    return addresses6(source, target) + struct.pack("!II", length, 58)


def pieces(payload, size, order):
    """Returns (offset, bytes, more) of each fragment, in the order of sending."""
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

    six = ":" in args.dst
    family, icmp = (socket.AF_INET6, socket.IPPROTO_ICMPV6) if six else (socket.AF_INET, socket.IPPROTO_ICMP)
    request, reply, errors = (128, 129, range(1, 5)) if six else (8, 0, (3, 5, 11, 12))
    receiver = socket.socket(family, socket.SOCK_RAW, icmp)
    sender = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW)
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
    data = random.randbytes(args.size)
    message = struct.pack("!BBHHH", request, 0, 0, IDENT, 1) + data
    pseudo = pseudo6(args.src, args.dst, len(message)) if six else b""
    message = message[:2] + struct.pack("!H", checksum(pseudo + message)) + message[4:]
    for at, part, more in pieces(message, args.piece, args.order):
        header = (header6 if six else header4)(args, at, more, len(part))
        sender.sendto(header + part, (args.dst, 0))

    end = time.monotonic() + args.wait
    while (left := end - time.monotonic()) > 0:
        if not select.select([receiver], [], [], left)[0]:
            continue
        packet = receiver.recv(1 << 17)
        start = 0 if six else (packet[0] & 15) * 4
        options, message = packet[20:start], packet[start:]
        kind, code, _, word = struct.unpack("!BBHI", message[:8])
        if kind == reply and word >> 16 == IDENT:
            pseudo = pseudo6(args.dst, args.src, len(message)) if six else b""
            same = message[8:] == data and checksum(pseudo + message) == 0
            print("reply", len(message) - 8, "ok" if same else "wrong", *(["options", options.hex()] if options else []))
            return
        if kind in errors and (message[54:56] if six else message[12:14]) == struct.pack("!H", IDENT):
            print("error", kind, code, word)
            return
    print("nothing")


main()
