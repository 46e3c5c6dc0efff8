# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# A slow wire between two network namespaces, for kernels without netem: every packet passes through this process.
"""Usage: slow_wire.py NAMESPACE NAMESPACE DELAY RATE     seconds one way; bits a second, 100mbit say. Prints `up`, and runs until it is killed."""
import ctypes
import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import time
from collections import deque

CLONE_NEWNET, TUNSETIFF, TUN_WITHOUT_HEAD = 0x40000000, 0x400454CA, 0x1001
UNITS = {"": 1, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


def end(namespace, address):
    """Makes the device `wire` in the namespace, as a file of this process."""
    with open(f"/run/netns/{namespace}") as there:
        if ctypes.CDLL(None, use_errno=True).setns(there.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "no such namespace")
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"wire", TUN_WITHOUT_HEAD))
    for words in (f"address add {address}/24 dev wire", "link set lo up", "link set wire mtu 9000 txqueuelen 10000 up"):
        subprocess.run(["ip", *words.split()], check=True)
    return device


def carry(ends, delay, rate):
    free, in_flight = [0.0, 0.0], [deque(), deque()]  # of each direction: when the wire is free, and what arrives when
    while True:
        now = time.monotonic()
        next_due = min((packets[0][0] for packets in in_flight if packets), default=now + 1)
        for device in select.select(ends, [], [], max(0, next_due - now))[0]:
            way = ends.index(device)
            try:
                for _ in range(64):
                    packet = os.read(device, 65536)
                    free[way] = max(time.monotonic(), free[way]) + len(packet) * 8 / rate
                    in_flight[way].append((free[way] + delay, packet))
            except BlockingIOError:
                pass
        for way, packets in enumerate(in_flight):
            while packets and packets[0][0] <= time.monotonic():
                os.write(ends[1 - way], packets.popleft()[1])


rate, unit = re.fullmatch(r"([0-9.e]+)([a-z]*)", sys.argv[4]).groups()
both = [end(namespace, f"10.77.0.{i + 1}") for i, namespace in enumerate(sys.argv[1:3])]
print("up", flush=True)
carry(both, float(sys.argv[3]), float(rate) * UNITS[unit])
