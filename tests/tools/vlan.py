#!/usr/bin/env python3
"""Emulates a VLAN device for kernels without VLAN support: vlan.py DEVICE TAP TAG...

Frames that the host sends on TAP leave by DEVICE with the tags (VID or TPID:VID, outermost first). Frames that arrive
with exactly these tags go to TAP without them. Prints "ready" and runs until it is killed.
"""

import errno
import fcntl
import select
import socket
import struct
import sys

ETH_P_ALL = 3
SOL_PACKET, PACKET_AUXDATA, PACKET_IGNORE_OUTGOING = 263, 8, 23
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 2, 0x1000
VLAN_VALID, TPID_VALID = 1 << 4, 1 << 6


def tag_bytes(word):
    """Returns the four bytes of a tag written as VID or TPID:VID."""
    tpid, _, vid = word.rpartition(":")
    return struct.pack("!HH", int(tpid or "8100", 16), int(vid))


def receive(port):
    """Returns one frame as it was on the wire. The kernel strips the outer tag and passes it as ancillary data."""
    frame, ancillary, _, _ = port.recvmsg(65536, 64)
    for level, kind, data in ancillary:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            status, _, _, _, _, tci, tpid = struct.unpack("IIIHHHH", data[:20])
            if status & VLAN_VALID:
                tpid = tpid if status & TPID_VALID else 0x8100
                return frame[:12] + struct.pack("!HH", tpid, tci) + frame[12:]
    return frame


def deliver(tap, frame):
    """Passes a frame to the host. Frames are lost while TAP is down (EIO)."""
    try:
        tap.write(frame)
    except OSError as error:
        if error.errno != errno.EIO:
            raise


def main(device, tap_name, *words):
    tags = b"".join(tag_bytes(word) for word in words)
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    port.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    port.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    port.bind((device, ETH_P_ALL))
    tap = open("/dev/net/tun", "r+b", buffering=0)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", tap_name.encode(), IFF_TAP | IFF_NO_PI))
    print("ready", flush=True)
    while True:
        for ready in select.select([port, tap], [], [])[0]:
            if ready is tap:
                frame = tap.read(65536)
                port.send(frame[:12] + tags + frame[12:])
            else:
                frame = receive(port)
                # Exactly the tags, with no further tag behind them.
                after = frame[12 + len(tags):14 + len(tags)]
                if frame[12:12 + len(tags)] == tags and after not in (b"\x81\x00", b"\x88\xa8"):
                    deliver(tap, frame[:12] + frame[12 + len(tags):])


main(*sys.argv[1:])
