# SPDX-License-Identifier: Apache-2.0
"""Futures of calls to nodes of a Job."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures._base import RUNNING

from . import _core, _worker
from ._calls import EXCEPTION, RESULT, set_outcome
from ._errors import NodeFailed, UnknownFunction
from ._functions import Functions
from ._future import Future

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Time between two looks at signals.
_SLICE_NS = 50_000_000
# Number of calls from which on a thread takes results that no thread waits for.
_MANY = 1000


def _explained(error: Exception, node: int) -> Exception:
    """Returns the error of a call that could not be sent, with a reason if the node does not run Python."""
    if not isinstance(error, UnknownFunction):
        return error
    explained = UnknownFunction(f"node {node} runs no Python functions, because its program is another one; targets "
                                "run Python if they are of this machine and have no program, or of python -m farcall "
                                "serve")
    explained.node, explained.status = node, error.status
    explained.__cause__ = error
    return explained


class Calls:
    """Calls of a job that were sent, and the thread that takes their results.

    The thread runs only if it is needed: for callbacks, and for futures that are waited for with a time limit.
    Otherwise the thread that waits for a future takes the results, which saves a change of threads.
    """

    def __init__(self, core: Any) -> None:
        self.core = core
        self._queue = _core.Queue(core)
        self._taken: deque[tuple[Any, ...]] = deque()
        self._open: dict[Future[Any], Any] = {}
        self._local = threading.local()
        self.has_tasks = False  # true if tasks of this process make calls
        self._role = threading.Lock()  # held by the thread that takes results
        self._lock = threading.Lock()
        self._is_needed = False
        self._has_ended = False
        self._wakes = threading.Event()
        self._thread: threading.Thread | None = None
        self._functions: Functions | None = None

    def submit(self, native: Any, arguments: tuple[Any, ...]) -> Future[Any]:
        """Calls a function in C. Wrong arguments are errors of this function."""
        future = self._new()
        try:
            native.send(self._queue, arguments, future)
        except BaseException:
            self._close(future)
            raise
        return future

    def submit_python(self, node: int, function: Callable[..., Any], arguments: tuple[Any, ...],
                      keywords: dict[str, Any]) -> Future[Any]:
        """Calls a Python function on a node. Errors are in the future."""
        if self._functions is None:
            with self._lock:
                if self._functions is None:
                    self._functions = Functions(self.core)
        future = self._new()
        future.node = node
        try:
            if node == self.core.own() and not self.has_tasks:
                raise ValueError(f"node {node} is this program; call the function itself")
            target, message = self._functions.encode(function, arguments, keywords)
            self.core.meet(node)
            self._queue.send(target, message, node, future)
        except Exception as error:  # pylint: disable=broad-except
            self._close(future)
            future.pool = None
            future.set_exception(_explained(error, node))
        return future

    def _new(self) -> Future[Any]:
        future: Future[Any] = Future()
        future._state = RUNNING  # pylint: disable=protected-access # as no other thread has it
        future.pool = self
        self._open[future] = counter = self._counter() if self.has_tasks else None
        if counter is not None:
            counter.begin()
        if len(self._open) > _MANY:
            self.need_thread()
        return future

    def _counter(self) -> Any:
        from ._peers import counter_of

        return counter_of(self._local)

    def _close(self, future: Future[Any]) -> None:
        counter = self._open.pop(future, None)
        if counter is not None:
            counter.end()

    # ---- results

    def need_thread(self) -> None:
        """Lets a thread take results until all calls have ended."""
        with self._lock:
            if self._is_needed or self._has_ended:
                return
            self._is_needed = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="farcall-calls", daemon=True)
                self._thread.start()
        self._wakes.set()
        self._queue.wake()

    def help(self, future: Future[Any]) -> None:
        """Takes results in the calling thread until the future has its result, unless another thread takes them.

        A signal handler may raise an exception anywhere in this function, so it changes nothing that cannot be done
        again.
        """
        if threading.current_thread() is self._thread:
            while not future.has_ended():
                self._take()
            return
        if self._is_needed or not self._role.acquire(blocking=False):
            return
        try:
            while not self._is_needed and not self._has_ended and not future.has_ended():
                self._queue.take(_SLICE_NS, self._taken.append)
                while self._taken:
                    ended, has_failed, value = self._taken[0]
                    if has_failed or not ended.settle_alone(value):
                        self.need_thread()
                        return
                    self._close(ended)
                    self._taken.popleft()
        finally:
            self._role.release()

    def poll(self, _: int) -> None:
        """Lets a thread take results, because event loops of asyncio must not wait."""
        self.need_thread()

    def stop(self, future: Future[Any], _: float) -> bool:
        """Cancels the future of a call, which goes on. Returns False if the call has ended."""
        if future.has_ended():
            return False
        future.set_stopped()
        return future.cancelled()

    def _take(self) -> None:
        """Takes results, and runs callbacks."""
        if not self._taken:
            self._queue.take(_SLICE_NS, self._taken.append)
        self._settle()

    def _settle(self) -> None:
        while self._taken:
            future, has_failed, value = self._taken.popleft()
            self._close(future)
            set_outcome(future, EXCEPTION if has_failed else RESULT, value)
            del future, value

    def _run(self) -> None:
        while not self._has_ended:
            self._wakes.wait()
            self._wakes.clear()
            with self._role:
                while self._open and not self._has_ended:
                    self._take()
            with self._lock:
                self._is_needed = self._wakes.is_set()

    # ---- the end

    def end(self) -> None:
        """Ends the job. Calls that have not ended fail."""
        self._end_with(self.core.end)

    def close(self) -> None:
        """Ends a job of equals together with the other processes."""
        self._end_with(lambda: _core.close_job(self.core))

    def _end_with(self, end_job: Callable[[], Any]) -> None:
        with self._lock:
            self._has_ended = True
        self._wakes.set()
        self._queue.wake()
        if self._thread is not threading.current_thread():
            if self._thread is not None:
                self._thread.join()
            with self._role:
                self._finish(end_job)
        else:
            self._finish(end_job)

    def _finish(self, end_job: Callable[[], Any]) -> None:
        end_job()
        self._queue.take_rest(self._taken.append)
        # The end of a job does not wait longer than the stop timeout for threads that pass on results.
        for future in list(self._open):
            error = NodeFailed("the job has ended before the call had its result")
            error.status = "FC_NODE_FAILED"
            self._taken.append((future, True, error))
        self._settle()
