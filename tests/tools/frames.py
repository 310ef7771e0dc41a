#!/usr/bin/env python3
"""Sends frames, and prints what comes of them: frames.py FILE IN [OUT [--settle S]]

FILE has a frame a line, in hexadecimal digits, which goes out of the interface IN. Without OUT all are sent in quick bursts, and the
last line printed is how many were sent. With OUT each frame is followed by a good packet, which a router forwards to OUT, and
the next frame waits until that has come and nothing more comes for S seconds. For each frame then come lines "N in HEX" or
"N out HEX": frame number N had this one come back by IN, or arrive at OUT. The good packet is the last line of FILE.
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
        # What the router's ring holds is not sent at once.
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
