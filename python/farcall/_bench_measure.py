# SPDX-License-Identifier: Apache-2.0
"""Means of python -m farcall.bench: cases, and functions that measure calls."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

MIB = 1 << 20
LARGE = 64 * MIB
# Calls that are made before the first result is taken.
WINDOW = 256
MAPPED = 1_000_000
_PAUSE_SECONDS = 0.02


class Case(NamedTuple):
    """Something to measure. `sample()` returns seconds, or another quantity; infinity if something has not ended.

    `note` says why there is no sample. `taken` has samples that were taken before. A slow case has fewer rounds than
    its group.
    """

    name: str
    sample: Callable[[], float] | None
    is_farcall: bool = True
    goal: str = ""
    note: str = ""
    taken: tuple[float, ...] = ()
    most_rounds: int = 100


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


def round_trip(executor: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns the result of a call of an executor."""
    return executor.submit(function, *arguments).result()


def window(executor: Any, function: Callable[..., Any], *arguments: Any) -> Callable[[], float]:
    """Measures calls of which WINDOW are made before the first result is taken."""

    def run(count: int) -> None:
        for future in [executor.submit(function, *arguments) for _ in range(count)]:
            future.result()

    def sample() -> float:
        round_trip(executor, function, *arguments)  # wakes a worker that sleeps
        return _time(run, WINDOW) / WINDOW

    return sample


def mapped(mapping: Callable[..., Any], **options: int) -> Callable[[], float]:
    """Measures a function map() over so many numbers that its start does not count."""

    def run(count: int) -> None:
        for _ in mapping(math.sqrt, range(count), **options):
            pass

    return lambda: _time(run, MAPPED) / MAPPED


def first_result(mapping: Callable[..., Any], **options: int) -> Callable[[], float]:
    """Measures the first result of a function map(), whose other results are then read."""

    def sample() -> float:
        begin = time.perf_counter()
        results = iter(mapping(math.sqrt, range(MAPPED // 10), **options))
        next(results)
        seconds = time.perf_counter() - begin
        for _ in results:
            pass
        return seconds

    return sample


def after_pause(call: Callable[[], Any]) -> Callable[[], float]:
    """Measures a call after a pause in which workers begin to sleep."""

    def sample() -> float:
        call()
        time.sleep(_PAUSE_SECONDS)
        return seconds_of(call)()

    return sample
