#!/usr/bin/python3
"""A decode worker that somebody has taken over: it does what its mode (HOSTILE_WORKER) says.
decode/isolation/internal/worker_protocol.h has the messages."""

import mmap
import os
import signal
import socket
import struct
import sys

WINDOW = 1 << 20  # bytes before the arena
READY, REQUEST, READ, READ_DONE, RESULT = range(1, 6)
TENSOR = struct.Struct("<32sB3xI4qq")
node = socket.socket(fileno=3)


def result(tensors=(), code=1, part=0, message=b"no"):
    body = b"".join(TENSOR.pack(*tensor) for tensor in tensors)
    return (struct.pack("<IIIB512s3x", RESULT, part, len(tensors), code, message) + body).ljust(
        struct.calcsize("<IIIB512s3x") + 16 * TENSOR.size, b"\0")


def picture(width=588, patches=308, lengths=(308, 79), order=slice(None)):
    """The tensors of the test's picture by the plan, or not quite."""
    arena = mmap.mmap(4, os.fstat(4).st_size)
    struct.pack_into("<ii", arena, WINDOW, *lengths)
    arena.close()
    tensors = [(b"vision.patches", 0, 2, patches, width, 0, 0, 64), (b"vision.grids", 1, 2, 1, 2, 0, 0, 64),
               (b"vision.lengths", 1, 1, 1, 0, 0, 0, 0), (b"llm.input_ids", 2, 1, 79, 0, 0, 0, 64),
               (b"llm.labels", 2, 1, 79, 0, 0, 0, 64), (b"llm.position_ids", 2, 1, 79, 0, 0, 0, 64),
               (b"llm.lengths", 1, 1, 1, 0, 0, 0, 4)]
    return result(tensors[order])


def answer(mode):
    huge = 1 << 62
    ids = (b"llm.input_ids", 2, 1)
    if mode == "offset":
        node.send(result([(*ids, 4, 0, 0, 0, huge)]))
    elif mode == "size":
        node.send(result([(*ids, huge, 0, 0, 0, 0)]))
    elif mode == "more":  # than the sample's tensors hold
        node.send(result([(*ids, 1000, 0, 0, 0, 0)] * 16))
    elif mode == "honest":
        node.send(picture())
    elif mode == "width":  # with as many bytes
        node.send(picture(width=294, patches=616, lengths=(616, 79)))
    elif mode == "lengths":  # that do not add up to the patches
        node.send(picture(lengths=(307, 79)))
    elif mode == "negative":
        node.send(picture(lengths=(308, -79)))
    elif mode == "missing":
        node.send(picture(order=slice(3, None)))
    elif mode == "order":
        node.send(picture(order=slice(None, None, -1)))
    elif mode == "name":
        node.send(result([(b"\xff\xfe", 2, 1, 4, 0, 0, 0, 0)]))
    elif mode == "cancelled":
        node.send(result(code=8))
    elif mode == "machine":
        node.send(result(code=9))
    elif mode == "part":
        node.send(result(part=7))
    elif mode == "text":
        node.send(result(message=b"\xff\xfe"))
    elif mode == "garbage":
        node.send(b"garbage")
    elif mode == "flood":
        node.setblocking(False)
        while True:
            try:
                node.send(struct.pack("<IIqq", READ, 0, 0, 1))
            except BlockingIOError:
                pass
    elif mode == "spin":
        signal.signal(signal.SIGPROF, signal.SIG_IGN)
        while True:
            pass


node.recv(4096)
node.send(struct.pack("<II", READY, 1))
while node.recv(4096):
    answer(os.environ["HOSTILE_WORKER"])
sys.exit(0)
