# SPDX-License-Identifier: Apache-2.0
"""Programs that python -m farcall.bench starts, each with the workers of one package.

python -m farcall._bench_programs PROGRAM PACKAGE prints numbers, one a line: seconds, or the ID of a process.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

from . import _bench_anchors, _bench_measure, _bench_tasks

_HEAVY_ROUNDS = 5
# Time after which a call counts as hanging.
_HANG_SECONDS = 5


# Packages print to standard output, so numbers have a descriptor of their own.
_numbers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)


def _tell(value: object) -> None:
    print(value, file=_numbers, flush=True)


def start(kind: type[_bench_anchors.Anchor]) -> None:
    """Tells the time until four new workers have returned results."""
    importlib.import_module(kind.module)
    begin = time.perf_counter()
    made = kind(4)
    for call in [made.submit(math.sqrt, 2.0) for _ in range(8)]:
        call.result()
    _tell(time.perf_counter() - begin)
    made.end()


def further(kind: type[_bench_anchors.Anchor]) -> None:
    """Tells the time until four further workers have returned results."""
    first = kind(1)
    first.submit(math.sqrt, 2.0).result()
    start(kind)
    first.end()


def idle(kind: type[_bench_anchors.Anchor]) -> None:
    """Tells the process of a worker that has run a call, and waits for the end of the input."""
    made = kind(1)
    _tell(made.submit(os.getpid).result())
    sys.stdin.read()
    made.end()


def kill(kind: type[_bench_anchors.Anchor]) -> None:
    """Tells that a call runs, the time from the end of its worker to its error, and from there to the next result."""
    made = kind(1)
    pid = made.submit(os.getpid).result()
    call = made.submit(_bench_tasks.sleep_long)
    time.sleep(0.1)
    _tell("runs")
    begin = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    try:
        call.result()
    except Exception:  # pylint: disable=broad-except
        pass
    end = time.perf_counter()
    _tell(end - begin)
    try:
        made.submit(math.sqrt, 2.0).result()
    except Exception:  # pylint: disable=broad-except
        # The program needs other workers.
        made.end()
        made = kind(1)
        made.submit(math.sqrt, 2.0).result()
    _tell(time.perf_counter() - end)
    made.end()


def interrupt(kind: type[_bench_anchors.Anchor]) -> None:
    """Waits for a call that does not end, in a program that Ctrl-C ends."""
    # Shells let programs in the background ignore the signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    made = kind(2)
    made.submit(math.sqrt, 2.0).result()
    call = made.submit(_bench_tasks.sleep_long)
    threading.Timer(0.1, _tell, ["waits"]).start()
    if isinstance(made, _bench_anchors.Executor):
        with made.executor:
            call.result()
    try:
        call.result()
    finally:
        made.end()


def figures(kind: type[_bench_anchors.Anchor]) -> None:
    """Tells samples of calls: lines of JSON, each with a key of Executors.heavy()."""
    made = kind(1)
    made.submit(math.sqrt, 2.0).result()

    def take(key: str, sample: Callable[[], float]) -> None:
        _tell(json.dumps({key: [sample() for _ in range(_HEAVY_ROUNDS)]}))

    take("call", _bench_measure.loop(_bench_measure.round_trip, made, math.sqrt, 2.0))
    if isinstance(made, _bench_anchors.Joblib):
        _figures_of_joblib(made, take)
    else:
        take("window", _bench_measure.window(made, math.sqrt, 2.0))
        take("pause", _bench_measure.after_pause(lambda: made.submit(math.sqrt, 2.0).result()))
    if isinstance(made, _bench_anchors.Ray):
        _figures_of_ray(made, take)
    if isinstance(made, _bench_anchors.Dask):
        data = _bench_tasks.ones()
        take("argument", _bench_measure.seconds_of(lambda: made.submit(len, data).result()))
        take("result", _bench_measure.seconds_of(lambda: made.submit(_bench_tasks.ones).result()))
    made.end()


def _figures_of_joblib(made: _bench_anchors.Joblib, take: Callable[[str, Callable[[], float]], None]) -> None:
    def mapped() -> float:
        begin = time.perf_counter()
        made.parallel(made.delayed(math.sqrt)(number) for number in range(10_000))
        return (time.perf_counter() - begin) / 10_000

    take("map", mapped)


def _figures_of_ray(made: _bench_anchors.Ray, take: Callable[[str, Callable[[], float]], None]) -> None:
    ray = made.ray
    data = _bench_tasks.ones()
    take("argument", _bench_measure.seconds_of(lambda: made.submit(len, data).result()))
    take("result", _bench_measure.seconds_of(lambda: made.submit(_bench_tasks.ones).result()))
    there = ray.put(data)
    take("shared", _bench_measure.loop(_bench_measure.round_trip, made, _bench_tasks.first_of, there))
    actor = ray.remote(num_cpus=0)(_bench_tasks.Counter).remote()
    take("method", _bench_measure.loop(lambda: ray.get(actor.add.remote(1))))

    def stopped() -> float:
        call = ray.remote(max_retries=0)(_bench_tasks.sleep_long).remote()
        time.sleep(0.5)
        begin = time.perf_counter()
        ray.cancel(call)
        if ray.wait([call], timeout=_HANG_SECONDS)[0]:
            return time.perf_counter() - begin
        ray.cancel(call, force=True)
        return math.inf

    take("stop", stopped)


PROGRAMS = {each.__name__: each for each in (start, further, idle, kill, interrupt, figures)}

if __name__ == "__main__":
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    PROGRAMS[sys.argv[1]](_bench_anchors.ALL[sys.argv[2]])
