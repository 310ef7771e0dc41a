#!/usr/bin/env python3
"""Sends UDP datagrams of SIZE bytes to HOST's discard port, RATE a second, until it is killed: pour.py HOST SIZE RATE

Late datagrams are sent at once, but no more than those of a fifth of a second.
"""

import socket
import sys
import time

host, size, rate = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
payload = bytes(size)
start, sent = time.monotonic(), 0
while True:
    due = int((time.monotonic() - start) * rate)
    sent = max(sent, due - rate // 5)
    while sent < due:
        try:
            sender.sendto(payload, (host, 9))
        except ConnectionRefusedError:
            pass
        sent += 1
    time.sleep(0.001)
