# SPDX-License-Identifier: Apache-2.0
"""Calls that python -m farcall.bench measures: of farcall, and of packages with which users compare it."""

from __future__ import annotations

import asyncio
import functools
import math
import multiprocessing
import multiprocessing.managers
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import shared_memory
from typing import Any, NamedTuple

import farcall

from . import _bench_tasks, _paths
from ._bench_anchors import HEAVY, LIGHT, Anchor, Pool, Standard
from ._bench_measure import (LARGE, MIB, WINDOW, Case, Group, after_pause, loop, mapped, round_trip,
                             seconds_of, window)

_HUGE = 2560 * MIB
_HUGE_IF_QUICK = 40 * MIB
# Memory that the large argument needs, and that it needs by a pipe, in sizes of the argument.
_COPIES, _COPIES_BY_PIPE = 4, 10
_DEPTH = 1000


class Options(NamedTuple):
    """Options of the benchmark."""

    is_quick: bool = False
    packages: tuple[str, ...] = ()  # packages beside the standard library that are measured, if they are installed
    wheel: str | None = None

    def hang_seconds(self) -> float:
        """Returns the time after which a program counts as hanging."""
        return 1 if self.is_quick else 5

    def lack(self, kind: type[Anchor]) -> str:
        """Returns why a package is not measured, or an empty text."""
        return kind.lack() if kind.is_standard or kind.name in self.packages else "not chosen"


class Executors(NamedTuple):
    """Workers of packages, one of each, and the samples of packages that were measured before."""

    options: Options
    farcall: farcall.Executor
    others: dict[str, Anchor]
    samples: dict[str, dict[str, tuple[float, ...]]]
    ping: Callable[[], None]
    ping_tcp: Callable[[], None]
    add: Callable[[int], int]  # method of an object of multiprocessing.managers
    block: shared_memory.SharedMemory
    native: Callable[..., Any]
    served: Callable[..., Any] | None  # function of a worker behind a connection of TCP
    workers: list[int]

    def light(self, text: str, make: Callable[[Any], Callable[[], float]], *kinds: type[Anchor],
              most_rounds: int = 100) -> list[Case]:
        """Returns a case of each package that is measured in turns with farcall, or of some."""
        cases = []
        for kind in kinds or LIGHT:
            name = f"{kind.name}: {text}"
            made = self.others.get(kind.name)
            if made is None:
                cases.append(Case(name, None, False, note=self.options.lack(kind)))
            else:
                cases.append(Case(name, make(made), False, most_rounds=most_rounds))
        return cases

    def heavy(self, text: str, key: str, *names: str) -> list[Case]:
        """Returns a case of each package that was measured before, or of some."""
        cases = []
        for kind in HEAVY:
            if kind.name in (names or [each.name for each in HEAVY]):
                note = self.options.lack(kind)
                taken = self.samples.get(kind.name, {}).get(key, ())
                cases.append(Case(f"{kind.name}: {text}", None, False, note=note or "has failed", taken=taken))
        return cases


@contextmanager
def executors(options: Options, samples: dict[str, dict[str, tuple[float, ...]]]) -> Iterator[Executors]:
    """Starts workers of the packages that are installed."""
    context = multiprocessing.get_context("fork")
    with ExitStack() as stack:
        # The first object with a name in the system starts a process that the workers then have in common.
        block = shared_memory.SharedMemory(create=True, size=MIB)
        stack.callback(block.unlink)
        stack.callback(block.close)
        workers = []

        def fork(function: Callable[..., Any], argument: Any) -> None:
            process = context.Process(target=function, args=(argument,), daemon=True)
            process.start()
            workers.append(process.pid or 0)
            stack.callback(process.join)

        here, there = context.Pipe()
        fork(_bench_tasks.echo, there)
        stack.callback(here.send, None)
        near, far = _connection()
        with far:
            fork(_bench_tasks.echo_bytes, far)
        stack.callback(near.close)
        stack.callback(near.shutdown, socket.SHUT_RDWR)
        manager = stack.enter_context(_manager(context))
        others = {kind.name: kind(1) for kind in LIGHT if not options.lack(kind)}
        for other in others.values():
            stack.callback(other.end)
        executor = stack.enter_context(farcall.Executor(1))
        workers += [made.submit(os.getpid).result() for made in others.values()]
        workers.append(executor.submit(os.getpid).result())

        def ping() -> None:
            here.send(())
            here.recv()

        def ping_tcp() -> None:
            near.sendall(b"0123456789abcdef")
            near.recv(64)

        target = stack.enter_context(farcall.Job("shm"))[1]
        native = target.load("libm.so.6").function("sqrt", "d(d)")
        remote = _served(stack)
        if remote is not None:
            workers.append(remote.submit(os.getpid).result())
        served = None if remote is None else remote.function(tuple)
        yield Executors(options, executor, others, samples, ping, ping_tcp, manager, block, native, served,
                        [*workers, target.pid])


def _connection() -> tuple[socket.socket, socket.socket]:
    """Returns both ends of a connection of TCP."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    for each in (near, far):
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return near, far


@contextmanager
def _manager(context: Any) -> Iterator[Callable[[int], int]]:
    """Starts a manager of multiprocessing, and returns a method of an object there."""

    class Manager(multiprocessing.managers.BaseManager):
        """Manager of a counter."""

    Manager.register("Counter", _bench_tasks.Counter)
    with Manager(ctx=context) as manager:
        yield manager.Counter().add  # type: ignore[attr-defined]


def _served(stack: ExitStack) -> farcall.Executor | None:
    """Returns an executor with a worker of a server on this machine, or None without the farcall command."""
    try:
        command = _paths.command()
    except FileNotFoundError:
        return None
    key = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "key")
    subprocess.run([command, "keygen", key], check=True, capture_output=True)
    server = subprocess.Popen([sys.executable, "-m", "farcall", "serve", "--listen", "127.0.0.1:0", "--key", key],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    stack.callback(server.communicate)
    stack.callback(server.send_signal, signal.SIGTERM)
    assert server.stdout is not None
    found = re.search(r"tcp://127\.0\.0\.1:\d+", server.stdout.readline())
    assert found is not None
    return stack.enter_context(farcall.Executor(found.group(), key=key))


def calls(made: Executors) -> Group:
    """Calls that wait."""
    executor = made.farcall
    cases = [Case("multiprocessing.Pipe: there and back", loop(made.ping), False),
             *made.light("submit().result()", lambda other: loop(round_trip, other, math.sqrt, 2.0)),
             *made.heavy("call and result", "call"),
             Case("function()", loop(executor.function(tuple)), goal="0.45"),
             Case('function(1, 2.0, "x")', loop(executor.function(_bench_tasks.kinds), 1, 2.0, "x"), goal="0.8"),
             Case("function([]), pickled", loop(executor.function(list), [])),
             Case("submit().result()", loop(round_trip, executor, math.sqrt, 2.0), goal="2"),
             Case("submit().result(), pickled", loop(round_trip, executor, list, []), goal="4.5"),
             Case("multiprocessing.Manager: method", loop(made.add, 1), False),
             *made.heavy("method of an actor", "method", "Ray"),
             Case("method of an actor", loop(executor.create(_bench_tasks.Counter).add, 1), goal="0.8"),
             Case("sqrt() of libm, called by its name", loop(made.native, 2.0), goal="0.35")]
    return Group("Calls that wait", "µs", 15, cases)


def nested(made: Executors) -> Group:
    """Calls of tasks, with one worker."""
    executor = made.farcall

    def descend() -> float:
        return seconds_of(lambda: executor.submit(_bench_tasks.descend, executor, _DEPTH).result())() / _DEPTH

    def new_pool(other: Any) -> Callable[[], float]:
        return seconds_of(lambda: other.submit(_bench_tasks.new_pool).result())

    # A worker of another package cannot run a task that another task waits for.
    cases = [*made.light("new executor in a task", new_pool, Standard, most_rounds=3),
             Case("submit().result() in a task", functools.partial(round_trip, executor, _bench_tasks.nested, executor),
                  goal="30"),
             Case(f"each of {_DEPTH} tasks that wait for the next", descend, goal="30")]
    return Group("Calls of tasks, with one worker", "µs", 9, cases)


def remote(made: Executors) -> Group:
    """Calls by TCP on this machine."""

    def waits(other: Any) -> Callable[[], float]:
        return loop(other.remote(math.sqrt), 2.0)

    served = None if made.served is None else loop(made.served)
    cases = [Case("TCP: 16 bytes there and back", loop(made.ping_tcp), False),
             *made.light("sqrt()", waits, *[kind for kind in LIGHT if kind.name == "rpyc"]),
             Case("function() by TCP", served, goal="7", note="there is no farcall command")]
    return Group("Calls by TCP on this machine", "µs", 15, cases)


def streams(made: Executors) -> Group:
    """Calls that do not wait for each other."""
    text = f"submit(), {WINDOW} at a time"
    cases = [*made.light(text, lambda other: window(other, math.sqrt, 2.0)),
             *made.heavy(text, "window", "Dask", "Ray"),
             Case(text, window(made.farcall, math.sqrt, 2.0), goal="1"),
             Case(f"{text}, pickled", window(made.farcall, list, []), goal="2.5"),
             Case("map() in this process", mapped(map), False),
             *made.light("map(chunksize=1000)", lambda other: mapped(other.executor.map, chunksize=1000), Standard,
                         most_rounds=5),
             *made.light("imap(chunksize=1000)", lambda other: mapped(other.pool.imap, chunksize=1000), Pool,
                         most_rounds=5),
             *made.heavy("Parallel()", "map", "joblib"),
             Case("map()", mapped(made.farcall.map), goal="map() in this process + 0.12", most_rounds=9)]
    return Group("Calls that follow each other, each", "µs", 15, cases)


def coroutines(made: Executors) -> Group:
    """Calls in an event loop."""

    def awaiting(executor: Any, count: int) -> Callable[[], float]:
        def submit() -> Any:
            future = executor.submit(math.sqrt, 2.0)
            return future if hasattr(future, "__await__") else asyncio.wrap_future(future)

        async def sample() -> float:
            await submit()  # wakes a worker that sleeps, and makes what the first call of a loop needs
            begin = time.perf_counter()
            if count == 1:
                for _ in range(100):
                    await submit()
                return (time.perf_counter() - begin) / 100
            await asyncio.gather(*(submit() for _ in range(count)))
            return (time.perf_counter() - begin) / count

        return lambda: asyncio.run(sample())

    kinds = [kind for kind in LIGHT if kind.has_futures]
    cases = [*made.light("await", lambda other: awaiting(other, 1), *kinds),
             *made.light("gather() of 256, each", lambda other: awaiting(other, 256), *kinds),
             Case("await", awaiting(made.farcall, 1), goal="15"),
             Case("gather() of 256, each", awaiting(made.farcall, 256), goal="3")]
    return Group("Calls of a coroutine", "µs", 9, cases)


def pauses(made: Executors) -> Group:
    """Single calls, when the worker sleeps or another thread is busy."""

    def beside(call: Callable[[], Any]) -> float:
        has_ended = threading.Event()

        def spin() -> None:
            while not has_ended.is_set():
                pass

        thread = threading.Thread(target=spin)
        thread.start()
        try:
            return sorted(seconds_of(call)() for _ in range(100))[50]
        finally:
            has_ended.set()
            thread.join()

    def beside_other(other: Any) -> Callable[[], float]:
        return lambda: beside(lambda: round_trip(other, math.sqrt, 2.0))

    root = made.farcall.function(math.sqrt)
    cases = [*made.light("after 20 ms", lambda other: after_pause(lambda: round_trip(other, math.sqrt, 2.0))),
             *made.heavy("after 20 ms", "pause", "Dask", "Ray"),
             Case("sqrt() of libm after 20 ms", after_pause(lambda: made.native(2.0))),
             Case("function() after 20 ms", after_pause(lambda: root(2.0)), goal="1.1 × the line above"),
             *made.light("beside a busy thread", beside_other, Standard, most_rounds=1),
             Case("function() beside a busy thread", lambda: beside(lambda: root(2.0)), goal="2")]
    return Group("Single calls, after a pause and beside a busy thread", "µs", 9, cases)


def copies(made: Executors) -> Group:
    """64 MiB of which all pages are in use."""
    data, copy = bytearray(LARGE), bytearray(LARGE)
    executor = made.farcall
    send, receive = executor.function(len), executor.function(_bench_tasks.kept_buffer)

    def memcpy() -> None:
        memoryview(copy)[:] = data

    buffer: Any = pickle.PickleBuffer(data)
    array = farcall.empty(LARGE, "u1", executor[0])
    cases = [Case("memcpy", seconds_of(memcpy), False),
             *made.light("argument", lambda other: seconds_of(lambda: other.submit(len, data).result()), Standard),
             *made.heavy("argument", "argument", "Dask", "Ray"),
             Case("argument", seconds_of(lambda: send(buffer)), goal="1.25 × memcpy"),
             *made.light("result", lambda other: seconds_of(lambda: other.submit(_bench_tasks.kept, LARGE).result()),
                         Standard),
             *made.heavy("result", "result", "Dask", "Ray"),
             Case("result", seconds_of(lambda: receive(LARGE)), goal="1.25 × memcpy"),
             Case("Array.put()", seconds_of(lambda: array.put(data))),
             Case("Array.get(out)", seconds_of(lambda: array.get(copy)))]
    return Group("64 MiB", "ms", 7, cases)


def shared(made: Executors) -> Group:
    """Arrays in memory that workers share."""
    first = made.farcall.function(_bench_tasks.first_of)
    array = farcall.empty(LARGE, "u1", made.farcall[0])
    array.put(bytearray(LARGE))

    def by_name(other: Any) -> Callable[[], float]:
        return loop(round_trip, other, _bench_tasks.first_of_shared, made.block.name)

    cases = [*made.light("SharedMemory by its name", by_name, Standard),
             *made.heavy("object of ray.put()", "shared", "Ray"),
             Case("function() of a byte", loop(first, b"1")),
             Case("function() of an Array of 64 MiB", loop(first, array), goal="the line above + 1")]
    return Group("Calls with an array in shared memory", "µs", 9, cases)


def free_memory() -> int:
    """Returns how many bytes programs can have without swapping."""
    with open("/proc/meminfo", encoding="ascii") as file:
        found = re.search(r"MemAvailable: +(\d+) kB", file.read())
    return int(found.group(1)) * 1024 if found is not None else 0


def huge(made: Executors) -> Group:
    """An argument that is larger than the messages of some packages may be."""
    size = _HUGE_IF_QUICK if made.options.is_quick else _HUGE
    free, note = free_memory(), "too little free memory"
    title = f"An argument of {size / (1 << 30):.1f} GiB" if size == _HUGE else f"An argument of {size // MIB} MiB"
    names = ("ProcessPoolExecutor: argument", "Array.put()", "argument")
    if free < _COPIES * size:
        return Group(title, "ms", 1, [Case(name, None, ":" not in name, note=note) for name in names])
    data = bytearray(b"1") * size
    buffer: Any = pickle.PickleBuffer(data)
    send, array = made.farcall.function(len), farcall.empty(size, "u1", made.farcall[0])
    cases = made.light("argument", lambda other: seconds_of(lambda: other.submit(len, data).result()), Standard,
                       most_rounds=1)
    if free < _COPIES_BY_PIPE * size:
        cases = [Case(names[0], None, False, note=note)]
    cases += [Case(names[1], seconds_of(lambda: array.put(data))),
              Case(names[2], seconds_of(lambda: send(buffer)), goal="1.3 × Array.put()")]
    return Group(title, "ms", 3, cases)


GROUPS = (calls, nested, remote, streams, coroutines, pauses, copies, shared, huge)
