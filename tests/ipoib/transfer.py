"""Sends bytes over TCP and compares their digests: `transfer.py receive ADDRESS`, `transfer.py send ADDRESS BYTES`. The
receiver's answer is its digest. `transfer.py send ADDRESS BYTES FILE` sends more until FILE exists. `transfer.py leave ADDRESS
BYTES` ends as soon as the kernel has the bytes, and `transfer.py count ADDRESS` prints the number of those that arrive."""

import hashlib
import os
import random
import socket
import sys
import time

PORT = 5000


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def accept(address):
    with socket.socket(family(address), socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, PORT))
        listener.listen()
        return listener.accept()[0]


def connect(address):
    while True:
        try:
            return socket.create_connection((address, PORT))
        except ConnectionRefusedError:
            time.sleep(0.02)


def receive(address):
    with accept(address) as peer:
        digest = hashlib.sha256()
        while part := peer.recv(1 << 20):
            digest.update(part)
        peer.sendall(digest.digest())


def count(address):
    length = 0
    with accept(address) as peer:
        while part := peer.recv(1 << 20):
            length += len(part)
    print(length, "bytes arrived", flush=True)


def leave(address, length):
    peer = connect(address)
    peer.sendall(bytes(length))
    peer.close()
    os._exit(0)


def send(address, length, until=None):
    block = random.Random(length).randbytes(1 << 20)
    digest = hashlib.sha256()
    with connect(address) as peer:
        sent = 0
        while sent < length or until and not os.path.exists(until):
            part = block[: length - sent] if sent < length else block
            # Its position names each block.
            part = sent.to_bytes(8, "big")[: len(part)] + part[8:]
            peer.sendall(part)
            digest.update(part)
            sent += len(part)
        peer.shutdown(socket.SHUT_WR)
        answer = b""
        while part := peer.recv(64):
            answer += part
    # In one write: several of these processes share a file, and print() may write twice.
    sys.stdout.write("the same bytes\n" if answer == digest.digest() else "other bytes\n")


what, address, *rest = sys.argv[1:]
{"receive": receive, "count": count, "leave": leave, "send": send}[what](address, *map(int, rest[:1]), *rest[1:])
