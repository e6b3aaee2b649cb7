"""Pools of workers: which worker runs which call, and what happens when workers end."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, InvalidStateError
from typing import Any

from . import _core, _functions, _processes
from ._errors import NodeFailed, StartFailed
from ._future import Future

# Changes of nodes, as in farcall.h.
_FAILED = 2
# Outcome of a call that a worker has returned, because it was busy.
_RETURNED = 2
# Workers get more calls than they can run, up to about this time of work and this number, so that they need not wait
# for the next one. If one runs a call for longer, and another worker is free, it returns the others.
_AHEAD_SECONDS = 0.004
_MOST_AHEAD = 64
_STALL_SECONDS = 0.01
# Time between two looks at signals.
_SLICE_NS = 50_000_000
# Time after which the thread of the pool takes results for which no thread waits, and number of such times without a
# call after which it sleeps until the next call.
_WATCH_MS = 50
_MOST_IDLE_ROUNDS = 20


class Call:
    """A call of a function on a worker."""

    __slots__ = ("future", "function", "message", "called")

    def __init__(self, future: Future[Any], function: Any, message: Any, called: Any) -> None:
        self.future = future
        self.function = function
        self.message = message
        self.called = called  # the function of the program, or its name

    def may_run(self) -> bool:
        """Marks the future as running. Returns False if the call was cancelled."""
        # A call that comes back from a worker is running already.
        return self.future.node is not None or self.future.set_running_or_notify_cancel()

    def name(self) -> str:
        """Returns the name of the function."""
        return str(getattr(self.called, "__qualname__", self.called))


class Worker:
    """A worker of a pool."""

    __slots__ = ("node", "pid", "calls", "begun", "is_ready", "has_failed", "watched", "since", "was_asked")

    def __init__(self, node: int, pid: int) -> None:
        self.node = node
        self.pid = pid
        self.calls: set[int] = set()
        self.begun = 0  # calls that were sent, ever
        self.is_ready = False
        self.has_failed = False
        self.since = 0.0  # time at which the call that runs has begun
        self.was_asked = False  # true if it was asked to return the calls that it has
        self.watched = -1  # descriptor that becomes readable when the process ends


# Futures with the results or exceptions that they get once no lock is held.
_Outcomes = list[tuple[Future[Any], bool, Any]]


def settle(outcomes: _Outcomes) -> None:
    """Sets the results of futures, which runs their callbacks."""
    outcomes.reverse()
    while outcomes:
        future, failed, value = outcomes.pop()
        try:
            if failed:
                future.set_exception(value)
            else:
                future.set_result(value)
        except InvalidStateError:
            pass  # the program has set the future itself
        del future, value


class Pool:
    """Workers that are forked from a zygote, and the calls for them.

    A thread takes results from the job's queue, sets futures, runs their callbacks, and replaces workers that have
    ended. It keeps the pool alive, but not the executor.
    """

    def __init__(self, size: int, preload: Any, threads: int, initializer: Callable[..., Any] | None,
                 initargs: tuple[Any, ...], most_tasks: int | None) -> None:
        self._lock = threading.RLock()
        self._size = size
        self._threads = threads
        self._most_tasks = most_tasks
        self._preload = preload
        self._zygote = _processes.zygote(preload)
        self._pending: deque[Call] = deque()
        self._calls: dict[int, Call] = {}
        self._workers: dict[int, Worker] = {}
        self._next = 1
        self._deaths_in_a_row = 0
        self._seconds = 1.0  # estimate of the time of a call
        self._taken: deque[tuple[Any, ...]] = deque()
        self._role = threading.Lock()  # held by the thread that takes results
        self._is_needed = False
        self._is_watching = False  # true if the thread wakes up from time to time
        self._has_begun_watch = False  # true until the thread has woken up for it
        self._idle_rounds = 0
        self._is_shut = False
        self._has_ended = False
        self._broken: BaseException | None = None
        self.job = self._zygote.job()
        self._wake_fd: int = self.job.wake_fd()
        self._watched: dict[int, int] = {}  # nodes by the descriptors of their processes
        self._poll = select.poll()
        self._poll.register(self._wake_fd, select.POLLIN)
        self.functions = _functions.Functions(self.job)
        self._initial = None
        if initializer is not None:
            self._initial = self.functions.encode(initializer, tuple(initargs), {})
        try:
            self._start(size)
        except BaseException:
            self.job.end()
            raise
        self._thread = threading.Thread(target=self._run, name="farcall-queue")
        self._thread.daemon = True
        _pools.add(self)
        self._thread.start()

    # ---- calls

    def submit(self, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Future[Any]:
        """Calls a function on a worker that is free, at once or later."""
        future: Future[Any] = Future()
        try:
            target, message = self.functions.encode(function, arguments, keywords)
        except Exception as error:  # pylint: disable=broad-except
            self._check()
            future.set_exception(error)
            return future
        self.enqueue(Call(future, target, message, function))
        return future

    def submit_chunk(self, function: Callable[..., Any], rows: list[Any], is_flat: bool) -> Future[Any]:
        """Calls a function for each row of arguments, as one call."""
        return self.submit(_functions.apply_chunk, (function, rows, is_flat), {})

    def frozen(self, function: Callable[..., Any]) -> Any:
        """Returns the Function for the present state of a function."""
        self._check()
        return self.functions.frozen(function)

    def enqueue(self, call: Call) -> None:
        """Adds a call."""
        call.future.pool = self
        outcomes: _Outcomes = []
        with self._lock:
            self._check()
            worker = None if self._pending else self._free_worker()
            if worker is None:
                self._pending.append(call)
                self.need_thread()
            elif call.may_run():
                if worker.calls:
                    self.need_thread()
                elif not self._is_watching:
                    self._watch_calls()
                self._send(call, worker, outcomes)
        settle(outcomes)

    def _check(self) -> None:
        if self._broken is not None:
            raise BrokenExecutor(str(self._broken)) from self._broken
        if _is_ending:
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")
        if self._is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")

    def _free_worker(self) -> Worker | None:
        """Returns the worker that gets the next call, or None if all have enough."""
        best, least = None, self._window()
        for worker in self._workers.values():
            if worker.is_ready and len(worker.calls) < least:
                best, least = worker, len(worker.calls)
                if least == 0:
                    break
        return best

    def _window(self) -> int:
        """Returns how many calls a worker gets at a time."""
        if self._most_tasks is not None:
            return 1
        return max(1, min(int(_AHEAD_SECONDS / self._seconds), _MOST_AHEAD))

    def _measure(self, worker: Worker, count: int) -> None:
        """Estimates the time of a call, after the worker has ended some. A long call counts at once."""
        now = time.perf_counter()
        seconds = (now - worker.since) / count
        worker.since = now
        self._seconds = max(seconds, self._seconds + (seconds - self._seconds) / 8, 1e-6)

    def _ask_stalled(self) -> bool:
        """Lets workers that have run a call for long return the others, if a worker is free for them.

        Returns True if a worker may stall later.
        """
        with self._lock:
            if not any(w.is_ready and not w.calls for w in self._workers.values()):
                return False
            behind = [w for w in self._workers.values() if len(w.calls) > 1]
            now = time.perf_counter()
            for worker in behind:
                if now - worker.since >= _STALL_SECONDS and not worker.was_asked:
                    worker.was_asked = True
                    self.job.give_back(worker.node)
            return bool(behind)

    def _dispatch(self) -> _Outcomes:
        """Sends pending calls to free workers. Call it with the lock held, and settle() the result without it."""
        outcomes: _Outcomes = []
        while self._pending:
            worker = self._free_worker()
            if worker is None:
                break
            call = self._pending.popleft()
            if call.may_run():
                self._send(call, worker, outcomes)
        return outcomes

    def _send(self, call: Call, worker: Worker, outcomes: _Outcomes) -> None:
        tag = self._next
        self._next += 1
        call.future.node = worker.node
        self._calls[tag] = call
        if not worker.calls:
            worker.since = time.perf_counter()
        worker.calls.add(tag)
        worker.was_asked = False
        worker.begun += 1
        try:
            self.job.send(call.function, call.message, worker.node, tag)
        except NodeFailed:
            # The call was not sent.
            worker.is_ready = False
            self._drop(tag, worker)
            self._pending.appendleft(call)
            self._taken.append((None, worker.node, _FAILED, None))
            self.need_thread()
        except Exception as error:  # pylint: disable=broad-except
            self._drop(tag, worker)
            outcomes.append((call.future, True, error))
        if self._most_tasks is not None and worker.begun >= self._most_tasks:
            worker.is_ready = False
            self.job.choose(worker.node, False)

    def _drop(self, tag: int, worker: Worker) -> None:
        del self._calls[tag]
        worker.calls.discard(tag)
        self._forget_if_failed(worker)

    def _forget_if_failed(self, worker: Worker) -> None:
        if worker.has_failed and not worker.calls and self._workers.pop(worker.node, None) is not None:
            self._unwatch(worker)
            self.job.forget(worker.node)

    def _explained(self, error: NodeFailed, worker: Worker, call: Call) -> NodeFailed:
        """Returns the error with the reason of the worker's end."""
        explained = NodeFailed(f"node {worker.node} (pid {worker.pid}) {self._zygote.end_of(worker.pid)} while it ran "
                               f"{call.name()}; other workers and calls go on")
        explained.node = worker.node
        explained.__cause__ = error
        return explained

    # ---- results

    def need_thread(self) -> None:
        """Lets the thread of the pool take results until all calls have ended."""
        if not self._is_needed and not self._has_ended:
            self._is_needed = True
            self.job.need()

    def _watch_calls(self) -> None:
        """Lets the thread of the pool take the results of calls whose futures the program has dropped."""
        self._is_watching = True
        self._has_begun_watch = True
        os.eventfd_write(self._wake_fd, 1)

    def help(self, future: Future[Any]) -> None:
        """Takes results in the calling thread until the future has its result, unless another thread takes them.

        This saves a change of threads. Futures with callbacks, and all else, are left to the pool's thread. A signal
        handler may raise an exception anywhere in this function, so it changes nothing that cannot be done again.
        """
        if self._thread is threading.current_thread():
            self._help_in_callback(future)
        if self._is_needed or not self._role.acquire(blocking=False):
            return
        try:
            while not self._is_needed and not self._has_ended and not future.has_ended():
                self.job.take(_SLICE_NS, self._taken.append)
                while self._taken:
                    if not self._take_simple(self._taken[0]):
                        self.need_thread()
                        return
                    self._taken.popleft()
        finally:
            self._role.release()

    def _help_in_callback(self, future: Future[Any]) -> None:
        """Takes results in a callback that waits for the future, and that runs on the pool's thread."""
        while not future.has_ended():
            self.job.take(self._timeout_ns(), self._taken.append)
            self._take_some()

    def _take_simple(self, completion: tuple[Any, ...]) -> bool:
        """Sets a future without callbacks. Returns False if the completion needs the pool's thread."""
        tag, node, failed, value = completion
        if tag is None:
            return not node
        with self._lock:
            call, worker = self._calls.get(tag), self._workers.get(node)
            if call is None:
                return True
            if failed or worker is None or self._most_tasks is not None or not call.future.settle_alone(value):
                return False
            self._measure(worker, 1)
            worker.calls.discard(tag)
            del self._calls[tag]
            return True

    # ---- the thread

    def _run(self) -> None:
        while not self._is_done():
            if self._sleep():
                with self._role:
                    self._take_all()
        self._end()

    def _sleep(self) -> bool:
        """Waits until the thread is needed, or a worker has ended. Returns False if there is nothing to take."""
        events = self._poll.poll(_WATCH_MS if self._is_watching else None)
        if not events:
            with self._lock:
                if self._calls:
                    return True
                self._idle_rounds += 1
                self._is_watching = self._idle_rounds < _MOST_IDLE_ROUNDS
            return False
        self._idle_rounds = 0
        is_watch = False
        for descriptor, _ in events:
            if descriptor == self._wake_fd:
                # Another reason to wake up would have been added to the number, or follows.
                if os.eventfd_read(descriptor) == 1 and self._has_begun_watch:
                    self._has_begun_watch, is_watch = False, True
            elif descriptor in self._watched:
                self._taken.append((None, self._watched[descriptor], _FAILED, None))
        # Leave calls that have just begun to the threads that wait for them.
        return not is_watch or self._is_needed or bool(self._taken)

    def _take_all(self) -> None:
        """Takes changes of nodes, and results until all calls have ended."""
        self._is_needed = True
        while True:
            self.job.take(self._timeout_ns(), self._taken.append)
            is_idle = not self._taken
            try:
                self._take_some()
            except Exception as error:  # pylint: disable=broad-except
                self._break(error)
            with self._lock:
                if is_idle and not self._calls and not self._taken:
                    self._is_needed = False
                    return

    def _take_some(self) -> None:
        """Handles what was taken from the queue."""
        changed: list[int] = []
        outcomes: _Outcomes = []
        counts: dict[Worker, int] = {}
        with self._lock:
            while self._taken:
                tag, node, what, value = self._taken.popleft()
                if tag is None:
                    has_failed = what == _FAILED
                else:
                    has_failed = self._end_call(tag, node, what, value, outcomes, counts)
                if has_failed:
                    changed.append(node)
                del value
            for worker, count in counts.items():
                self._measure(worker, count)
            # The callbacks of futures may wait for other calls, so these are sent first, to new workers if need be.
            outcomes += self._dispatch()
        try:
            for node in changed:
                self._replace(node)
            self._retire()
        finally:
            settle(outcomes)

    def _end_call(self, tag: int, node: int, what: int, value: Any, outcomes: _Outcomes,
                  counts: dict[Worker, int]) -> bool:
        """Ends a call, whose future gets its result later. Returns True if the worker has failed."""
        call = self._calls.get(tag)
        if call is None:
            return False
        worker = self._workers[node]
        if what == _RETURNED:
            self._drop(tag, worker)
            self._pending.appendleft(call)
            return False
        has_failed = bool(what) and isinstance(value, NodeFailed)
        if has_failed:
            value = self._explained(value, worker, call)
            worker.is_ready = False
            self.job.choose(node, False)
        else:
            self._deaths_in_a_row = 0
            counts[worker] = counts.get(worker, 0) + 1
        self._drop(tag, worker)
        outcomes.append((call.future, bool(what), value))
        return has_failed

    def _timeout_ns(self) -> int:
        """Returns how long the thread waits for results, in nanoseconds."""
        # A thread in help() may have left elements.
        if self._taken or not self._calls:
            return 0
        return int(_STALL_SECONDS * 1e9) if self._ask_stalled() else -1

    def _is_done(self) -> bool:
        with self._lock:
            is_closed = self._is_shut or self._broken is not None
            return is_closed and not self._calls and not self._pending

    def _retire(self) -> None:
        """Replaces workers that have run as many calls as they may."""
        if self._most_tasks is None:
            return
        with self._lock:
            old = [w for w in self._workers.values() if w.begun >= self._most_tasks and not w.calls]
            if not old or self._is_done():
                return
            for worker in old:
                del self._workers[worker.node]
                self._unwatch(worker)
            outcomes = self._start(len(old))
        settle(outcomes)
        for worker in old:
            try:
                self.job.remove(worker.node)
            except Exception:  # pylint: disable=broad-except
                pass  # the worker has ended by itself
            self.job.forget(worker.node)

    def _replace(self, node: int) -> None:
        """Starts a worker in place of a worker that has failed."""
        with self._lock:
            worker = self._workers.get(node)
            if worker is None or worker.has_failed:
                return
            worker.is_ready = False
            worker.has_failed = True
            has_served = self.job.choose(node, False)
            self._forget_if_failed(worker)
            self._deaths_in_a_row = 0 if has_served else self._deaths_in_a_row + 1
            if self._deaths_in_a_row > 3 * self._size:
                raise StartFailed(f"workers end as soon as they have started; the last one (pid {worker.pid}) "
                                  f"{self._zygote.end_of(worker.pid)}")
            if self._broken is not None or self._is_shut and not self._pending:
                return
            outcomes = self._start(1)
        settle(outcomes)

    # ---- workers

    def _start(self, count: int) -> _Outcomes:
        """Starts workers. Call it with the lock held, and settle() the result without it."""
        outcomes: _Outcomes = []
        self._zygote = _processes.zygote(self._preload)
        for pid, descriptor in self._zygote.fork(count, self._threads):
            node = self._zygote.add_to(self.job, descriptor)
            worker = self._workers[node] = Worker(node, pid)
            self._watch(worker)
            if self._initial is None:
                worker.is_ready = True
                self.job.choose(node, True)
            else:
                self._initialize(worker, outcomes)
        return outcomes + self._dispatch()

    def _watch(self, worker: Worker) -> None:
        """Lets the thread notice the end of an idle worker."""
        try:
            worker.watched = self._zygote.watch(worker.pid)
        except OSError:
            return  # the process has ended, or the system is old; the next call notices the end
        self._poll.register(worker.watched, select.POLLIN)
        self._watched[worker.watched] = worker.node

    def _unwatch(self, worker: Worker) -> None:
        if self._watched.pop(worker.watched, None) is not None:
            self._poll.unregister(worker.watched)
            os.close(worker.watched)

    def _initialize(self, worker: Worker, outcomes: _Outcomes) -> None:
        assert self._initial is not None
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()

        def ready(_: Any) -> None:
            error = future.exception()
            if error is not None and not isinstance(error, NodeFailed):
                self._break(error)
                return
            with self._lock:
                if error is None:
                    worker.begun = 0
                    worker.is_ready = True
                    self.job.choose(worker.node, True)
                more = self._dispatch()
            settle(more)

        future.add_done_callback(ready)
        self._send(Call(future, *self._initial, "the initializer"), worker, outcomes)
        worker.begun = 0
        self.need_thread()

    def _break(self, cause: BaseException) -> None:
        """Fails all calls, after workers could not be started or initialised."""
        error = BrokenExecutor(f"a worker could not be initialised: {type(cause).__name__}: {cause}")
        error.__cause__ = cause
        with self._lock:
            if self._broken is None:
                self._broken = error
            outcomes: _Outcomes = [(call.future, True, error) for call in self._pending if call.may_run()]
            self._pending.clear()
        self.job.refuse(str(error))
        self.kill()
        settle(outcomes)
        self.need_thread()

    def kill(self) -> None:
        """Kills all workers, so that their calls fail."""
        with self._lock:
            self._zygote.kill([worker.pid for worker in self._workers.values()])

    def pids(self) -> dict[int, int]:
        """Returns the process IDs of the workers by their nodes."""
        with self._lock:
            return {worker.node: worker.pid for worker in self._workers.values()}

    # ---- the end

    def shut(self) -> None:
        """Accepts no more calls. Takes no lock, so that any code may call it, for instance a finalizer."""
        self._is_shut = True
        if not self._has_ended:
            self.job.need()

    def cancel_pending(self) -> None:
        """Cancels the calls that no worker has got."""
        with self._lock:
            pending = [call for call in self._pending if call.future.node is None]
            self._pending = deque(call for call in self._pending if call.future.node is not None)
        for call in pending:
            call.future.cancel()
            call.may_run()

    def wait(self, seconds: float | None = None) -> None:
        """Waits until all calls have ended and the workers are gone."""
        if self._thread is not threading.current_thread():
            self._thread.join(seconds)

    def _end(self) -> None:
        with self._role, self._lock:
            self._has_ended = True
            self._is_shut = True
            for worker in self._workers.values():
                self._unwatch(worker)
        self.job.end()
        if not isinstance(self._preload, tuple):
            self._preload.close()
        _pools.discard(self)


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
_is_ending = False


def _finish_all() -> None:
    """Lets all pools finish their calls, before the interpreter ends. After Ctrl-C, ends the calls instead."""
    global _is_ending  # pylint: disable=global-statement
    _is_ending = True
    is_interrupted = getattr(sys, "last_type", None) is KeyboardInterrupt
    for pool in list(_pools):
        pool.shut()
        if is_interrupted:
            pool.cancel_pending()
            pool.kill()
    for pool in list(_pools):
        pool.wait()


def _forget_all() -> None:
    """In a forked child, leaves the pools to the parent."""
    for pool in list(_pools):
        pool._has_ended = True  # pylint: disable=protected-access
    _pools.clear()


# Before the end of non-daemon threads, like executors of the standard library.
threading._register_atexit(_finish_all)  # type: ignore[attr-defined] # pylint: disable=protected-access
os.register_at_fork(after_in_child=_forget_all)
