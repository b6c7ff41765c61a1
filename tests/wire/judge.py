"""Reads frames as scapy does and lets it compute their ICRC: prints "equal" for each that agrees."""

import sys

from scapy.contrib.roce import BTH
from scapy.layers.inet import IP

for number, line in enumerate(open(sys.argv[1], encoding="ascii"), 1):
    opcode, destination, psn, text = line.split()
    data = bytes.fromhex(text)
    if data[0] >> 4 != 4:
        continue
    packet = IP(data)
    header = packet[BTH]
    stored = data[-4:]
    read = header.opcode, header.dqpn, header.psn
    wanted = int(opcode, 16), int(destination, 16), int(psn)
    if read != wanted:
        sys.exit(f"frame {number}: read as {read}, made as {wanted}")
    header.icrc = None
    computed = bytes(packet)[-4:]
    if computed != stored:
        sys.exit(f"frame {number}: ICRC {stored.hex()}, by scapy {computed.hex()}: {text}")
    print("equal")
