#!/usr/bin/env python3
"""Sends frames and prints the results: frames.py FILE IN [OUT [--settle S]]

FILE has one frame a line, in hexadecimal digits. The frames leave by the interface IN.

Without OUT, all frames are sent in bursts, and the last line printed is their number.

With OUT, a good packet follows each frame, which a router forwards to OUT. The next frame is sent when the good packet
has arrived and nothing more arrives for S seconds. The good packet is the last line of FILE. For each frame that came
back at IN or arrived at OUT, a line "N in HEX" or "N out HEX" is printed, where N is the number of the sent frame.
"""

import argparse
import select
import socket
import time

SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23
PATIENCE = 2.0


def listen(name):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    s.bind((name, 3))
    return s


def burst(out, frames):
    for n, frame in enumerate(frames):
        out.send(frame)
        # A burst must fit into the router's ring.
        if n % 32 == 31:
            time.sleep(0.002)
    print(len(frames))


def one_by_one(near, far, frames, good, settle):
    ends = {near: "in", far: "out"}
    for n, frame in enumerate(frames):
        near.send(frame)
        near.send(good)
        came, patience = False, time.monotonic() + PATIENCE
        while True:
            left = settle if came else patience - time.monotonic()
            ready = select.select(list(ends), [], [], max(left, 0))[0]
            if not ready:
                if came:
                    break
                raise SystemExit(f"after frame {n} the router does not forward: {frame.hex()}")
            for end in ready:
                got = end.recv(65536)
                if end is far and good[34:] in got:
                    came = True
                else:
                    print(n, ends[end], got.hex())


parser = argparse.ArgumentParser()
parser.add_argument("file")
parser.add_argument("near")
parser.add_argument("far", nargs="?")
parser.add_argument("--settle", type=float, default=0.001)
args = parser.parse_args()
with open(args.file) as file:
    frames = [bytes.fromhex(line.strip()) for line in file]
if args.far is None:
    burst(listen(args.near), frames)
else:
    one_by_one(listen(args.near), listen(args.far), frames[:-1], frames[-1], args.settle)
