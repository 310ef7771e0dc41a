#!/usr/bin/env python3
"""Opens many connections to the binary API, asks for long answers by cli_inband, and reads none of them for some seconds.

Usage: unread.py SOCKET IDENTIFIER (of cli_inband). Prints "done" at the end.
"""

import socket
import struct
import sys
import time


def frame(message):
    return struct.pack(">QII", 0, len(message), 0) + message


path, number = sys.argv[1], int(sys.argv[2])
commands = b"help\n" * 120
clients = []
for _ in range(60):
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    client.sendall(frame(struct.pack(">HI64s", 15, 1, b"unread")))
    client.sendall(frame(struct.pack(">HIII", number, 0, 1, len(commands)) + commands))
    clients.append(client)
time.sleep(4)
print("done")
