"""Sends bytes over TCP and compares their digests: `transfer.py receive ADDRESS`, `transfer.py send ADDRESS BYTES`. The
receiver's answer is its digest."""

import hashlib
import random
import socket
import sys
import time

PORT = 5000


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def receive(address):
    with socket.socket(family(address), socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, PORT))
        listener.listen()
        peer, _ = listener.accept()
        with peer:
            digest = hashlib.sha256()
            while part := peer.recv(1 << 20):
                digest.update(part)
            peer.sendall(digest.digest())


def send(address, length):
    block = random.Random(length).randbytes(1 << 20)
    digest = hashlib.sha256()
    while True:
        try:
            peer = socket.create_connection((address, PORT))
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
    with peer:
        left = length
        while left:
            part = block[:left]
            # A byte of each block names it.
            part = left.to_bytes(8, "big")[: len(part)] + part[8:]
            peer.sendall(part)
            digest.update(part)
            left -= len(part)
        peer.shutdown(socket.SHUT_WR)
        answer = b""
        while part := peer.recv(64):
            answer += part
    print("the same bytes" if answer == digest.digest() else "other bytes")


if sys.argv[1] == "receive":
    receive(sys.argv[2])
else:
    send(sys.argv[2], int(sys.argv[3]))
