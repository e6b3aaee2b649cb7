"""Part of the pool: calls for given workers, and calls of actors."""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from . import _core, _pool
from ._errors import NodeFailed
from ._functions import Functions
from ._future import Future

# Kind of a request about actors, as in actors.c.
_GONE = 3

# Pools by their keys, by which handles of actors name them.
by_key: weakref.WeakValueDictionary[int, PlacedCalls] = weakref.WeakValueDictionary()
keys = itertools.count(1)


class PlacedCalls:
    """Base of the pool. Calls for a worker that is busy, or that is being replaced, wait in a queue of their own."""

    _lock: threading.RLock
    _size: int
    _next: int
    _pending: deque[Any]
    _calls: dict[int, Any]
    _workers: dict[int, Any]
    _own: dict[int, deque[Any]]  # calls for given workers, by the workers' places
    _lost: dict[int, str]  # ends of workers with actors, by their nodes
    _zygote: Any
    _is_watching: bool
    job: Any
    functions: Functions
    _check: Callable[[], None]
    _watch_calls: Callable[[], None]
    need_thread: Callable[[], None]
    _window: Callable[[], int]
    _dispatch: Callable[[], Any]
    _send: Callable[..., None]
    _drop: Callable[..., None]

    def worker_at(self, index: int) -> Any:
        """Returns the worker at a place, or None while it is being replaced."""
        with self._lock:
            return next((w for w in self._workers.values() if w.index == index and not w.has_failed), None)

    def _free_places(self) -> list[int]:
        taken = {worker.index for worker in self._workers.values() if not worker.has_failed}
        return [index for index in range(self._size) if index not in taken]

    def _all_pending(self) -> Iterator[Any]:
        return chain(self._pending, *self._own.values())

    def _put_back(self, call: Any) -> None:
        """Lets a call wait again that did not run."""
        queue = self._pending if call.index is None else self._own.setdefault(call.index, deque())
        queue.appendleft(call)

    def _enqueue_own(self, call: Any) -> None:
        call.future.pool = self
        with self._lock:
            self._check()
            self._own.setdefault(call.index, deque()).append(call)
            self.need_thread()
            outcomes = self._dispatch()
        _pool.settle(outcomes)

    def _dispatch_own(self, outcomes: Any) -> None:
        """Sends calls to the workers that they are for. Call it with the lock held."""
        for index, calls in list(self._own.items()):
            worker = self.worker_at(index)
            while calls and worker is not None and worker.is_ready and self._may_get(worker):
                call = calls.popleft()
                if call.may_run():
                    if call.actor is not None:
                        worker.actors.add(call.actor)
                    self._send(call, worker, outcomes)
            if not calls:
                self._own.pop(index, None)

    def _may_get(self, worker: Any) -> bool:
        # A worker that was asked to return its calls runs a long one.
        return not worker.calls or (not worker.was_asked and len(worker.calls) < self._window())

    # ---- actors

    def submit_actor(self, index: int | None, actor: int, function: Any, arguments: tuple[Any, ...]) -> Future[Any]:
        """Calls a function that makes an actor, by default on the worker with the fewest actors."""
        future: Future[Any] = Future()
        target, message = self.functions.encode(function, arguments, {})
        with self._lock:
            if index is None:
                usable = [worker for worker in self._workers.values() if not worker.has_failed]
                index = min(usable, key=lambda w: (len(w.actors), len(w.calls)), default=None)
                index = 0 if index is None else index.index
        call = _pool.PlacedCall(_pool.Call(future, target, message, arguments[3]), index, actor)

        def made(_: Any) -> None:
            if future.cancelled() or future.exception() is not None:
                self.actor_left(future.node, actor)

        future.add_done_callback(made)
        self._enqueue_own(call)
        return future

    def actor_left(self, node: int | None, actor: int) -> None:
        """Says that the host does not refer to an actor any more. Takes no lock, so that finalizers may call it."""
        worker = self._workers.get(node or 0)
        if worker is not None:
            worker.actors.discard(actor)

    def send_to(self, node: int, call: Any, is_aside: bool) -> None:
        """Sends a call to a worker at once, so that the calls of a thread stay in their order.

        If `is_aside`, threads of the actor run the call, so that the worker is free for others.
        """
        call.future.pool = self
        tag = 0
        with self._lock:
            self._check()
            worker = self._workers.get(node)
            if worker is not None and not worker.has_failed:
                tag = self._begin(call, worker, is_aside)
        try:
            if worker is None or worker.has_failed:
                raise NodeFailed(f"node {node} has ended")
            self.job.send(call.function, call.message, node, tag)
        except Exception as error:  # pylint: disable=broad-except
            with self._lock:
                if worker is not None and tag in self._calls:
                    self._drop(tag, worker)
            call.future.set_exception(error)

    def _begin(self, call: Any, worker: Any, is_aside: bool) -> int:
        """Notes a call of an actor, and returns its tag."""
        if is_aside or worker.calls:
            self.need_thread()
        else:
            worker.since = time.perf_counter()
            if not self._is_watching:
                self._watch_calls()
        tag = self._next
        self._next += 1
        self._calls[tag] = call
        (worker.aside if is_aside else worker.calls).add(tag)
        return tag

    def _note_lost(self, worker: Any) -> None:
        """Notes how a worker has ended, and lets the others forget its references to actors."""
        if worker.actors:
            self._lost[worker.node] = self._end_of(worker)
        for other in self._workers.values():
            if other is not worker and not other.has_failed:
                try:
                    _core.actor_ask(self.job, other.node, _GONE, 0, worker.node)
                except Exception:  # pylint: disable=broad-except
                    pass  # the other worker has ended, too

    def _explained(self, error: NodeFailed, worker: Any, call: Any) -> NodeFailed:
        """Returns the error of a call with the reason of the worker's end."""
        explained = NodeFailed(f"{self._end_of(worker)} while it ran {call.name()}; other workers and calls go on")
        explained.node = worker.node
        explained.__cause__ = error
        return explained

    def _end_of(self, worker: Any) -> str:
        return f"node {worker.node} (pid {worker.pid}) {self._zygote.end_of(worker.pid)}"

    def explain_lost(self, node: int, error: NodeFailed) -> NodeFailed:
        """Returns the error of a call of an actor, with the reason of its worker's end."""
        if isinstance(error.__cause__, NodeFailed):
            return error
        with self._lock:
            worker = self._workers.get(node)
            text = self._lost.get(node) or (self._end_of(worker) if worker is not None else str(error))
        explained = NodeFailed(f"{text}; its actors are lost, other workers and calls go on")
        explained.node = node
        explained.__cause__ = error
        return explained
