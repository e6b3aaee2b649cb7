# SPDX-License-Identifier: Apache-2.0
"""Functions that python -m farcall.bench calls in workers."""

from __future__ import annotations

import concurrent.futures
import functools
import importlib
import math
import multiprocessing
import pickle
import socket
import time
from multiprocessing import shared_memory
from typing import Any

from ._bench_measure import LARGE, loop, round_trip

LONG_SECONDS = 600


def echo(pipe: Any) -> None:
    """Sends back what comes, until None comes."""
    while (message := pipe.recv()) is not None:
        pipe.send(message)


def echo_bytes(connection: socket.socket) -> None:
    """Sends back what comes, until the other end is closed."""
    while data := connection.recv(64):
        connection.sendall(data)


def kinds(number: int, real: float, text: str) -> float:
    """Takes an argument of each of three types."""
    return number + real + len(text)


def kept(size: int, made: dict[int, bytearray] = {}) -> bytearray:  # pylint: disable=dangerous-default-value
    """Returns the same large object each time, so that its pages are in use."""
    if size not in made:
        made[size] = bytearray(b"1") * size
    return made[size]


def kept_buffer(size: int) -> Any:
    """Returns the same large buffer each time."""
    return pickle.PickleBuffer(kept(size))


@functools.cache
def ones() -> Any:
    """Returns the same array of NumPy each time, with 64 MiB."""
    return importlib.import_module("numpy").ones(LARGE // 8)


def first_of(data: Any) -> Any:
    """Returns the first element of an array."""
    return memoryview(data)[0]


def first_of_shared(name: str) -> int:
    """Returns the first byte of a block of shared memory."""
    block: Any = shared_memory.SharedMemory(name)
    try:
        return int(block.buf[0])
    finally:
        block.close()


def nested(executor: Any) -> float:
    """Returns the seconds of a call that a task waits for."""
    return loop(round_trip, executor, math.sqrt, 2.0)()


def new_pool() -> float:
    """Returns the result of a call of a new executor of the standard library."""
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as executor:
        return executor.submit(math.sqrt, 2.0).result()


def descend(executor: Any, depth: int) -> int:
    """Waits for a task that waits for a task, and so on."""
    return 0 if depth == 0 else 1 + int(executor.submit(descend, executor, depth - 1).result())


def sleep_long() -> None:
    """Sleeps longer than the benchmark waits."""
    time.sleep(LONG_SECONDS)


def sleep_stubbornly() -> None:
    """Sleeps on after an interruption."""
    end = time.monotonic() + LONG_SECONDS
    while time.monotonic() < end:
        try:
            time.sleep(LONG_SECONDS)
        except BaseException:  # pylint: disable=broad-except
            pass


class Counter:
    """Object for actors."""

    def __init__(self) -> None:
        self.number = 0

    def add(self, number: int) -> int:
        """Adds a number, and returns the sum."""
        self.number += number
        return self.number
