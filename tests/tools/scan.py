#!/usr/bin/env python3
"""Sends datagrams to random addresses of a network until it is killed: scan.py NETWORK"""

import ipaddress
import random
import socket
import sys
import time

network = ipaddress.ip_network(sys.argv[1])
family = socket.AF_INET6 if network.version == 6 else socket.AF_INET
sender = socket.socket(family, socket.SOCK_DGRAM)
while True:
    for _ in range(100):
        to = network[random.randrange(1, network.num_addresses - 1)]
        sender.sendto(b"?", (str(to), 9))
    time.sleep(0.005)
