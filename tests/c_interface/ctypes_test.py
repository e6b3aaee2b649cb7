#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the C interface from Python, like a binding: ctypes_test.py <path of libfarcall.so>
<path of farcall.h>.

Host and target run this script.
"""

import asyncio
import ctypes
import pathlib
import re
import struct
import sys

FC_OK, FC_REMOTE_ERROR, FC_UNKNOWN_FUNCTION = 0, 2, 6

library = ctypes.CDLL(sys.argv[1])


class Node(ctypes.Structure):
    _fields_ = [("job", ctypes.c_void_p), ("lane", ctypes.c_void_p), ("deadline", ctypes.c_int64),
                ("id", ctypes.c_uint32), ("flags", ctypes.c_uint32)]


class Span(ctypes.Structure):
    _fields_ = [("address", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("node", ctypes.c_uint32),
                ("reserved", ctypes.c_uint32)]


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("targets", ctypes.c_char_p)]


HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)

library.fc_error_text.restype = ctypes.c_char_p
library.fc_error_type.restype = ctypes.c_char_p
library.fc_named.restype = ctypes.c_uint64
library.fc_named.argtypes = [ctypes.c_char_p]
library.fc_register.argtypes = [ctypes.c_char_p, HANDLER, ctypes.c_void_p]
library.fc_reply_bytes.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
library.fc_reply_error.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
library.fc_job_start.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
library.fc_job_end.argtypes = [ctypes.c_void_p]
library.fc_node_at.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p]
library.fc_call.argtypes = [Node, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p,
                            ctypes.c_size_t, ctypes.c_void_p]
library.fc_call_async.argtypes = [Node, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t,
                                  ctypes.c_void_p]
library.fc_future_test.argtypes = [ctypes.c_void_p]
library.fc_future_test.restype = ctypes.c_bool
library.fc_future_get.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
library.fc_future_drop.argtypes = [ctypes.c_void_p]
library.fc_progress.argtypes = [ctypes.c_void_p]
library.fc_wait_fd.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
library.fc_allocate.argtypes = [Node, ctypes.c_uint64, ctypes.c_void_p]
library.fc_put.argtypes = [ctypes.c_void_p, Span, ctypes.c_char_p, ctypes.c_size_t]
library.fc_get.argtypes = [ctypes.c_void_p, Span, ctypes.c_void_p, ctypes.c_size_t]
library.fc_release.argtypes = [ctypes.c_void_p, Span]

handlers = []  # as long as they are registered


def handler(function):
    """Registers a function from bytes to bytes; the caller gets its exceptions as errors."""

    def run(reply, data, size, _user):
        try:
            result = function(ctypes.string_at(data, size) if size else b"")
            library.fc_reply_bytes(reply, result, len(result))
        except Exception as e:  # pylint: disable=broad-except
            library.fc_reply_error(reply, type(e).__name__.encode(), str(e).encode())

    handlers.append(HANDLER(run))
    need(library.fc_register(function.__name__.encode(), handlers[-1], None))
    return function


def need(status):
    if status != FC_OK:
        raise RuntimeError(library.fc_error_text().decode())


@handler
def reverse(data):
    return data[::-1]


@handler
def divide(data):
    a, b = struct.unpack("2d", data)
    return struct.pack("d", a / b)


def call(node, name, data, capacity=1024):
    result = ctypes.create_string_buffer(capacity)
    size = ctypes.c_size_t()
    status = library.fc_call(node, library.fc_named(name), data, len(data), result, capacity,
                             ctypes.byref(size))
    return status, result.raw[:size.value] if status == FC_OK else b""


class Calls:
    """Calls whose results asyncio coroutines await."""

    def __init__(self, job):
        self.job = job
        self.open = []
        self.fd = ctypes.c_int()
        need(library.fc_wait_fd(job, ctypes.byref(self.fd)))
        asyncio.get_running_loop().add_reader(self.fd.value, self.take_in)

    def take_in(self):
        need(library.fc_progress(self.job))
        still_open = []
        for future, waiter in self.open:
            if not library.fc_future_test(future):
                still_open.append((future, waiter))
                continue
            data, size = ctypes.c_void_p(), ctypes.c_size_t()
            need(library.fc_future_get(future, ctypes.byref(data), ctypes.byref(size)))
            waiter.set_result(ctypes.string_at(data, size.value))
            library.fc_future_drop(future)
        self.open = still_open

    async def call(self, node, name, data):
        future = ctypes.c_void_p()
        need(library.fc_call_async(node, library.fc_named(name), data, len(data),
                                   ctypes.byref(future)))
        waiter = asyncio.get_running_loop().create_future()
        self.open.append((future, waiter))
        return await waiter


async def check_event_loop(job, target):
    calls = Calls(job)
    texts = [str(i).encode() for i in range(100)]
    results = await asyncio.gather(*(calls.call(target, b"reverse", t) for t in texts))
    assert results == [t[::-1] for t in texts], results
    for text in texts:
        assert await calls.call(target, b"reverse", text) == text[::-1]


def check_that_all_is_exported():
    header = pathlib.Path(sys.argv[2]).read_text(encoding="utf-8")
    declared = re.findall(r"^FC_API [^;(]*?(fc_\w+)\(", header, re.M)
    assert len(declared) == header.count("\nFC_API "), declared
    missing = [name for name in declared if not hasattr(library, name)]
    assert not missing, missing


def main():
    check_that_all_is_exported()
    # Only the members that this binding knows: `size` says so.
    options = Options(ctypes.sizeof(Options), b"shm")
    job = ctypes.c_void_p()
    need(library.fc_job_start(None, None, ctypes.byref(options), ctypes.byref(job)))
    target = Node()
    need(library.fc_node_at(job, 1, ctypes.byref(target)))

    assert call(target, b"reverse", b"bytes") == (FC_OK, b"setyb")
    assert call(target, b"divide", struct.pack("2d", 1, 4)) == (FC_OK, struct.pack("d", 0.25))
    assert call(target, b"divide", struct.pack("2d", 1, 0))[0] == FC_REMOTE_ERROR
    assert library.fc_error_type() == b"ZeroDivisionError", library.fc_error_type()
    assert b"division by zero" in library.fc_error_text()
    assert call(target, b"nothing", b"")[0] == FC_UNKNOWN_FUNCTION

    memory = Span()
    need(library.fc_allocate(target, 16, ctypes.byref(memory)))
    need(library.fc_put(job, memory, b"sixteen letters!", 16))
    back = ctypes.create_string_buffer(16)
    need(library.fc_get(job, memory, back, 16))
    assert back.raw == b"sixteen letters!"
    need(library.fc_release(job, memory))
    # Only the descriptor wakes the loop: if it does not become readable, the loop hangs.
    asyncio.run(asyncio.wait_for(check_event_loop(job, target), 60))
    library.fc_job_end(job)


if __name__ == "__main__":
    main()
