"""The executor of tasks: calls from a worker to all workers of its job."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from . import _worker
from ._executor import Executor
from ._future import Future
from ._functions import Functions, apply_chunk
from ._pool import Call

# Outcomes of calls.
_FAILED = 1
_RETURNED = 2


class _Counter:
    """Calls of a task that have not ended. While there are some, another thread serves in place of the task."""

    __slots__ = ("lock", "count")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0

    def begin(self) -> None:
        """Counts one more call of the calling task."""
        with self.lock:
            self.count += 1
            first = self.count == 1
        if first:
            _worker.begin_wait()

    def end(self) -> None:
        """Counts one call less."""
        with self.lock:
            self.count -= 1
            last = self.count == 0
        if last:
            _worker.end_wait()


class Peers:
    """Calls from this worker to all workers of its job, itself among them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.job = _worker.job
        self.functions = Functions(self.job)
        self._calls: dict[int, tuple[Call, _Counter | None]] = {}
        self._next = 1
        self._turn = self.job.own()
        self._local = threading.local()
        threading.Thread(target=self._run, name="farcall-queue", daemon=True).start()

    def _counter(self) -> _Counter | None:
        if not _worker.serves():
            return None
        counter = getattr(self._local, "counter", None)
        if counter is None:
            counter = self._local.counter = _Counter()
        return counter

    def submit(self, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Future[Any]:
        """Calls a function on the next worker."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        try:
            target, message = self.functions.encode(function, arguments, keywords)
        except Exception as error:  # pylint: disable=broad-except
            future.set_exception(error)
            return future
        self._send(Call(future, target, message, ""), self._counter())
        return future

    def _send(self, call: Call, counter: _Counter | None) -> None:
        with self._lock:
            nodes = self.job.alive()
            node = call.future.node = next((n for n in nodes if n > self._turn), nodes[0])
            self._turn = node
            self.job.meet(node)
            self.job.choose(node, True)
            tag = self._next
            self._next += 1
            self._calls[tag] = call, counter
        if counter is not None:
            counter.begin()
        try:
            self.job.send(call.function, call.message, node, tag)
        except Exception as error:  # pylint: disable=broad-except
            self._finish(tag, _FAILED, error)

    def submit_chunk(self, function: Callable[..., Any], rows: list[Any], is_flat: bool) -> Future[Any]:
        """Calls a function for each row of arguments, as one call."""
        return self.submit(apply_chunk, (function, rows, is_flat), {})

    def frozen(self, function: Callable[..., Any]) -> Any:
        """Returns the Function for the present state of a function."""
        with self._lock:
            for node in self.job.alive():
                self.job.meet(node)
                self.job.choose(node, True)
        return self.functions.frozen(function)

    def _finish(self, tag: int, outcome: int, value: Any) -> None:
        with self._lock:
            call, counter = self._calls.pop(tag)
        if outcome == _RETURNED:
            self._send(call, counter)
        if counter is not None:
            counter.end()
        if outcome == _FAILED:
            call.future.set_exception(value)
        elif outcome != _RETURNED:
            call.future.set_result(value)

    def _run(self) -> None:
        while True:
            taken: list[tuple[Any, ...]] = []
            try:
                self.job.take(-1, taken.append)
            except RuntimeError:
                return  # the job has ended
            for tag, _, outcome, value in taken:
                if tag is not None:
                    self._finish(tag, outcome, value)
            value = None  # keeps no result alive during the next wait

    def shut(self) -> None:
        """Does nothing, because the executor belongs to the host."""

    def cancel_pending(self) -> None:
        """Does nothing, because all calls were sent."""

    def wait(self) -> None:
        """Returns at once."""

    def kill(self) -> None:
        """Does nothing, because the workers belong to the host."""


_lock = threading.Lock()
_executor: Executor | None = None


def executor() -> Executor:
    """Returns the executor of the tasks of this worker. Raises RuntimeError in a process that is no worker."""
    global _executor  # pylint: disable=global-statement
    if _worker.job is None:
        raise RuntimeError("an Executor can be sent only to its own workers; make another Executor in this process")
    with _lock:
        if _executor is None:
            _executor = Executor.__new__(Executor)
            _executor._max_workers = len(_worker.job.alive()) or 1  # pylint: disable=protected-access
            _executor._pool = Peers()  # pylint: disable=protected-access
        return _executor
