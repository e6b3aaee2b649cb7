# SPDX-License-Identifier: Apache-2.0
"""Uses of the package, whose types typing_test.py checks. The code never runs.

A comment `type: ignore` marks an error that both checkers must report: mypy --strict and pyright complain about such a
comment where they find no error.
"""

import math
from collections.abc import Callable
from concurrent.futures import Executor as StandardExecutor
from concurrent.futures import Future as StandardFuture
from typing import assert_type

import farcall


def scale(number: float, *, by: int = 2) -> float:
    """Has a keyword that only submit() can pass on."""
    return number * by


def submit(executor: farcall.Executor) -> None:
    """The function gives futures their type, and arguments theirs."""
    assert_type(executor.submit(scale, 1.0, by=3), farcall.Future[float])
    assert_type(executor.submit(scale, 1.0).result(timeout=1.0), float)
    assert_type(executor.submit(len, "text").exception(), BaseException | None)
    assert_type(executor.submit(len, "text").node, int | None)
    executor.submit(scale, "1")  # type: ignore[arg-type]
    executor.submit(scale)  # type: ignore[call-arg]
    executor.submit(scale, 1.0, of=3)  # type: ignore[call-arg]


def function(executor: farcall.Executor) -> None:
    """A function of workers has the arguments and the result of the function."""
    root = executor.function(math.sqrt)
    assert_type(root(4.0), float)
    assert_type(executor.function(scale)(1.0, by=3), float)
    root("4")  # type: ignore[arg-type]


def many(executor: farcall.Executor) -> None:
    """Iterators of map() have the type of the result."""
    results = executor.map(scale, [1.0, 2.0], chunksize=3, buffersize=10, timeout=1.0)
    assert_type(next(results), float)
    results.close()
    assert_type(list(executor.map(pow, [1, 2], [3, 4])), list[int])
    futures = [executor.submit(math.sqrt, number) for number in range(3)]
    for future in farcall.as_completed(futures):
        assert_type(future, farcall.Future[float])
        assert_type(future.result(), float)
    assert_type(farcall.wait(futures, return_when=farcall.FIRST_COMPLETED).done, set[farcall.Future[float]])


def standard(executor: farcall.Executor) -> StandardFuture[int]:
    """Executors and futures may be used as objects of concurrent.futures."""
    kept: StandardExecutor = executor
    callback: Callable[[StandardFuture[int]], object] = print
    future: StandardFuture[int] = executor.submit(len, "text")
    future.add_done_callback(callback)
    kept.shutdown(cancel_futures=True)
    return future


def options() -> None:
    """The executor knows its options."""
    with farcall.Executor(2, initializer=scale, initargs=(1.0,), preload=["math"], threads_per_worker=1,
                          max_tasks_per_child=3) as executor:
        assert_type(executor, farcall.Executor)
    farcall.Executor(2, initargs=3)  # type: ignore[arg-type]


def errors(executor: farcall.Executor) -> None:
    """Errors have the classes that the guide names."""
    try:
        executor.submit(math.sqrt, -1.0).result()
    except farcall.NodeFailed as error:
        assert_type(error, farcall.NodeFailed)
        raise OSError("failed") from error
    except (farcall.RemoteError, farcall.StartFailed):
        pass
