"""Measures calls of farcall beside calls of the standard library: python -m farcall.bench.

Each figure is the median of batches, and the fastest batch in parentheses. All are measured in one run, in turns, so
that they can be compared. The program runs on one processor and all its workers on another one, if there are two; the
option --unpinned leaves this to the system.
"""

from __future__ import annotations

import concurrent.futures
import math
import multiprocessing
import os
import pickle
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import farcall

_BATCHES = 15
_BATCH_SECONDS = 0.01


def _echo(pipe: Any) -> None:
    while (message := pipe.recv()) is not None:
        pipe.send(message)


def _time(run: Callable[[int], None], count: int) -> float:
    begin = time.perf_counter()
    run(count)
    return (time.perf_counter() - begin) / count


def _loop(call: Callable[..., Any], *arguments: Any) -> Callable[[int], None]:
    def run(count: int) -> None:
        for _ in range(count):
            call(*arguments)

    return run


def _window(executor: concurrent.futures.Executor, function: Callable[..., Any]) -> Callable[[int], None]:
    def run(count: int) -> None:
        for future in [executor.submit(function, 2.0) for _ in range(count)]:
            future.result()

    return run


def _mapped(executor: concurrent.futures.Executor, **options: int) -> Callable[[int], None]:
    def run(count: int) -> None:
        for _ in executor.map(math.sqrt, range(count), **options):
            pass

    return run


def measure(cases: dict[str, Callable[[int], None]]) -> dict[str, tuple[float, float]]:
    """Returns the median and the least time of a call, in microseconds, for each case."""
    counts = {}
    for name, run in cases.items():
        _time(run, 10)
        counts[name] = max(10, int(_BATCH_SECONDS / _time(run, 20)))
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(_BATCHES):
        for name, run in cases.items():
            times[name].append(_time(run, counts[name]) * 1e6)
    return {name: (statistics.median(values), min(values)) for name, values in times.items()}


def _copies(executor: farcall.Executor) -> dict[str, Callable[[], Any]]:
    """Returns functions that move 64 MiB whose pages are in use, beside copies in one process."""
    size = 64 << 20
    data, copy = bytearray(size), bytearray(size)
    array = farcall.empty(size, "u1", executor[0])
    send, receive = executor.function(len), executor.function(_kept)
    buffer: Any = pickle.PickleBuffer(data)

    def memcpy() -> None:
        memoryview(copy)[:] = data

    return {
        "memcpy": memcpy,
        "farcall: argument": lambda: send(buffer),
        "farcall: result": lambda: receive(size),
        "farcall: Array.put()": lambda: array.put(data),
        "farcall: Array.get(out=…)": lambda: array.get(copy),
        "farcall: argument that is an Array": lambda: send(array),
    }


def _print_copies(executor: farcall.Executor) -> None:
    cases = _copies(executor)
    times: dict[str, list[float]] = {name: [] for name in cases}
    for i in range(_BATCHES + 2):
        for name, run in cases.items():
            seconds = _time(lambda _, run=run: run(), 1)  # type: ignore[misc]
            if i >= 2:
                times[name].append(seconds * 1e3)
    print("\n64 MiB:")
    for name, values in times.items():
        ratio = statistics.median(values) / statistics.median(times["memcpy"])
        print(f"{name:<42} {statistics.median(values):9.2f} ms  ({min(values):.2f})  {ratio:.2f} × memcpy")


def _kept(size: int, kept: dict[int, Any] = {}) -> Any:  # pylint: disable=dangerous-default-value
    if size not in kept:
        kept[size] = pickle.PickleBuffer(bytearray(b"1") * size)
    return kept[size]


def _pin(workers: list[int]) -> None:
    """Lets this process and the workers run on one processor each."""
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) < 2 or "--unpinned" in sys.argv:
        return
    for process, processor in [(os.getpid(), processors[0]), *((pid, processors[1]) for pid in workers)]:
        for thread in os.listdir(f"/proc/{process}/task"):
            os.sched_setaffinity(int(thread), {processor})


def main() -> None:
    """Prints a table."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=_echo, args=(there,), daemon=True)
    process.start()

    def ping() -> None:
        here.send(())
        here.recv()

    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as standard:
        standard.submit(math.sqrt, 2.0).result()
        with farcall.Executor(1) as executor:
            _pin([process.pid or 0, *standard._processes, executor.submit(os.getpid).result()])
            empty, root, kinds = executor.function(tuple), executor.function(math.sqrt), executor.function(_kinds)
            cases = {
                "multiprocessing.Pipe, there and back": _loop(ping),
                "ProcessPoolExecutor: submit().result()": _loop(lambda: standard.submit(math.sqrt, 2.0).result()),
                "ProcessPoolExecutor: many submit()": _window(standard, math.sqrt),
                "ProcessPoolExecutor: map(chunksize=1000)": _mapped(standard, chunksize=1000),
                "farcall: function()": _loop(empty),
                "farcall: function(2.0)": _loop(root, 2.0),
                'farcall: function(1, 2.0, "x")': _loop(kinds, 1, 2.0, "x"),
                "farcall: function([])": _loop(executor.function(list), []),
                "farcall: submit().result()": _loop(lambda: executor.submit(math.sqrt, 2.0).result()),
                "farcall: many submit()": _window(executor, math.sqrt),
                "farcall: map()": _mapped(executor),
            }
            for name, (median, least) in measure(cases).items():
                print(f"{name:<42} {median:9.2f} µs  ({least:.2f})")
            _print_copies(executor)
    here.send(None)
    process.join()


def _kinds(number: int, real: float, text: str) -> float:
    return number + real + len(text)


if __name__ == "__main__":
    main()
