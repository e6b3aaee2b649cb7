# SPDX-License-Identifier: Apache-2.0
"""Cases of python -m farcall.bench: calls of farcall, and of executors with which users compare it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import importlib
import importlib.util
import math
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import farcall

MIB = 1 << 20
LARGE = 64 * MIB
_MAPPED = 100_000


class Case(NamedTuple):
    """Something to measure. `sample()` returns seconds, or another quantity in the unit of the group."""

    name: str
    sample: Callable[[], float]
    is_farcall: bool = True


class Group(NamedTuple):
    """Cases of one figure, which are measured in turns."""

    title: str
    unit: str
    rounds: int
    cases: list[Case]


def seconds_each(run: Callable[[int], None]) -> Callable[[], float]:
    """Returns a function that returns the seconds of one call, measured over about 10 ms."""
    count = 0

    def sample() -> float:
        nonlocal count
        if count == 0:
            _time(run, 10)
            count = max(10, int(0.01 / _time(run, 20)))
        return _time(run, count) / count

    return sample


def seconds_of(run: Callable[[], object]) -> Callable[[], float]:
    """Returns a function that returns the seconds of a single call."""

    def sample() -> float:
        begin = time.perf_counter()
        run()
        return time.perf_counter() - begin

    return sample


def _time(run: Callable[[int], None], count: int) -> float:
    begin = time.perf_counter()
    run(count)
    return time.perf_counter() - begin


def loop(call: Callable[..., Any], *arguments: Any) -> Callable[[], float]:
    """Measures a call that waits."""

    def run(count: int) -> None:
        for _ in range(count):
            call(*arguments)

    return seconds_each(run)


def round_trip(executor: concurrent.futures.Executor, function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns the result of a call of an executor."""
    return executor.submit(function, *arguments).result()


def window(executor: concurrent.futures.Executor, function: Callable[..., Any], *arguments: Any) -> Callable[[], float]:
    """Measures calls that are made before the first result is taken."""

    def run(count: int) -> None:
        for future in [executor.submit(function, *arguments) for _ in range(count)]:
            future.result()

    return seconds_each(run)


def mapped(executor: concurrent.futures.Executor, **options: int) -> Callable[[], float]:
    """Measures map() over so many numbers that its start does not count."""

    def run(count: int) -> None:
        for _ in executor.map(math.sqrt, range(count), **options):
            pass

    return lambda: _time(run, _MAPPED) / _MAPPED


# ---- functions of workers


def echo(pipe: Any) -> None:
    """Sends back what comes, until None comes."""
    while (message := pipe.recv()) is not None:
        pipe.send(message)


def kinds(number: int, real: float, text: str) -> float:
    """Takes an argument of each of three types."""
    return number + real + len(text)


def kept(size: int, made: dict[int, Any] = {}) -> Any:  # pylint: disable=dangerous-default-value
    """Returns the same large buffer each time, so that its pages are in use."""
    if size not in made:
        made[size] = bytearray(b"1") * size
    return pickle.PickleBuffer(made[size])


def nested(executor: Any) -> float:
    """Returns the seconds of a call that a task waits for."""
    return loop(round_trip, executor, math.sqrt, 2.0)()


class Counter:
    """Object for actors."""

    def __init__(self) -> None:
        self.number = 0

    def add(self, number: int) -> int:
        """Adds a number, and returns the sum."""
        self.number += number
        return self.number


# ---- executors


class Executors(NamedTuple):
    """Executors with one worker each."""

    farcall: farcall.Executor
    others: dict[str, concurrent.futures.Executor]
    ping: Callable[[], None]
    native: Callable[..., Any]
    workers: list[int]


def _mpi_works() -> bool:
    if importlib.util.find_spec("mpi4py") is None:
        return False
    # MPI ends the process if it cannot start one.
    program = "from mpi4py.futures import MPIPoolExecutor as E; assert E(1).submit(abs, -1).result(20) == 1"
    try:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=40, check=False)
        return done.returncode == 0
    except subprocess.TimeoutExpired:
        return False


@contextmanager
def executors() -> Iterator[Executors]:
    """Starts the executors that are installed."""
    context = multiprocessing.get_context("fork")
    with ExitStack() as stack:
        here, there = context.Pipe()
        process = context.Process(target=echo, args=(there,), daemon=True)
        process.start()
        stack.callback(process.join)
        stack.callback(here.send, None)
        others: dict[str, Any] = {"ProcessPoolExecutor": concurrent.futures.ProcessPoolExecutor(1, mp_context=context)}
        if importlib.util.find_spec("loky") is not None:
            others["loky"] = importlib.import_module("loky").ProcessPoolExecutor(1)
        if _mpi_works():
            others["mpi4py"] = importlib.import_module("mpi4py.futures").MPIPoolExecutor(1)
        for other in others.values():
            stack.enter_context(other)
        executor = stack.enter_context(farcall.Executor(1))
        workers = [process.pid or 0] + [made.submit(os.getpid).result() for made in (executor, *others.values())]

        def ping() -> None:
            here.send(())
            here.recv()

        native = stack.enter_context(farcall.Job("shm"))[1].load("libm.so.6").function("sqrt", "d(d)")
        yield Executors(executor, others, ping, native, workers)


# ---- groups


def calls(made: Executors) -> Group:
    """Calls that wait."""
    executor = made.farcall
    cases = [Case("multiprocessing.Pipe, there and back", loop(made.ping), False)]
    cases += [Case(f"{name}: submit().result()", loop(round_trip, other, math.sqrt, 2.0), False)
              for name, other in made.others.items()]
    cases += [
        Case("function()", loop(executor.function(tuple))),
        Case('function(1, 2.0, "x")', loop(executor.function(kinds), 1, 2.0, "x")),
        Case("function([])", loop(executor.function(list), [])),
        Case("submit().result()", loop(round_trip, executor, math.sqrt, 2.0)),
        Case("submit().result(), pickled", loop(round_trip, executor, list, [])),
        Case("submit().result() in a task", functools.partial(round_trip, executor, nested, executor)),
        Case("method of an actor", loop(executor.create(Counter).add, 1)),
        Case("sqrt() of libm, called by its name", loop(made.native, 2.0)),
    ]
    return Group("Calls that wait", "µs", 15, cases)


def streams(made: Executors) -> Group:
    """Calls that do not wait for each other."""
    cases = [Case(f"{name}: submit()", window(other, math.sqrt, 2.0), False) for name, other in made.others.items()]
    cases += [Case("submit()", window(made.farcall, math.sqrt, 2.0)),
              Case("submit(), pickled", window(made.farcall, list, []))]
    standard = made.others["ProcessPoolExecutor"]
    cases += [Case("ProcessPoolExecutor: map(chunksize=1000)", mapped(standard, chunksize=1000), False),
              Case("map()", mapped(made.farcall))]
    return Group("Calls that follow each other, each", "µs", 15, cases)


def coroutines(made: Executors) -> Group:
    """Calls in an event loop."""

    def awaiting(submit: Callable[[], Any], count: int) -> Callable[[], float]:
        async def sample() -> float:
            begin = time.perf_counter()
            if count == 1:
                for _ in range(100):
                    await submit()
                return (time.perf_counter() - begin) / 100
            await asyncio.gather(*(submit() for _ in range(count)))
            return (time.perf_counter() - begin) / count

        return lambda: asyncio.run(sample())

    cases = []
    for name, other in (*made.others.items(), ("", made.farcall)):
        def submit(other: concurrent.futures.Executor = other) -> Any:
            future = other.submit(math.sqrt, 2.0)
            return future if hasattr(future, "__await__") else asyncio.wrap_future(future)

        prefix = f"{name}: " if name else ""
        cases += [Case(f"{prefix}await", awaiting(submit, 1), not name),
                  Case(f"{prefix}gather() of 256, each", awaiting(submit, 256), not name)]
    return Group("Calls of a coroutine", "µs", 9, cases)


def pauses(made: Executors) -> Group:
    """Single calls, when the worker sleeps or another thread is busy."""

    def paused(call: Callable[[], Any]) -> Callable[[], float]:
        def sample() -> float:
            call()
            time.sleep(0.02)
            return seconds_of(call)()

        return sample

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

    root = made.farcall.function(math.sqrt)
    cases = [Case(f"{name}: after 20 ms", paused(functools.partial(round_trip, other, math.sqrt, 2.0)), False)
             for name, other in made.others.items()]
    cases += [Case("function() after 20 ms", paused(functools.partial(root, 2.0))),
              Case("function() beside a busy thread", lambda: beside(lambda: root(2.0)))]
    return Group("Single calls, after a pause and beside a busy thread", "µs", 9, cases)


def copies(made: Executors) -> Group:
    """64 MiB of which all pages are in use."""
    data, copy = bytearray(LARGE), bytearray(LARGE)
    executor = made.farcall
    send, receive = executor.function(len), executor.function(kept)

    def memcpy() -> None:
        memoryview(copy)[:] = data

    standard = made.others["ProcessPoolExecutor"]
    buffer: Any = pickle.PickleBuffer(data)
    cases = [Case("memcpy", seconds_of(memcpy), False),
             Case("ProcessPoolExecutor: argument", seconds_of(lambda: standard.submit(len, data).result()), False),
             Case("argument", seconds_of(lambda: send(buffer))),
             Case("result", seconds_of(lambda: receive(LARGE)))]
    array = farcall.empty(LARGE, "u1", executor[0])
    cases += [Case("Array.put()", seconds_of(lambda: array.put(data))),
              Case("Array.get(out)", seconds_of(lambda: array.get(copy))),
              Case("argument that is an Array", seconds_of(lambda: send(array)))]
    return Group("64 MiB", "ms", 7, cases)


def starts(made: Executors) -> Group:
    """Executors with four workers, until each has returned a result."""

    def start(make: Callable[[], concurrent.futures.Executor]) -> Callable[[], float]:
        def sample() -> float:
            begin = time.perf_counter()
            with make() as executor:
                for future in [executor.submit(math.sqrt, 2.0) for _ in range(8)]:
                    future.result()
                return time.perf_counter() - begin

        return sample

    def standard(method: str) -> Callable[[], float]:
        context = multiprocessing.get_context(method)
        return start(lambda: concurrent.futures.ProcessPoolExecutor(4, mp_context=context))

    cases = [Case(f"ProcessPoolExecutor ({method})", standard(method), False) for method in ("fork", "spawn")]
    if "loky" in made.others:
        cases.append(Case("loky", start(lambda: importlib.import_module("loky").ProcessPoolExecutor(4)), False))
    cases.append(Case("Executor(4)", start(lambda: farcall.Executor(4))))
    for module in ("concurrent.futures.process", "farcall"):
        command = [sys.executable, "-c", f"import {module}"]
        run = functools.partial(subprocess.run, command, check=True)
        cases.append(Case(f"Python that imports {module}", seconds_of(run), module == "farcall"))
    return Group("Start of four workers", "ms", 3, cases)


def faults(made: Executors) -> Group:
    """Calls whose worker is killed, and calls that are stopped."""
    del made

    def killed(is_next: bool) -> float:
        with farcall.Executor(1) as executor:
            pid = executor.submit(os.getpid).result()
            future = executor.submit(time.sleep, 60)
            while not future.running():
                pass
            time.sleep(0.01)
            begin = time.perf_counter()
            os.kill(pid, signal.SIGKILL)
            try:
                future.result()
            except farcall.NodeFailed:
                pass
            if is_next:
                executor.submit(os.getpid).result()
            return time.perf_counter() - begin

    def stopped() -> float:
        with farcall.Executor(1) as executor:
            executor.submit(os.getpid).result()
            future = executor.submit(time.sleep, 60)
            time.sleep(0.05)
            begin = time.perf_counter()
            future.stop()
            concurrent.futures.wait([future])
            return time.perf_counter() - begin

    cases = [Case("error after the kill", lambda: killed(False)),
             Case("next result after the kill", lambda: killed(True)),
             Case("stop() of a call that sleeps", stopped)]
    return Group("Worker that is killed", "ms", 3, cases)


GROUPS = (calls, streams, coroutines, pauses, copies, starts, faults)
# Groups whose executors start processes of their own.
UNPINNED = (starts, faults)
