# SPDX-License-Identifier: Apache-2.0
"""Part of the pool: calls for given workers, and calls of actors."""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator

from . import _core
from ._calls import EXCEPTION, Call, Outcomes, PlacedCall, Worker
from ._errors import NodeFailed
from ._functions import Functions
from ._future import Future

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Kind of a request about actors, as in actors.c.
_GONE = 3
# Bit of the numbers of calls that threads of actors run, as in core.h.
_ASIDE_BIT = 1 << 38
# Time after which a call counts as a long one, so that the worker gets no more calls behind it.
_LONG_SECONDS = 0.01

# Pools by their keys, by which handles of actors name them.
by_key: weakref.WeakValueDictionary[int, PlacedCalls] = weakref.WeakValueDictionary()
keys = itertools.count(1)


class PlacedCalls:
    """Base of the pool. Calls for a worker that is busy, or that is being replaced, wait in a queue of their own."""

    _lock: threading.RLock
    _size: int
    _pending: deque[Call]
    _calls: dict[int, Call]
    _workers: dict[int, Worker]
    _own: dict[int, deque[Call]]  # calls for given workers, by the workers' places
    express: _core.Express
    job: _core.Job
    functions: Functions
    enqueue: Callable[[Call], None]
    explain_lost: Callable[[int, NodeFailed], NodeFailed]
    need_thread: Callable[[], None]
    _check: Callable[[], None]
    _watch_calls: Callable[[], None]
    _window: Callable[[], int]

    def _count(self, worker: Worker) -> int:
        raise NotImplementedError

    def _send(self, call: Call, worker: Worker, outcomes: Outcomes) -> None:
        raise NotImplementedError

    def _drop(self, call: Call) -> None:
        raise NotImplementedError

    def _may_lack_workers(self) -> bool:
        raise NotImplementedError

    def worker_at(self, index: int) -> Worker | None:
        """Returns the worker at a place, or None while it is being replaced."""
        with self._lock:
            return next((w for w in self._workers.values() if w.index == index and not w.has_failed), None)

    def _free_places(self) -> list[int]:
        taken = {worker.index for worker in self._workers.values() if not worker.has_failed}
        return [index for index in range(self._size) if index not in taken]

    def _all_pending(self) -> Iterator[Call]:
        return itertools.chain(self._pending, *self._own.values())

    def _queue_of(self, call: Call) -> deque[Call]:
        """Returns the queue in which a call waits."""
        return self._pending if call.index is None else self._own.setdefault(call.index, deque())

    def _put_back(self, call: Call) -> None:
        """Lets a call wait again that did not run."""
        self._queue_of(call).appendleft(call)

    def _dispatch_own(self, outcomes: Outcomes) -> None:
        """Sends calls to the workers that they are for. Call it with the lock held."""
        for index, calls in list(self._own.items()):
            worker = self.worker_at(index)
            while calls and worker is not None and self._may_get(worker):
                call = calls.popleft()
                if call.may_run():
                    if call.actor is not None:
                        worker.actors.add(call.actor)
                    self._send(call, worker, outcomes)
            if worker is None and self._may_lack_workers():
                error = NodeFailed(f"worker {index} has ended, and could not be started again")
                outcomes += [(call.future, EXCEPTION, error) for call in calls if call.may_run()]
                calls.clear()
            if not calls:
                self._own.pop(index, None)

    def _may_get(self, worker: Worker) -> bool:
        count = self._count(worker)
        if not worker.is_ready or worker.is_full or count >= self._window():
            return False
        if count != 0 and not worker.is_tracked:
            return False  # more calls may be lost if the worker ends
        since = max(worker.since, self.express.since(worker.node))
        return count == 0 or time.monotonic() - since < _LONG_SECONDS

    # ---- actors

    def submit_actor(self, index: int | None, actor: int, function: Any, arguments: tuple[Any, ...],
                     seconds: float | None = None) -> Future[Any]:
        """Calls a function that makes an actor, by default on the worker with the fewest actors."""
        future: Future[Any] = Future()
        target, message = self.functions.encode(function, arguments, {})
        with self._lock:
            if index is None:
                usable = [worker for worker in self._workers.values() if not worker.has_failed]
                best = min(usable, key=lambda w: (len(w.actors), self._count(w)), default=None)
                index = 0 if best is None else best.index
        call = PlacedCall(Call(future, target, message, arguments[3], seconds), index, actor)

        def made(_: Any) -> None:
            if future.cancelled() or future.exception() is not None:
                self.actor_left(future.node, actor)

        future.add_done_callback(made)
        self.enqueue(call)
        return future

    def actor_left(self, node: int | None, actor: int) -> None:
        """Says that the host does not refer to an actor any more. Takes no lock, so that finalizers may call it."""
        worker = self._workers.get(node or 0)
        if worker is not None:
            worker.actors.discard(actor)

    def send_to(self, node: int, call: Call, is_aside: bool) -> None:
        """Sends a call to a worker at once, so that the calls of a thread stay in their order.

        If `is_aside`, threads of the actor run the call, so that the worker is free for others.
        """
        call.future.pool = self
        with self._lock:
            self._check()
            worker = self._workers.get(node)
            if worker is None or worker.has_failed:
                worker = None
            else:
                self._begin(call, worker, is_aside)
        try:
            if worker is None:
                raise NodeFailed(f"node {node} has ended")
            self.job.send(call.function, call.message, node, call.tag)
        except Exception as error:  # pylint: disable=broad-except
            with self._lock:
                if call.tag in self._calls:
                    self._drop(call)
            call.future.forget()
            call.future.set_exception(error)

    def _begin(self, call: Call, worker: Worker, is_aside: bool) -> None:
        """Notes a call of an actor, and gives it a number."""
        call.tag = self.express.number() | (_ASIDE_BIT if is_aside else 0)
        call.worker = worker
        self._calls[call.tag] = call
        if is_aside:
            worker.aside.add(call.tag)
        else:
            worker.take(call)
        if is_aside or len(worker.calls) > 1:
            self.need_thread()
        elif not self.express.is_watching:
            self._watch_calls()

    def _forget_references(self, lost: Worker) -> None:
        """Lets the workers forget the references of a worker that has ended to their actors."""
        for worker in self._workers.values():
            if worker is not lost and not worker.has_failed:
                try:
                    _core.actor_ask(self.job, worker.node, _GONE, 0, lost.node)
                except Exception:  # pylint: disable=broad-except
                    pass  # this worker has ended, too
