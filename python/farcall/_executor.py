"""The executor, which is the interface of the package."""

from __future__ import annotations

import concurrent.futures
import os
import time
import weakref
from collections.abc import Callable, Generator, Iterable
from typing import Any, ParamSpec, TypeVar

from . import _functions
from ._future import Future
from ._map import Map
from ._pool import Pool

P = ParamSpec("P")
T = TypeVar("T")


def _cores() -> int:
    return len(os.sched_getaffinity(0))


class Executor(concurrent.futures.Executor):
    """Calls functions in worker processes on this machine.

    A concurrent.futures.Executor. It needs no `if __name__ == "__main__"`, and workers never run the main program.
    Lambdas, closures and functions of `__main__` can be called if the package cloudpickle is installed.
    """

    def __init__(self, max_workers: int | None = None, *, initializer: Callable[..., Any] | None = None,
                 initargs: tuple[Any, ...] = (), max_tasks_per_child: int | None = None,
                 preload: Iterable[str] = (), threads_per_worker: int | None = None) -> None:
        """Starts the workers.

        `max_workers` is their number, by default the number of processors; with 0, calls run in this thread at once.
        Each worker first calls `initializer(*initargs)`, and is replaced after `max_tasks_per_child` calls. Modules
        of `preload` are imported once for all workers. `threads_per_worker` limits the threads of numerical libraries
        in each worker, by default to the processors divided by the workers. Raises StartFailed.
        """
        count = _cores() if max_workers is None else max_workers
        if count < 0:
            raise ValueError("max_workers must be greater than 0, or 0 for calls in this process")
        if max_tasks_per_child is not None and max_tasks_per_child <= 0:
            raise ValueError("max_tasks_per_child must be at least 1")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        self._max_workers = count
        self._pool: Any
        if count == 0:
            self._pool = _InPlace(initializer, initargs)
            return
        threads = threads_per_worker or max(1, _cores() // count)
        self._pool = Pool(count, tuple(preload), threads, initializer, initargs, max_tasks_per_child)
        # The pool's thread keeps the pool, which ends when nobody can submit any more.
        weakref.finalize(self, Pool.shut, self._pool).atexit = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Calls `fn(*args, **kwargs)` on a worker, and returns a future of the result.

        If the arguments cannot be pickled, the future contains the error at once.
        """
        return self._pool.submit(fn, args, kwargs)  # type: ignore[no-any-return]

    def function(self, fn: Callable[P, T]) -> Callable[P, T]:
        """Returns a function that calls `fn` on a worker and waits for the result.

        The code of `fn` is sent to each worker once, as it is now. Such a call is the fastest: it has no future.
        """
        return self._pool.frozen(fn)  # type: ignore[no-any-return]

    def map(self, fn: Callable[..., T], *iterables: Iterable[Any], timeout: float | None = None,
            chunksize: int | None = None, buffersize: int | None = None) -> Generator[T, None, None]:
        """Returns an iterator over `fn(*row)` for each row of `zip(*iterables)`, in their order.

        Reads the iterables only a little ahead, so that they may be infinite. A worker gets `chunksize` rows at a
        time, by default as many as take about a millisecond. `buffersize` is the number of rows that are read ahead.
        Raises TimeoutError if a result is not there `timeout` seconds after the call of map().
        """
        if chunksize is not None and chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if buffersize is not None and buffersize < 1:
            raise ValueError("buffersize must be at least 1")
        end = None if timeout is None else time.monotonic() + timeout
        return Map(self._pool, fn, iterables, self._max_workers, chunksize, buffersize, end).results()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accepts no more calls, and ends the workers when the calls have ended. With `wait`, waits until then."""
        self._pool.shut()
        if cancel_futures:
            self._pool.cancel_pending()
        if wait:
            self._pool.wait()

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> bool | None:
        if exc_type is not None and issubclass(exc_type, KeyboardInterrupt):
            self._pool.shut()
            self._pool.cancel_pending()
            self._pool.kill()
        self.shutdown(wait=True)
        return None

    def __reduce__(self) -> Any:
        return _peers, ()


def _peers() -> Any:
    from ._peers import executor

    return executor()


class _InPlace:
    """Stands for a pool without workers: calls run at once, in the calling thread."""

    def __init__(self, initializer: Callable[..., Any] | None, initargs: tuple[Any, ...]) -> None:
        self._is_shut = False
        if initializer is not None:
            initializer(*initargs)

    def submit(self, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Future[Any]:
        """Calls the function, and returns a future that has its result."""
        if self._is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        future.node = 0
        try:
            future.set_result(function(*arguments, **keywords))
        except Exception as error:  # pylint: disable=broad-except
            future.set_exception(error)
        return future

    def submit_chunk(self, function: Callable[..., Any], rows: list[Any], is_flat: bool) -> Future[Any]:
        """Calls the function for each row."""
        return self.submit(_functions.apply_chunk, (function, rows, is_flat), {})

    def frozen(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the function itself."""
        return function

    def shut(self) -> None:
        """Accepts no more calls."""
        self._is_shut = True

    def cancel_pending(self) -> None:
        """Does nothing, because no call is pending."""

    def wait(self) -> None:
        """Returns, because all calls have ended."""

    def kill(self) -> None:
        """Does nothing, because there are no workers."""
