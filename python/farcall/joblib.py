# SPDX-License-Identifier: Apache-2.0
"""Backend of joblib: farcall.joblib.register(), then joblib.parallel_config("farcall").

joblib.Parallel, and packages that use it, such as scikit-learn, then call their functions on workers of farcall.
"""

from __future__ import annotations

import concurrent.futures
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

# pyright takes this file for joblib if joblib is not installed.
# pyright: reportAttributeAccessIssue=false, reportIncompatibleMethodOverride=false
import joblib  # type: ignore[import-not-found,import-untyped,unused-ignore]
from joblib._parallel_backends import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
    AutoBatchingMixin,
    FallbackToBackend,
    ParallelBackendBase,
    SequentialBackend,
)

from ._executor import Executor

# Executor for each number of workers, number of threads, and options. An executor that no call uses ends when
# another one is made.
_executors: dict[Any, _Shared] = {}
_lock = threading.RLock()
# Calls of joblib.Parallel that are nested deeper run in their task, one after the other.
_MOST_NESTED = 2


class _Shared:
    """Executor that calls of joblib.Parallel use in turns, or at the same time."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.users = 0


def _borrow(workers: int, threads: int, options: dict[str, Any]) -> _Shared:
    key = workers, threads, repr(sorted(options.items()))
    with _lock:
        found = _executors.get(key)
        if found is None:
            end(wait=False)
            found = _executors[key] = _Shared(Executor(workers, threads_per_worker=threads, **options))
        found.users += 1
        return found


def _give_back(shared: _Shared) -> None:
    with _lock:
        shared.users -= 1


def end(wait: bool = True) -> None:
    """Ends the workers that no call of joblib.Parallel uses. Otherwise they stay for the next call."""
    with _lock:
        unused = [key for key, each in _executors.items() if each.users == 0]
        ended = [_executors.pop(key) for key in unused]
    for each in ended:
        each.executor.shutdown(wait)


class FarcallBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    """Backend of joblib.Parallel.

    joblib.parallel_config("farcall", ...) has the parameters of farcall.Executor, and `executor`, which is an executor
    of the program. Without it, executors are kept for later calls. `n_jobs` is -1 by default, for all processors.
    """

    supports_retrieve_callback = True
    supports_inner_max_num_threads = True
    default_n_jobs = -1

    def __init__(self, nesting_level: int | None = None, inner_max_num_threads: int | None = None,
                 executor: Executor | None = None, **options: Any) -> None:
        super().__init__(nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads)
        self._given = executor
        self._options = {"preload": ("joblib",), **options}
        self._shared: _Shared | None = None
        self._futures: weakref.WeakSet[Any] = weakref.WeakSet()
        self.parallel: Any = None

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Returns how many calls run at the same time."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        most = joblib.cpu_count() if self._given is None else self._given._max_workers
        if n_jobs is None:
            return 1
        if n_jobs < 0:
            return max(int(most) + 1 + n_jobs, 1)
        return n_jobs if self._given is None else min(n_jobs, max(most, 1))

    def configure(self, n_jobs: int = 1, parallel: Any = None, prefer: Any = None, require: Any = None,
                  initializer: Callable[..., Any] | None = None, initargs: tuple[Any, ...] = (),
                  **unused: Any) -> int:
        """Prepares the workers for calls, and returns how many calls run at the same time.

        `initializer` and `initargs` are parameters of joblib.Parallel, for executors that the program has not given.
        Ignores settings of joblib for the files by which other backends share arrays.
        """
        del prefer, require, unused
        count = self.effective_n_jobs(n_jobs)
        if count == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        self.parallel = parallel
        if self._given is None:
            threads = self.inner_max_num_threads or max(1, joblib.cpu_count() // count)
            options = self._options
            if initializer is not None:
                options = {**options, "initializer": initializer, "initargs": initargs}
            self._shared = _borrow(count, threads, options)
        return count

    def _executor(self) -> Executor:
        if self._given is not None:
            return self._given
        if self._shared is None:
            raise RuntimeError("the call of joblib.Parallel has ended")
        return self._shared.executor

    def submit(self, func: Callable[[], Any], callback: Callable[[Any], Any] | None = None) -> Any:
        """Calls a batch of functions on a worker."""
        future = self._executor().submit(func)
        self._futures.add(future)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Any) -> Any:
        """Returns the results of a batch, or raises its exception."""
        try:
            return out.result()
        except concurrent.futures.CancelledError:
            raise RuntimeError("the call was cancelled, because another one has failed") from None

    def terminate(self) -> None:
        """Gives the workers back, which stay for later calls."""
        if self._shared is not None:
            _give_back(self._shared)
            self._shared = None
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Cancels calls that have not begun, and stops calls that run. The workers stay."""
        for future in list(self._futures):
            future.stop()
        self._futures.clear()

    def get_nested_backend(self) -> tuple[Any, Any]:
        """Returns the backend of joblib.Parallel in tasks, which uses the same workers."""
        level = (self.nesting_level or 0) + 1
        if level > _MOST_NESTED:
            return SequentialBackend(nesting_level=level), None
        return FarcallBackend(level, executor=self._executor()), None

    def __reduce__(self) -> Any:
        return _nested, (self.nesting_level, self._executor())


def _nested(level: int, executor: Executor) -> FarcallBackend:
    register()  # in a worker, where functions may choose the backend by its name
    return FarcallBackend(level, executor=executor)


def register() -> None:
    """Makes the backend known to joblib, by the name "farcall"."""
    joblib.register_parallel_backend("farcall", FarcallBackend)


def _forget_all() -> None:
    """In a forked child, leaves the executors to the parent."""
    global _lock  # pylint: disable=global-statement
    _lock = threading.RLock()
    _executors.clear()


os.register_at_fork(after_in_child=_forget_all)
