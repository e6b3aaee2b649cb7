# SPDX-License-Identifier: Apache-2.0
"""Calls a Python function in another process, and prints the time of a call: python -m farcall.demo."""

from __future__ import annotations

import concurrent.futures
import math
import os
import statistics
from collections.abc import Callable

import farcall

from ._bench_measure import loop, round_trip
from .bench import pin


def _microseconds(sample: Callable[[], float]) -> float:
    return statistics.median(sample() for _ in range(9)) * 1e6


def main() -> None:
    """Prints the results of some calls, and their times beside the time of the standard library."""
    with farcall.Executor(1) as executor, concurrent.futures.ProcessPoolExecutor(1) as standard:
        root = executor.function(math.sqrt)
        worker = executor.submit(os.getpid).result()
        pin([worker, standard.submit(os.getpid).result()])
        print(f"math.sqrt(2.0) in process {worker}, called by process {os.getpid()}: {root(2.0)}")
        print(f"  farcall: function()                       {_microseconds(loop(root, 2.0)):8.2f} µs")
        submitted = _microseconds(loop(round_trip, executor, math.sqrt, 2.0))
        print(f"  farcall: submit().result()                {submitted:8.2f} µs")
        submitted = _microseconds(loop(round_trip, standard, math.sqrt, 2.0))
        print(f"  ProcessPoolExecutor: submit().result()    {submitted:8.2f} µs")


if __name__ == "__main__":
    main()
