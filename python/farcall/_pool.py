# SPDX-License-Identifier: Apache-2.0
"""Pools of workers: which worker runs which call, and what happens when calls and workers end."""

from __future__ import annotations

import functools
import math
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable

from . import _arguments, _core, _ends, _functions
from ._calls import (EXCEPTION, GRACE_SECONDS, NODE_FAILED, RESULT, RETURNED, STOPPED, UNKNOWN, Call, Outcomes,
                     PlacedCall, Settings, Worker, refuse_broken, settle)
from ._errors import NodeFailed, Timeout, UnknownFunction
from ._future import Future
from ._staff import Staff

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Changes of nodes, as in farcall.h.
_FAILED = 2
# Time after which a worker returns the calls behind the call that it runs, if another worker is free.
_STALL_SECONDS = 0.01
# Time between two looks at signals.
_SLICE_NS = 50_000_000
# Time after which the thread of the pool takes results for which no thread waits, and number of such times without a
# call after which it sleeps until the next call.
_WATCH_MS = 50
_MOST_IDLE_ROUNDS = 20
# Time between two looks at workers that have ended, and two attempts to send to workers that take no messages.
_DYING_SECONDS = 0.003
_FULL_SECONDS = 0.002
# Time that a worker has at least to return the calls that it has not begun, before it is killed.
_RETURN_SECONDS = 0.1


class Pool(Staff):
    """Workers that are forked from a zygote, and the calls for them.

    A thread takes results from the job's queue, sets futures, runs their callbacks, and replaces workers that have
    ended. It keeps the pool alive, but not the executor.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._is_full = False  # true if a worker's lane had no space for a message
        self._limits: list[Call] = []  # calls that are being stopped
        self._unsent_stops: list[Call] = []  # calls that workers could not be asked to stop yet
        self._timed: set[Call] = set()  # calls with time limits that were sent
        self._maps: set[int] = set()  # results of map() that were not read to their end
        self._taken: deque[tuple[Any, ...]] = deque()
        self.express = _core.Express(self.job, self, self.functions.by_name, self._pending, self._taken.append)
        self.express.kinds(*_functions.KINDS)
        self._has_begun_watch = False  # true until the thread has woken up for it
        self._idle_rounds = 0
        self._watch_ms = _WATCH_MS
        self._has_ended = False
        self._wake_fd: int = self.job.wake_fd()
        self._poll.register(self._wake_fd, select.POLLIN)
        try:
            self._start(settings.size)
        except BaseException:
            self.job.end()
            self.express.close(_ends.refuse)
            self._close_output()
            raise
        self._thread = threading.Thread(target=self._run, name="farcall-queue")
        self._thread.daemon = True
        _ends.pools.add(self)
        self._thread.start()
        self.express.is_open = not self.needs_futures()

    # ---- calls

    def submit(self, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any],
               seconds: float | None = None, index: int | None = None) -> Future[Any]:
        """Calls a function on a worker that is free, or on a given one, at once or later.

        `seconds` is its time limit.
        """
        _arguments.function("the first argument of submit()", function)
        future: Future[Any] = Future()
        try:
            target, message = self.functions.encode(function, arguments, keywords)
        except Exception as error:  # pylint: disable=broad-except
            self._check()
            future.set_exception(error)
            return future
        call = Call(future, target, message, function, seconds)
        self.enqueue(call if index is None else PlacedCall(call, index))
        return future

    def submit_frozen(self, function: Any, called: Any, arguments: tuple[Any, ...], keywords: dict[str, Any],
                      seconds: float | None = None) -> Future[Any]:
        """Calls a Function on a worker that is free, at once or later."""
        future: Future[Any] = Future()
        try:
            message = function.encode(arguments, keywords)
        except Exception as error:  # pylint: disable=broad-except
            self._check()
            future.set_exception(error)
            return future
        self.enqueue(Call(future, function, message, called, seconds))
        return future

    def submit_chunk(self, function: Callable[..., Any], rows: list[Any], is_flat: bool,
                     seconds: float | None = None, least: int = 1) -> Future[Any]:
        """Calls a function for each row of arguments, as one call. Works after shut() as long as a map() goes on.

        Workers get up to `least` such calls in any case.
        """
        if seconds is None and self.express.is_open:
            made: Future[Any] = self.express.submit(_functions.apply_chunk, (function, rows, is_flat), {},
                                                        least)
            return made
        future: Future[Any] = Future()
        try:
            target, message = self.functions.encode(_functions.apply_chunk, (function, rows, is_flat), {})
        except Exception as error:  # pylint: disable=broad-except
            future.set_exception(error)
            return future
        self.enqueue(Call(future, target, message, function, seconds), self._is_shut and not self._has_ended)
        return future

    def frozen(self, function: Callable[..., Any]) -> Any:
        """Returns the Function for the present state of a function."""
        self._check()
        return self.functions.frozen(function)

    def call(self, target: Any, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any],
             seconds: float | None) -> Any:
        """Calls a Function, and waits for the result."""
        future: Future[Any] = Future()
        self.enqueue(Call(future, target, target.encode(arguments, keywords), name, seconds))
        return future.result()

    def needs_futures(self) -> bool:
        """True if the calls of a Function must be calls of the pool, too."""
        return self._settings.counts_calls() or self._settings.retries > 0

    def enqueue_new(self, future: Future[Any], target: Any, message: Any, function: Any) -> None:
        """Adds a call that express could not send."""
        self.enqueue(Call(future, target, message, function))

    def enqueue(self, call: Call, may_be_shut: bool = False) -> None:
        """Adds a call."""
        call.future.pool = self
        outcomes: Outcomes = []
        with self._lock:
            try:
                self._check(may_be_shut)
            except Exception:
                call.future.forget()
                raise
            if call.seconds is not None:
                self._watch_ms = max(1, min(self._watch_ms, int(call.seconds * 1000)))
                if self.express.is_needed:
                    self._wake()
            worker = None if self._pending or call.index is not None else self._free_worker()
            if call.index is not None:
                self._own.setdefault(call.index, deque()).append(call)
                self.need_thread()
                outcomes += self._dispatch()
            elif worker is None:
                self._pending.append(call)
                self.need_thread()
            elif call.may_run():
                if not self.express.is_watching:
                    self._watch_calls()
                self._send(call, worker, outcomes)
        settle(outcomes)

    def check(self) -> None:
        """Raises the error of a call that the pool cannot accept."""
        self._check()

    def _check(self, may_be_shut: bool = False) -> None:
        if self._broken is not None:
            refuse_broken(self._broken)
        if _ends.is_ending() or self._is_shut and not may_be_shut:
            _ends.refuse()

    def _count(self, worker: Worker) -> int:
        """Returns the number of calls that the worker has."""
        return len(worker.calls) + self.express.calls(worker.node)

    def _free_worker(self) -> Worker | None:
        """Returns the worker that gets the next call, or None if all have enough."""
        best, least = None, self._window()
        for worker in self._workers.values():
            count = self._count(worker)
            if count != 0 and not worker.is_tracked:
                continue  # more calls may be lost if it ends
            if worker.is_ready and not worker.is_full and count < least:
                best, least = worker, count
                if least == 0:
                    break
        return best

    def _window(self) -> int:
        """Returns how many calls a worker gets at a time."""
        if self._settings.counts_calls():
            return 1
        return self.express.window()

    def _measure(self, worker: Worker, count: int) -> None:
        """Estimates the time of a call, after the worker has ended some."""
        now = time.monotonic()
        self.express.measure((now - worker.since) / count, worker.slept)
        worker.slept, worker.since = False, now

    def _ask_stalled(self) -> bool:
        """Lets workers that have run a call for long return the others, if a worker is free for them.

        Returns True if a worker may stall later.
        """
        with self._lock:
            if not any(w.is_ready and not self._count(w) for w in self._workers.values()):
                return False
            behind = [w for w in self._workers.values() if self._count(w) > 1]
            now = time.monotonic()
            for worker in behind:
                since = max(worker.since, self.express.since(worker.node))
                if now - max(since, worker.asked) >= _STALL_SECONDS:
                    worker.asked = now
                    self.job.give_back(worker.node)
            return bool(behind)

    def _dispatch(self) -> Outcomes:
        """Sends pending calls to free workers. Call it with the lock held, and settle() the result without it."""
        if self._is_killed:
            return self._stop_pending()  # among them calls that workers have returned before their end
        outcomes: Outcomes = []
        if self._own:
            self._dispatch_own(outcomes)
        while self._pending:
            worker = self._free_worker()
            if worker is None:
                break
            call = self._pending.popleft()
            if call.may_run():
                self._send(call, worker, outcomes)
        return outcomes

    def _send(self, call: Call, worker: Worker, outcomes: Outcomes) -> None:
        tag = call.tag = self.express.number()
        call.worker = worker
        call.future.node = worker.node
        self._calls[tag] = call
        worker.take(call)
        call.begun_at = None
        if call.seconds is not None:
            self._timed.add(call)
        try:
            is_sent = self.job.send(call.function, call.message, worker.node, tag, False)
        except NodeFailed:
            # The call was not sent.
            worker.is_ready = False
            self._drop(call)
            self._put_back(call)
            self._taken.append((None, worker.node, _FAILED, None))
            self.need_thread()
            return
        except Exception as error:  # pylint: disable=broad-except
            self._drop(call)
            outcomes.append((call.future, EXCEPTION, error))
            return
        if is_sent:
            worker.begun += 1
            if self._settings.most_tasks is not None:
                self._review(worker)
            return
        # The worker takes no messages now: it is busy with large ones, or stopped, for instance by a debugger.
        self._drop(call)
        self._put_back(call)
        worker.is_full = self._is_full = True
        self._wake()

    def _drop(self, call: Call) -> None:
        assert call.worker is not None
        del self._calls[call.tag]
        self._timed.discard(call)
        call.worker.calls.pop(call.tag, None)
        call.worker.aside.discard(call.tag)
        self._forget_if_failed(call.worker)
        call.worker = None

    # ---- stops and time limits

    def _adopt(self, future: Future[Any], needs_message: bool) -> Call:
        """Returns a Call for a future of express, which this pool knows from now on."""
        number, message = self.express.hand_over(future, needs_message)
        call = Call(future, future.function, message, future.called)
        worker = call.worker = self._workers[future.node or 0]
        call.tag = number
        self._calls[call.tag] = worker.calls[call.tag] = call
        return call

    def stop(self, future: Future[Any], grace: float) -> bool:
        """Stops a call that may run. Returns False if it has ended."""
        outcomes: Outcomes = []
        with self._lock:
            call = self._adopt(future, True) if future.is_express else future.call
            if call is None or future.has_ended():
                return False
            if call.worker is not None:
                self._begin_stop(call, grace)
            elif call in self._queue_of(call):  # a worker has returned it
                self._queue_of(call).remove(call)
                outcomes.append(call.stopped())
        settle(outcomes)
        return True

    def _begin_stop(self, call: Call, grace: float) -> None:
        """Asks the worker to stop the call, and to return the calls that wait behind it."""
        worker = call.worker
        assert worker is not None
        if self._count(worker) > 1:
            grace = max(grace, _RETURN_SECONDS)
        kill_at = time.monotonic() + grace
        if call.kill_at is None:
            self._limits.append(call)
        else:
            kill_at = min(kill_at, call.kill_at)
        call.kill_at = kill_at
        worker.stops.add(call.tag)
        self._set_ready(worker, False)
        if not self.job.stop(worker.node, call.tag):
            self._unsent_stops.append(call)
        self.job.give_back(worker.node)
        self._wake()

    def _end_stop(self, call: Call, worker: Worker, has_failed: bool) -> None:
        """Notes that a call that was being stopped has ended."""
        self._limits.remove(call)
        worker.stops.discard(call.tag)
        if not worker.stops and not has_failed and not worker.has_failed and not worker.must_go:
            self._set_ready(worker, True)

    def _send_stops(self) -> None:
        """Asks workers to stop calls that could not be asked before, because their lanes had no space."""
        self._unsent_stops = [call for call in self._unsent_stops if call.worker is not None
                              and not self.job.stop(call.worker.node, call.tag)]

    def _check_limits(self) -> None:
        """Stops calls whose time is up, and kills workers that have not stopped their calls."""
        now = time.monotonic()
        for call in self._limits:
            if call.kill_at is not None and now >= call.kill_at and call.worker is not None:
                call.kill_at = math.inf
                self._zygote.kill([call.worker.pid])
        for call in list(self._timed):
            worker = call.worker
            if worker is None or call.seconds is None or call.kill_at is not None:
                continue
            if call.begun_at is None and self.job.may_have_begun(worker.node, call.tag):
                call.begun_at = now
            if call.begun_at is not None and now >= call.begun_at + call.seconds:
                call.late = Timeout(f"{call.name()} has not ended within its time limit of {call.seconds:g} s on "
                                    f"node {worker.node} (pid {worker.pid})")
                self._begin_stop(call, GRACE_SECONDS)

    def _next_limit(self) -> float:
        """Returns the time of the next event for _check_limits()."""
        times = [call.kill_at for call in self._limits if call.kill_at is not None]
        for call in self._timed:
            if call.kill_at is None and call.seconds is not None:
                # Calls that have not begun are looked at from time to time.
                times.append(time.monotonic() + min(call.seconds / 10, _WATCH_MS / 1000) if call.begun_at is None else
                             call.begun_at + call.seconds)
        return min(times, default=math.inf)

    # ---- results

    def need_thread(self) -> None:
        """Lets the thread of the pool take results until all calls have ended."""
        if not self.express.is_needed and not self._has_ended:
            self.express.is_needed = True
            self.job.need()

    def _wake(self) -> None:
        """Lets the thread of the pool look at the time, even if it waits for results already."""
        self.express.is_needed = True
        if not self._has_ended:
            self.job.need()

    def _watch_calls(self) -> None:
        """Lets the thread of the pool take the results of calls whose futures the program has dropped."""
        self.express.is_watching = True
        self._has_begun_watch = True
        os.eventfd_write(self._wake_fd, 1)

    def poll(self, timeout_ns: int) -> None:
        """Takes results that come in a short time, unless another thread takes them."""
        self.express.poll(timeout_ns)

    def help(self, future: Future[Any]) -> None:
        """Takes results in the calling thread until the future has its result, unless another thread takes them.

        This saves a change of threads. Futures with callbacks, and all else, are left to the pool's thread.
        """
        self.express.help(future)

    def _help_in_callback(self, future: Future[Any]) -> None:
        """Takes results in a callback that waits for the future, and that runs on the pool's thread."""
        while not future.has_ended():
            self.job.take(self._timeout_ns(), self._taken.append)
            self._take_some()

    def _take_simple(self, completion: tuple[Any, ...]) -> bool:
        """Sets a future without callbacks. Returns False if the completion needs the pool's thread."""
        tag, node, what, value = completion
        if tag is None:
            return not node
        if not isinstance(tag, int):
            return False
        with self._lock:
            call, worker = self._calls.get(tag), self._workers.get(node)
            if call is None:
                return True
            if (what != RESULT or worker is None or call.kill_at is not None or self._settings.counts_calls()
                    or not call.future.settle_alone(value)):
                return False
            if tag in worker.calls:
                self._measure(worker, 1)
            call.future.forget()
            self._drop(call)
            return True

    # ---- the thread

    def _run(self) -> None:
        self.express.thread = threading.get_ident()
        self._track()
        while not self._is_done():
            if not self._sleep():
                continue
            if not self.express.try_role():
                self._wake()  # so that a thread in help() leaves the role to this thread
                self.express.take_role()
            try:
                self._take_all()
            finally:
                self.express.leave_role()
        self._end()

    def _sleep(self) -> bool:
        """Waits until the thread is needed, or a worker has ended. Returns False if there is nothing to take."""
        events = self._poll.poll(self._watch_ms if self.express.is_watching else None)
        if not events:
            with self._lock:
                if self._has_calls():
                    return True
                self._idle_rounds += 1
                self.express.is_watching = self._idle_rounds < _MOST_IDLE_ROUNDS
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
        return not is_watch or self.express.is_needed or bool(self._taken)

    def _take_all(self) -> None:
        """Takes changes of nodes, and results until all calls have ended."""
        self.express.is_needed = True
        while True:
            self.job.take(self._timeout_ns(), self._taken.append)
            is_idle = not self._taken
            try:
                self._take_some()
            except Exception as error:  # pylint: disable=broad-except
                self._break(error)
            with self._lock:
                if is_idle and not (self._has_calls() or self._taken or self._dying or self._is_full):
                    self.express.is_needed = False
                    return

    def _take_some(self) -> None:
        """Handles what was taken from the queue, and the time that has passed."""
        changed: list[int] = []
        outcomes: Outcomes = []
        counts: dict[Worker, int] = {}
        returned: list[Call] = []
        with self._lock:
            is_idle = not self._taken
            while self._taken:
                tag, node, what, value = self._taken.popleft()
                if tag is None:
                    has_failed = what == _FAILED
                else:
                    has_failed = self._end_call(tag, node, what, value, outcomes, counts, returned)
                if has_failed:
                    changed.append(node)
                del value
            for worker, count in counts.items():
                self._measure(worker, count)
            if self._settings.counts_calls():
                for worker in counts:
                    self._review(worker)
            for call in reversed(returned):
                self._put_back(call)
            if self._is_full:
                self._is_full = False
                for worker in self._workers.values():
                    worker.is_full = False
            if self._unsent_stops:
                self._send_stops()
            if is_idle and (self._limits or self._timed):
                self._check_limits()
            # The callbacks of futures may wait for other calls, so these are sent first, to new workers if need be.
            outcomes += self._dispatch()
        if self._dying:
            outcomes += self._explain()
        try:
            for node in changed:
                self._replace(node)
            self._retire()
            self._track()
        finally:
            settle(outcomes)

    def _end_call(self, tag: Any, node: int, what: int, value: Any, outcomes: Outcomes, counts: dict[Worker, int],
                  returned: list[Call]) -> bool:
        """Ends a call, whose future gets its result later. Returns True if the worker has failed."""
        call = (self._calls.get(tag) if isinstance(tag, int) else
                tag.call or self._adopt(tag, what in (RETURNED, UNKNOWN, NODE_FAILED)))
        if call is None:
            return False
        worker = self._workers[node]
        has_failed = what == NODE_FAILED
        is_stopped = call.kill_at is not None
        if is_stopped:
            self._end_stop(call, worker, has_failed)
        if has_failed:
            self._set_ready(worker, False)
        else:
            self._deaths_in_a_row = 0
        tag = call.tag
        if what in (RESULT, EXCEPTION) and tag not in worker.aside:
            counts[worker] = counts.get(worker, 0) + 1
        may_have_begun = not has_failed or self.job.may_have_begun(node, tag)
        self._drop(call)  # which forgets the node after its last call
        if what in (RESULT, EXCEPTION):
            outcomes.append((call.future, what, value))
        elif is_stopped or what == STOPPED:
            outcomes.append(call.stopped())
        elif call.is_method and what == UNKNOWN:
            outcomes.append((call.future, EXCEPTION, UnknownFunction("the worker does not know the method")))
        elif what in (RETURNED, UNKNOWN):
            if what == UNKNOWN:
                call.function.unknown_to(node)
            if call.is_refused(self.job.asks()):
                outcomes.append(call.refused(node))
            else:
                returned.append(call)
        elif self._is_killed or call.is_method:
            self._explain_later(call, worker, value)
        elif not may_have_begun:
            returned.append(call)
        elif call.tries < self._settings.retries:
            call.tries += 1
            returned.append(call)
        else:
            self._explain_later(call, worker, value)
        return has_failed

    def _timeout_ns(self) -> int:
        """Returns how long the thread waits for results, in nanoseconds."""
        # A thread in help() may have left elements.
        if self._taken or not (self._has_calls() or self._dying or self._is_full):
            return 0
        seconds = math.inf
        if self._dying:
            seconds = _DYING_SECONDS
        if self._is_full or self._unsent_stops:
            seconds = min(seconds, _FULL_SECONDS)
        if self._ask_stalled():
            seconds = min(seconds, _STALL_SECONDS)
        if self._limits or self._timed:
            with self._lock:
                seconds = min(seconds, max(0.0, self._next_limit() - time.monotonic()))
        return -1 if seconds == math.inf else int(seconds * 1e9)

    def _is_done(self) -> bool:
        with self._lock:
            is_closed = self._is_shut or self._broken is not None
            return is_closed and not (self._has_calls() or self._pending or self._own or self._dying or self._maps)

    def _has_calls(self) -> bool:
        """True if workers have calls."""
        return bool(self._calls) or self.express.total() > 0

    # ---- the end

    def begin_map(self, number: int) -> None:
        """Keeps the workers until end_map(), even after shut()."""
        self._maps.add(number)

    def end_map(self, number: int) -> None:
        """Says that no more rows of a map() follow. Takes no lock."""
        self._maps.discard(number)
        if self._is_shut and not self._has_ended:
            self.job.need()

    def shut(self) -> None:
        """Accepts no more calls. Takes no lock, so that any code may call it, for instance a finalizer."""
        self._is_shut = True
        self.express.is_open = False
        if not self._has_ended:
            self.job.need()

    def cancel_pending(self) -> None:
        """Cancels the calls that no worker has got."""
        with self._lock:
            pending = [call for call in self._all_pending() if call.future.node is None]
            self._own = {index: deque(call for call in calls if call.future.node is not None)
                         for index, calls in self._own.items()}
            kept = [call for call in self._pending if call.future.node is not None]
            self._pending.clear()  # the same deque, because express has it
            self._pending.extend(kept)
        for call in pending:
            call.future.cancel()
            call.may_run()

    def wait(self, seconds: float | None = None) -> None:
        """Waits until all calls have ended and the workers are gone, or are needed only for the rest of a map()."""
        if self._thread is threading.current_thread() or any(each.runs_here() for each in self._receivers()):
            return  # this thread must go on, so that the pool can end
        while self._maps and self._thread.is_alive():
            with self._lock:
                if not (self._has_calls() or self._pending or self._own or self._dying):
                    return
            self._thread.join(_WATCH_MS / 1000)
        self._thread.join(seconds)

    def forget_maps(self) -> None:
        """Lets the workers end although results of map() were not read to their end."""
        self._maps.clear()

    def abandon(self) -> None:
        """Ends all calls and the workers as soon as possible."""
        self.forget_maps()
        self.shut()
        self.cancel_pending()
        self.kill()

    def leave_to_parent(self) -> None:
        """Leaves the workers to the parent: the copy of this pool in a forked child does nothing any more."""
        self._has_ended = True
        self.express.is_open = False

    def _end(self) -> None:
        self.express.take_role()
        with self._lock:
            self._has_ended = True
            self._is_shut = True
            for worker in self._workers.values():
                self._unwatch(worker)
        self.job.end()
        self._close_output()
        self.express.leave_role()
        self.express.close(functools.partial(refuse_broken, self._broken) if self._broken else _ends.refuse)
        _ends.pools.discard(self)
