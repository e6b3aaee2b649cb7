# SPDX-License-Identifier: Apache-2.0
"""The executor, which is the interface of the package."""

from __future__ import annotations

import concurrent.futures
import functools
import os
import signal
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator

from . import _arguments, _ends, _output, _worker
from ._calls import Settings, name_of
from ._frozen import Counted
from ._future import Future
from ._in_place import InPlace
from ._map import Map
from ._pool import Pool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ParamSpec, TypeVar

    from ._core import Results
    from ._frozen import FrozenFunction

    P = ParamSpec("P")
    T = TypeVar("T")
    E = TypeVar("E", bound="Executor")


class Place:
    """A worker of an executor, or the worker that was started in its place. `index` is its number, from 0 on."""

    def __init__(self, executor: Executor, index: int) -> None:
        self._executor = executor
        self.index = index

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Calls `fn(*args, **kwargs)` on the worker, and returns a future of the result."""
        return self._executor.submit_to(self, fn, *args, **kwargs)

    @property
    def node(self) -> int | None:
        """Number of the worker's node at present, or None while the worker is being replaced."""
        worker = self._executor._pool.worker_at(self.index)
        return None if worker is None else worker.node

    @property
    def pid(self) -> int | None:
        """Process ID of the worker at present, or None while the worker is being replaced."""
        worker = self._executor._pool.worker_at(self.index)
        return None if worker is None else worker.pid

    def __repr__(self) -> str:
        return f"<worker {self.index} of {self._executor!r}>"


def _cores() -> int:
    return len(os.sched_getaffinity(0))


class Executor(concurrent.futures.Executor):
    """Calls functions in worker processes, like a concurrent.futures.ProcessPoolExecutor.

    Programs need no `if __name__ == "__main__"`, since workers never run the main program. Lambdas, closures and
    functions of `__main__` can be called if the package cloudpickle is installed. `executor[i]` is a worker, for `i`
    from 0 on. At the end of a `with` statement, the executor waits for its calls and ends the workers; after Ctrl-C, it
    ends them at once.
    """

    def __init__(self, max_workers: int | str | None = None, *, initializer: Callable[..., Any] | None = None,
                 initargs: Iterable[Any] = (), max_tasks_per_child: int | None = None,
                 max_rss: int | str | None = None, retries: int = 0, call_timeout: float | None = None,
                 preload: Iterable[str] = (), threads_per_worker: int | None = None, output: Any = None,
                 log: str | None = None, **options: Any) -> None:
        """Starts the workers.

        `max_workers` is their number, by default the number of processors; with 0, calls run in this thread at once.
        Each worker first calls `initializer(*initargs)`. It is replaced after `max_tasks_per_child` calls, and after
        a call if it uses more memory than `max_rss`, which is a number of bytes or a text such as "4GiB". Calls whose
        worker ends are repeated `retries` times. A call that takes longer than `call_timeout` seconds is stopped, and
        fails with farcall.Timeout. Modules of `preload` are imported once for all workers. `threads_per_worker`
        limits the threads of numerical libraries in each worker, by default to the processors divided by the workers.
        In a task, the new executor uses the workers of the program's executor. Raises StartFailed, TypeError and
        ValueError. If the initializer raises an exception, all calls fail with concurrent.futures.BrokenExecutor.

        `output` gets the lines that workers print: with "label" or "print", the program prints them to sys.stdout and
        sys.stderr, with or without the number of the node; a logger gets records; and a function is called with the
        node, the stream (1 for standard output, 2 for standard error) and the line, on a thread of the executor. By
        default workers write to the program's own descriptors. With log="forward", log records of workers go to the
        loggers of the program.

        `max_workers` may also be URLs of workers, as in "shm:2,tcp://host:7070?count=8"; servers are started by
        `python -m farcall serve`. Other options, for instance `key`, then have the same meaning as in farcall.Job.
        With "mpirun" or "srun", the workers are the other processes that the launcher has started, which serve calls
        here, and then end.
        """
        urls = max_workers if isinstance(max_workers, str) else None
        if urls is None and options:
            from ._job import OPTIONS

            _arguments.no_options(options, ("max_workers", *(Executor.__init__.__kwdefaults__ or ())), OPTIONS)
        if urls is not None and urls.strip().isdecimal():
            raise TypeError(f"max_workers must be a whole number or URLs, not the text {urls!r}")
        if urls is not None and (max_tasks_per_child is not None or max_rss is not None or log is not None):
            raise ValueError("max_tasks_per_child, max_rss and log are only for workers without URLs")
        count = 1 if urls is not None else _cores() if max_workers is None else _arguments.whole(
            "max_workers", max_workers, 0, hint="; 0 is for calls in this process")
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
        self._timeout = _arguments.time_limit("call_timeout", call_timeout)
        if urls is not None or count != 0:
            _ends.refuse_to_make("an Executor")
        if urls is not None:
            from ._remote import Source

            settings.preload = Source(urls, settings.preload, threads_per_worker, output, options)
            settings.size = count = settings.preload.count
            output = None
        self._max_workers = count
        self._pool: Any
        if count == 0:
            self._pool = InPlace(settings)
        elif _worker.job is not None:
            self._pool = _guest(settings)
        else:
            settings.output = _output.make(output, log)
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
        made._timeout = _arguments.time_limit("seconds", seconds)
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

    def function(self, fn: Callable[P, T]) -> FrozenFunction[P, T]:
        """Returns a function that calls `fn` on a worker and waits for the result.

        The code of `fn` is sent to each worker once, as it is now. Such a call is the fastest: it has no future. The
        function keeps the executor alive. Its submit() returns a future, and its aio() is for coroutines.
        """
        _arguments.function("the argument of function()", fn)
        found, name, pool, seconds = self._pool.frozen(fn), name_of(fn), self._pool, self._timeout
        if seconds is None and not pool.needs_futures():
            made = found.owned_by(self, name)
            made.pool, made.called = pool, fn
            return made  # type: ignore[no-any-return]
        return Counted(pool, found, name, fn, seconds)

    def submit_to(self, worker: int | Place, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Calls `fn(*args, **kwargs)` on a given worker, and returns a future of the result.

        `worker` is a number from 0 on, or executor[i]. A worker that is started in the place of another one takes over
        its number, with the calls that have not begun. Raises RuntimeError in a task.
        """
        return self._pool.submit(fn, args, kwargs, self._timeout, self.index_of(worker))  # type: ignore[no-any-return]

    def broadcast(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> list[T]:
        """Calls `fn(*args, **kwargs)` once on each worker, and returns the results in the order of the workers.

        Waits until all calls have ended, and then raises the first exception, if any. Workers that are started later
        do not call the function; `initializer` is for them. Raises RuntimeError in a task.
        """
        futures = [self._pool.submit(fn, args, kwargs, self._timeout, index) for index in range(len(self._places()))]
        concurrent.futures.wait(futures)
        return [future.result() for future in futures]

    def _places(self) -> range:
        if isinstance(self._pool.key, int) and not isinstance(self._pool, Pool):
            raise RuntimeError("a task cannot choose workers")
        return range(max(self._max_workers, 1))

    def index_of(self, worker: int | Place) -> int:
        """Returns the number of a worker, from 0 on. Raises IndexError and TypeError."""
        if isinstance(worker, Place):
            return worker.index
        return _arguments.worker(worker, len(self._places()))

    def __len__(self) -> int:
        """Returns the number of workers, 0 if calls run in this process."""
        return self._max_workers

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, index: int) -> Place:
        return Place(self, self.index_of(index))

    def create(self, cls: Callable[..., Any], /, *args: Any, node: int | Place | None = None,
               threads: int | None = None, **kwargs: Any) -> Any:
        """Makes the object `cls(*args, **kwargs)` on a worker, and returns a handle of it, an actor.

        `node` is the worker, as for submit_to(), by default the one with the fewest actors. The calls of an actor begin
        in the order in which a thread makes them, one at a time, as long as no method waits for other calls. While one
        waits, the next calls run, and may overlap the rest of the method. `threads` is a number of threads of its own,
        which run as many calls at once; with 1, calls never overlap. Waits for the constructor, and raises its
        exception.
        """
        from ._actors import Creation

        return Creation(self, cls, args, kwargs, node, threads).wait()

    async def acreate(self, cls: Callable[..., Any], /, *args: Any, node: int | Place | None = None,
                      threads: int | None = None, **kwargs: Any) -> Any:
        """Makes an object on a worker, like create(), without blocking the event loop of asyncio."""
        from ._actors import Creation

        return await Creation(self, cls, args, kwargs, node, threads).wait_in_loop()

    def map(self, fn: Callable[..., T], *iterables: Iterable[Any], timeout: float | None = None,
            chunksize: int | None = None, buffersize: int | None = None, unordered: bool = False) -> Results[T]:
        """Returns an iterator over `fn(*row)` for each row of `zip(*iterables)`.

        Results come in the order of the rows, or, with `unordered`, as soon as they are ready. Reads the iterables only
        a little ahead, so that they may be infinite. A worker gets `chunksize` rows at a time, by default as many as
        take about a millisecond. `buffersize` is the number of rows that are read ahead. Raises TimeoutError if a
        result is not there `timeout` seconds after the call of map(). Results may be read after shutdown(): the workers
        end after the last result, or when the iterator is closed.
        """
        return self._map(fn, *_rows(iterables), timeout, chunksize, buffersize, unordered).results()

    def starmap(self, fn: Callable[..., T], rows: Iterable[Iterable[Any]], *, timeout: float | None = None,
                chunksize: int | None = None, buffersize: int | None = None, unordered: bool = False) -> Results[T]:
        """Returns an iterator over `fn(*row)` for each of `rows`; see map()."""
        return self._map(fn, iter(rows), False, timeout, chunksize, buffersize, unordered).results()

    def amap(self, fn: Callable[..., T], *iterables: Iterable[Any], chunksize: int | None = None,
             buffersize: int | None = None) -> AsyncIterator[T]:
        """Returns an asynchronous iterator over `fn(*row)` for each row, in their order, for `async for`; see map()."""
        from ._asyncio import results

        return results(self._map(fn, *_rows(iterables), None, chunksize, buffersize))

    def _map(self, fn: Callable[..., Any], rows: Iterator[Any], is_flat: bool, timeout: float | None,
             chunksize: int | None, buffersize: int | None, unordered: bool = False) -> Map:
        _arguments.function("the first argument of map()", fn)
        if chunksize is not None:
            chunksize = _arguments.whole("chunksize", chunksize, 1)
        if buffersize is not None:
            buffersize = _arguments.whole("buffersize", buffersize, 1)
        end = None if timeout is None else time.monotonic() + timeout
        self._pool.check()
        kind: type[Map] = Map
        if unordered:
            from ._unordered import UnorderedMap

            kind = UnorderedMap
        return kind(self._pool, fn, rows, is_flat, self._max_workers, chunksize, buffersize, end, self._timeout)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accepts no more calls, and ends the workers when the calls have ended. With `wait`, waits until then.

        With `cancel_futures`, cancels the calls that have not begun.
        """
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

    async def __aenter__(self: E) -> E:
        return self

    async def __aexit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        from ._asyncio import leave

        await leave(self, exc_type is not None and not issubclass(exc_type, Exception))

    def __repr__(self) -> str:
        return f"<farcall.Executor with {self._max_workers} worker{'' if self._max_workers == 1 else 's'}>"

    def __reduce__(self) -> Any:
        return _peers, (self._pool.key, self._max_workers)


def _rows(iterables: tuple[Iterable[Any], ...]) -> tuple[Iterator[Any], bool]:
    """Returns an iterator over rows, and whether they are single arguments."""
    return (iter(iterables[0]), True) if len(iterables) == 1 else (zip(*iterables), False)


def _peers(key: int, workers: int) -> Any:
    from ._peers import executor

    return executor(key, workers)


def _guest(settings: Settings) -> Any:
    from ._peers import Guest

    return Guest(settings)
