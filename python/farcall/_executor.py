"""The executor, which is the interface of the package."""

from __future__ import annotations

import concurrent.futures
import functools
import os
import signal
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ParamSpec, TypeVar

from . import _arguments, _worker
from ._calls import Settings, name_of
from ._future import Future
from ._in_place import InPlace
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
                 initargs: Iterable[Any] = (), max_tasks_per_child: int | None = None,
                 max_rss: int | str | None = None, retries: int = 0, call_timeout: float | None = None,
                 preload: Iterable[str] = (), threads_per_worker: int | None = None) -> None:
        """Starts the workers.

        `max_workers` is their number, by default the number of processors; with 0, calls run in this thread at once.
        Each worker first calls `initializer(*initargs)`. It is replaced after `max_tasks_per_child` calls, and after
        a call if it uses more memory than `max_rss`, which is a number of bytes or a text such as "4GiB". Calls whose
        worker ends are repeated `retries` times. A call that takes longer than `call_timeout` seconds is stopped, and
        fails with farcall.Timeout. Modules of `preload` are imported once for all workers. `threads_per_worker`
        limits the threads of numerical libraries in each worker, by default to the processors divided by the workers.
        In a task, the new executor uses the workers of the program's executor. Raises StartFailed, TypeError and
        ValueError.
        """
        count = _cores() if max_workers is None else _arguments.whole(
            "max_workers", max_workers, 0, "; 0 is for calls in this process")
        settings = Settings()
        settings.size = count
        settings.preload = _arguments.modules("preload", preload)
        settings.initargs = _arguments.values("initargs", initargs)
        settings.retries = _arguments.whole("retries", retries, 0)
        if initializer is not None:
            settings.initializer = _arguments.function("initializer", initializer)
        if max_tasks_per_child is not None:
            settings.most_tasks = _arguments.whole("max_tasks_per_child", max_tasks_per_child, 1)
        if max_rss is not None:
            settings.most_rss = _arguments.size("max_rss", max_rss)
        settings.threads = max(1, _cores() // max(count, 1)) if threads_per_worker is None else _arguments.whole(
            "threads_per_worker", threads_per_worker, 1)
        self._timeout = None if call_timeout is None else _arguments.seconds("call_timeout", call_timeout)
        self._max_workers = count
        self._pool: Any
        if count == 0:
            self._pool = InPlace(settings)
        elif _worker.job is not None:
            self._pool = _guest(settings)
        else:
            self._pool = Pool(settings)
            # The pool's thread keeps the pool, which ends when nobody can submit any more.
            weakref.finalize(self, Pool.shut, self._pool).atexit = False
        self._set_submit()

    def _set_submit(self) -> None:
        """Chooses the way of calls of submit()."""
        self._submit: Callable[..., Any] = self._pool.submit
        if self._timeout is not None:
            self._submit = functools.partial(self._pool.submit, seconds=self._timeout)
        elif isinstance(self._pool, Pool):
            self._submit = self._pool.express.submit

    def with_timeout(self, seconds: float | None) -> Executor:
        """Returns an executor with the same workers, whose calls have this time limit, or none.

        A call that takes longer is stopped as by Future.stop(), and fails with farcall.Timeout. The time begins when
        the worker begins the call. In map(), it is the limit of a chunk: `seconds`, times `chunksize` if that is given.
        The end of one of the two executors is the end of both.
        """
        made = Executor.__new__(Executor)
        made._timeout = None if seconds is None else _arguments.seconds("seconds", seconds)
        made._max_workers = self._max_workers
        made._pool = self._pool
        made._origin = self  # type: ignore[attr-defined] # which keeps the workers
        made._set_submit()
        return made

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Calls `fn(*args, **kwargs)` on a worker, and returns a future of the result.

        If the arguments cannot be pickled, the future contains the error at once.
        """
        return self._submit(fn, args, kwargs)  # type: ignore[no-any-return]

    def function(self, fn: Callable[P, T]) -> Callable[P, T]:
        """Returns a function that calls `fn` on a worker and waits for the result.

        The code of `fn` is sent to each worker once, as it is now. Such a call is the fastest: it has no future. The
        function keeps the executor alive.
        """
        _arguments.function("the argument of function()", fn)
        found, name, pool, seconds = self._pool.frozen(fn), name_of(fn), self._pool, self._timeout
        if seconds is None and not pool.needs_futures():
            return found.owned_by(self, name)  # type: ignore[no-any-return]

        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return self._pool.call(found, name, args, kwargs, seconds)  # type: ignore[no-any-return]

        return call

    def map(self, fn: Callable[..., T], *iterables: Iterable[Any], timeout: float | None = None,
            chunksize: int | None = None, buffersize: int | None = None) -> Iterator[T]:
        """Returns an iterator over `fn(*row)` for each row of `zip(*iterables)`, in their order.

        Reads the iterables only a little ahead, so that they may be infinite. A worker gets `chunksize` rows at a
        time, by default as many as take about a millisecond. `buffersize` is the number of rows that are read ahead.
        Raises TimeoutError if a result is not there `timeout` seconds after the call of map(). Results may be read
        after shutdown(): the workers end after the last result, or when the iterator is closed.
        """
        _arguments.function("the first argument of map()", fn)
        if chunksize is not None:
            chunksize = _arguments.whole("chunksize", chunksize, 1)
        if buffersize is not None:
            buffersize = _arguments.whole("buffersize", buffersize, 1)
        end = None if timeout is None else time.monotonic() + timeout
        self._pool.check()
        return Map(self._pool, fn, iterables, self._max_workers, chunksize, buffersize, end, self._timeout).results()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accepts no more calls, and ends the workers when the calls have ended. With `wait`, waits until then."""
        self._pool.shut()
        if cancel_futures:
            self._pool.cancel_pending()
        if wait:
            self._pool.wait()

    def terminate_workers(self) -> None:
        """Ends the executor at once: cancels calls that have not begun, and sends SIGTERM to the workers.

        Calls that run fail with NodeFailed.
        """
        self._end_workers(signal.SIGTERM)

    def kill_workers(self) -> None:
        """Ends the executor at once, like terminate_workers(), but sends SIGKILL to the workers."""
        self._end_workers(signal.SIGKILL)

    def _end_workers(self, number: int) -> None:
        self._pool.forget_maps()
        self._pool.shut()
        self._pool.cancel_pending()
        self._pool.kill(number)

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> bool | None:
        if exc_type is not None and issubclass(exc_type, KeyboardInterrupt):
            self._pool.abandon()
        self.shutdown(wait=True)
        return None

    def __reduce__(self) -> Any:
        return _peers, ()


def _peers() -> Any:
    from ._peers import executor

    return executor()


def _guest(settings: Settings) -> Any:
    from ._peers import Guest

    return Guest(settings)
