# SPDX-License-Identifier: Apache-2.0
"""The executor of tasks: calls from a worker to all workers of its job."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, wait

from . import _arguments, _core, _errors, _worker
from ._calls import (EXCEPTION, GRACE_SECONDS, NODE_FAILED, RESULT, RETURNED, STOPPED, UNKNOWN, Call, PlacedCall, Settings,
                     settle)
from ._errors import NodeFailed, Timeout
from ._executor import Executor
from ._functions import Functions, apply_chunk
from ._future import Future

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Calls that a thread runs in a task that waits for them, within each other. Others run in threads of their own.
_MOST_NESTED = 32
# Limit for requests of the program that workers return calls. This process cannot count these requests.
_MOST_ASKS = 1_000_000
# Time after which calls to this worker are sent although no task waits for them, and number of such times without a
# call after which the thread sleeps.
_POLL_NS = 5_000_000
_MOST_IDLE_POLLS = 20
# Time between two attempts to send to a worker that takes no messages.
_FULL_NS = 2_000_000


class Counter:
    """Calls of a thread that have not ended. While there are some, another thread serves in place of a task's thread.

    If the thread runs no task, its calls may be calls for which a task waits without farcall's knowledge, for instance
    by joining the thread. An additional thread then serves.
    """

    __slots__ = ("lock", "count", "is_of_task")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.is_of_task = _worker.serves()

    def begin(self) -> None:
        """Counts one more call of the calling thread."""
        with self.lock:
            self.count += 1
            first = self.count == 1
        if first:
            _worker.begin_calls(self.is_of_task)

    def end(self) -> None:
        """Counts one call less."""
        with self.lock:
            self.count -= 1
            last = self.count == 0
        if last:
            _worker.end_calls(self.is_of_task)


def counter_of(local: threading.local) -> Counter:
    """Returns the counter of the calls of the calling thread."""
    counter: Counter | None = getattr(local, "counter", None)
    if counter is None:
        counter = local.counter = Counter()
    return counter


class Peers:
    """Calls from this worker to all workers of its job, itself among them."""

    def __init__(self, key: int) -> None:
        self._lock = threading.Lock()
        self.key = key  # of the host's pool, or 0 if it is not known
        self.job = _worker.job
        self.functions = Functions(self.job)
        self._calls: dict[int, tuple[Call, Counter | None]] = {}
        self._limits: dict[int, float] = {}  # times at which calls are stopped, by their tags
        self._unsent_stops: set[int] = set()  # calls whose workers could not be asked yet to stop them
        self._returned: set[Call] = set()  # calls that workers have not run, until they are sent again
        self._stuck: set[int] = set()  # calls in this worker that were stopped, and go on
        self._next = 1
        self._own = self._turn = self.job.own()
        self._local = threading.local()
        # Calls to this worker are not sent at once, because a task that waits for one runs it itself.
        self._unsent: dict[Call, Counter] = {}
        self._is_polling = False  # true if the thread sends such calls from time to time
        self._idle_polls = 0
        threading.Thread(target=self._run, name="farcall-queue", daemon=True).start()

    def submit(self, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any],
               seconds: float | None = None, retries: int = 0) -> Future[Any]:
        """Calls a function on the next worker."""
        _arguments.function("the first argument of submit()", function)
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        try:
            target, message = self.functions.encode(function, arguments, keywords)
        except Exception as error:  # pylint: disable=broad-except
            future.set_exception(error)
            return future
        self._enqueue(Call(future, target, message, function, seconds), retries)
        return future

    def _enqueue(self, call: Call, retries: int = 0) -> None:
        call.future.pool = self
        call.tries = -retries
        # Calls of a callback belong to the thread whose call has ended.
        self._send(call, counter_of(self._local))

    def _send(self, call: Call, counter: Counter | None) -> None:
        with self._lock:
            node = call.index
            if node is None:
                nodes = self.job.alive()
                node = next((n for n in nodes if n > self._turn), nodes[0])
                self._turn = node
            call.future.node = node
            is_method = call.is_method or call.index is not None
            may_run_here = counter is not None and counter.is_of_task and call.seconds is None and call.kill_at is None
            if counter is not None and not is_method and node == self._own and may_run_here:
                self._unsent[call] = counter
                self._returned.discard(call)
                begins = not self._is_polling
                self._is_polling = True
            else:
                begins = None
        if begins is None:
            self._send_to(node, call, counter)
        elif begins:
            self.job.need()

    def submit_frozen(self, function: Any, called: Any, arguments: tuple[Any, ...], keywords: dict[str, Any],
                      seconds: float | None = None) -> Future[Any]:
        """Calls a Function on the next worker."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        try:
            message = function.encode(arguments, keywords)
        except Exception as error:  # pylint: disable=broad-except
            future.set_exception(error)
            return future
        self._enqueue(Call(future, function, message, called, seconds))
        return future

    def submit_actor(self, index: int | None, actor: int, function: Any, arguments: tuple[Any, ...],
                     seconds: float | None = None) -> Future[Any]:
        """Calls a function that makes an actor on the next worker."""
        if index is not None:
            raise RuntimeError("a task cannot choose the worker of an actor")
        return self.submit(function, arguments, {}, seconds)

    def send_to(self, node: int, call: Call, is_aside: bool) -> None:
        """Sends a call to the worker of an actor."""
        self._enqueue(PlacedCall(call, node))

    def poll(self, timeout_ns: int) -> None:
        """Sends all calls. A thread takes results at all times."""
        self.need_thread()

    def _send_unsent(self) -> None:
        """Sends the calls to this worker, so that other threads run them."""
        with self._lock:
            calls = list(self._unsent.items())
            self._unsent.clear()
        for call, counter in calls:
            self._send_to(self._own, call, counter)

    def _send_to(self, node: int, call: Call, counter: Counter | None) -> None:
        try:
            _core.hold_stops()  # of the calling task: otherwise the number of its calls could be wrong
            self._send_now(node, call, counter)
        finally:
            _core.allow_stops()

    def _send_now(self, node: int, call: Call, counter: Counter | None) -> None:
        with self._lock:
            self.job.meet(node)
            self.job.choose(node, True)
            self._returned.discard(call)
            tag = call.tag = self._next
            self._next += 1
            self._calls[tag] = call, counter
            if call.seconds is not None:
                self._limits[tag] = time.monotonic() + call.seconds
        if call.seconds is not None:
            self.job.need()
        if counter is not None:
            counter.begin()
        try:
            self.job.send(call.function, call.message, node, tag)
        except NodeFailed as error:
            self._finish(tag, NODE_FAILED, error)
        except Exception as error:  # pylint: disable=broad-except
            self._finish(tag, EXCEPTION, error)
        else:
            if call.kill_at is not None:
                self._stop_sent(call)

    def _stop_sent(self, call: Call) -> None:
        """Stops a call, unless it has ended, that was to be stopped while it was being sent again."""
        with self._lock:
            if call.tag in self._calls:
                self._begin_stop(call)
        self.job.need()

    def _send_again(self, call: Call, counter: Counter | None) -> None:
        """Sends a call that a worker has returned. An error must not end the thread that takes results."""
        try:
            self._send(call, counter)
        except Exception as error:  # pylint: disable=broad-except
            self._returned.discard(call)
            settle([(call.future, EXCEPTION, error)])

    def submit_chunk(self, function: Callable[..., Any], rows: list[Any], is_flat: bool,
                     seconds: float | None = None, least: int = 1) -> Future[Any]:
        """Calls a function for each row of arguments, as one call."""
        return self.submit(apply_chunk, (function, rows, is_flat), {}, seconds)

    def frozen(self, function: Callable[..., Any]) -> Any:
        """Returns the Function for the present state of a function."""
        with self._lock:
            for node in self.job.alive():
                self.job.meet(node)
                self.job.choose(node, True)
        return self.functions.frozen(function)

    def needs_futures(self) -> bool:
        """Returns False, because the limits of the program's executor are its own."""
        return False

    def call(self, target: Any, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any],
             seconds: float | None) -> Any:
        """Calls a Function, and waits for the result."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        self._enqueue(Call(future, target, target.encode(arguments, keywords), name, seconds))
        return future.result()

    def need_thread(self) -> None:
        """Sends all calls, because a task waits for some of them. A thread takes results at all times."""
        if self._unsent:
            self._send_unsent()

    def help(self, future: Future[Any]) -> None:
        """Runs the call in the task that waits for it, if it was not sent."""
        if not self._unsent:
            return
        with self._lock:
            counter = self._unsent.pop(future.call, None)
        self._send_unsent()
        if counter is None:
            return
        depth = getattr(self._local, "depth", 0)
        if depth >= _MOST_NESTED:
            self._send_to(self._own, future.call, counter)
            return
        self._local.depth = depth + 1
        try:
            self._run_here(future.call)
        finally:
            self._local.depth = depth

    def _run_here(self, call: Call) -> None:
        value: Any = None
        try:
            outcome, value = RESULT, _core.run_here(call.function, call.message)
        except _errors.Stopped:
            settle([call.stopped()])
            raise
        except BaseException as error:  # pylint: disable=broad-except
            outcome, value = EXCEPTION, _errors.of_remote(_errors.describe(error), self._own)
        settle([(call.future, outcome, value)])

    def stop(self, future: Future[Any], grace: float) -> bool:
        """Interrupts a call. Returns False if it has ended.

        The worker is not killed, because it may run the calling task, too. If the call has not ended after `grace`
        seconds, its future is cancelled, and the call goes on.
        """
        with self._lock:
            call = future.call
            is_unsent = self._unsent.pop(call, None) is not None
            if not is_unsent:
                if call is None or future.has_ended():
                    return False
                if call.tag not in self._calls and call not in self._returned:
                    return False
                call.kill_at = time.monotonic() + grace
                if call.tag in self._calls:
                    self._begin_stop(call)
        if is_unsent:
            settle([call.stopped()])
        else:
            self.job.need()
        return True

    def _begin_stop(self, call: Call) -> None:
        assert call.kill_at is not None
        self._limits[call.tag] = call.kill_at
        if not self.job.stop(call.future.node or 0, call.tag):
            self._unsent_stops.add(call.tag)

    @staticmethod
    def _explained(error: BaseException, call: Call) -> NodeFailed:
        """Returns an error that names the function of a call whose worker has ended."""
        node = call.future.node or 0
        explained = NodeFailed(f"node {node} has ended while it ran {call.name()}")
        explained.node, explained.__cause__ = node, error
        return explained

    def _finish(self, tag: int, outcome: int, value: Any) -> None:
        with self._lock:
            call, counter = self._calls.pop(tag, (None, None))
            self._limits.pop(tag, None)
            is_stuck = tag in self._stuck
            self._stuck.discard(tag)
            if call is not None and outcome in (RETURNED, UNKNOWN, NODE_FAILED):
                self._returned.add(call)
        if call is None:  # a call that was stopped, and has gone on
            if is_stuck:
                _worker.end_wait()
            return
        is_lost = outcome in (RETURNED, UNKNOWN)
        if is_lost and call.is_refused(_MOST_ASKS):
            _, outcome, value = call.refused(call.future.node or 0)
            is_lost = False
        if outcome == UNKNOWN:
            call.function.unknown_to(call.future.node)
        if outcome == NODE_FAILED and call.tries < 0:
            call.tries += 1
            is_lost = True
        is_sent_again = False
        if call in self._returned:
            with self._lock:
                is_sent_again = is_lost and call.kill_at is None
                if not is_sent_again:
                    self._returned.discard(call)
        if is_sent_again:
            self._send_again(call, counter)
        # Callbacks may make more calls, for which the task then waits, too.
        ends_later = call.future.has_callbacks()
        if counter is not None and not ends_later:
            counter.end()
        if not _worker.serves():
            self._local.counter = counter
        if is_sent_again:
            pass
        elif outcome in (STOPPED, RETURNED, UNKNOWN):
            settle([call.stopped()])
        else:
            if outcome == NODE_FAILED:
                value = self._explained(value, call)
            settle([(call.future, RESULT if outcome == RESULT else EXCEPTION, value)])
        if counter is not None and ends_later:
            counter.end()

    def _check_limits(self) -> int:
        """Stops calls whose time is up. Returns the time until the next one in nanoseconds, or -1."""
        if not self._limits:
            return -1
        given_up = []
        with self._lock:
            now = time.monotonic()
            for tag in [tag for tag, end in self._limits.items() if end <= now]:
                call = self._calls[tag][0]
                if call.kill_at is None:
                    call.late = Timeout(f"{call.name()} has not ended within its time limit of {call.seconds:g} s")
                    call.kill_at = now + GRACE_SECONDS
                    self._begin_stop(call)
                else:
                    given_up.append(tag)
            self._unsent_stops = {tag for tag in self._unsent_stops if tag in self._calls
                                  and not self.job.stop(self._calls[tag][0].future.node or 0, tag)}
            left = min((max(0, int((end - now) * 1e9)) for end in self._limits.values()), default=-1)
            if self._unsent_stops:
                left = min(left, _FULL_NS)
        for tag in given_up:
            self._give_up(tag)
        return left

    def _give_up(self, tag: int) -> None:
        """Cancels the future of a call that cannot be stopped."""
        with self._lock:
            is_own = tag in self._calls and self._calls[tag][0].future.node == self._own
        self._finish(tag, STOPPED, None)
        if is_own:
            self._stuck.add(tag)
            # The thread of the call serves no other calls until the call ends, like a thread that waits.
            _worker.begin_wait()

    def _run(self) -> None:
        while True:
            taken: list[tuple[Any, ...]] = []
            try:
                timeout = self._check_limits()
                if self._is_polling:
                    timeout = _POLL_NS if timeout < 0 else min(timeout, _POLL_NS)
                self.job.take(timeout, taken.append)
            except RuntimeError:
                return  # the job has ended
            if self._is_polling and not taken:
                self._poll()
            for tag, _, outcome, value in taken:
                if tag is not None:
                    self._finish(tag, outcome, value)
            value = None  # keeps no result alive during the next wait

    def _poll(self) -> None:
        """Sends calls to this worker for which no task waits."""
        self._idle_polls = 0 if self._unsent else self._idle_polls + 1
        if self._unsent:
            self._send_unsent()
        with self._lock:
            self._is_polling = self._idle_polls < _MOST_IDLE_POLLS or bool(self._unsent)

    def check(self) -> None:
        """Does nothing, because the executor can be used as long as the task runs."""

    def begin_map(self, number: int) -> None:
        """Does nothing, because the workers belong to the host."""

    def end_map(self, number: int) -> None:
        """Does nothing, because the workers belong to the host."""

    def forget_maps(self) -> None:
        """Does nothing, because the workers belong to the host."""

    def shut(self) -> None:
        """Does nothing, because the executor belongs to the host."""

    def abandon(self) -> None:
        """Does nothing, because the executor belongs to the host."""

    def cancel_pending(self) -> None:
        """Does nothing, because all calls were sent."""

    def wait(self) -> None:
        """Returns at once."""

    def kill(self, number: int = 0) -> None:
        """Does nothing, because the workers belong to the host."""


_initialized: set[tuple[int, int]] = set()
_initializing = threading.RLock()


def _call_initialized(key: tuple[int, int], initializer: Callable[..., Any], initargs: tuple[Any, ...],
                      function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Calls a function, after the initializer of its executor has run once in this worker."""
    with _initializing:
        if key not in _initialized:
            try:
                initializer(*initargs)
            except Exception as error:
                raise BrokenExecutor(f"a worker could not be initialised: {type(error).__name__}: {error}") from error
            _initialized.add(key)
    return function(*arguments, **keywords)


class Guest(Peers):
    """Pool of an executor that a task has made: it uses the workers of the program's executor."""

    _number = 0

    def __init__(self, settings: Settings) -> None:  # pylint: disable=super-init-not-called
        self._peers: Peers = executor(0)._pool
        self.key = self._peers.key
        self.job = self._peers.job
        self._settings = settings
        self._is_shut = False
        self._futures: set[Future[Any]] = set()
        with _initializing:
            Guest._number += 1
            self._key = self.job.own(), Guest._number

    def submit_actor(self, index: int | None, actor: int, function: Any, arguments: tuple[Any, ...],
                     seconds: float | None = None) -> Future[Any]:
        """Calls a function that makes an actor on the next worker."""
        self.check()
        return self._peers.submit_actor(index, actor, function, arguments, seconds)

    def submit_frozen(self, function: Any, called: Any, arguments: tuple[Any, ...], keywords: dict[str, Any],
                      seconds: float | None = None) -> Future[Any]:
        """Calls a Function, or a function that needs an initializer, on the next worker."""
        if self.needs_futures():
            return self._submit(function, arguments, keywords, seconds)
        return self._peers.submit_frozen(function, called, arguments, keywords, seconds)

    def check(self) -> None:
        """Raises RuntimeError after shut()."""
        if self._is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")

    def submit(self, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any],
               seconds: float | None = None, retries: int = 0) -> Future[Any]:
        """Calls a function on the next worker."""
        self.check()
        return self._submit(function, arguments, keywords, seconds)

    def _submit(self, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any],
                seconds: float | None) -> Future[Any]:
        settings = self._settings
        if settings.initializer is not None:
            arguments = self._key, settings.initializer, settings.initargs, function, arguments, keywords
            function, keywords = _call_initialized, {}
        future: Future[Any] = self._peers.submit(function, arguments, keywords, seconds, settings.retries)
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return future

    def submit_chunk(self, function: Callable[..., Any], rows: list[Any], is_flat: bool,
                     seconds: float | None = None, least: int = 1) -> Future[Any]:
        """Calls a function for each row of arguments, as one call."""
        return self._submit(apply_chunk, (function, rows, is_flat), {}, seconds)

    def frozen(self, function: Callable[..., Any]) -> Any:
        """Returns the Function for the present state of a function, or the function if it needs an initializer."""
        self.check()
        return function if self.needs_futures() else self._peers.frozen(function)

    def needs_futures(self) -> bool:
        """True if calls must be counted, repeated or initialised."""
        return self._settings.initializer is not None or self._settings.retries > 0

    def call(self, target: Any, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any],
             seconds: float | None) -> Any:
        """Calls a function, and waits for the result."""
        if self.needs_futures():
            return self._submit(target, arguments, keywords, seconds).result()
        return self._peers.call(target, name, arguments, keywords, seconds)

    def shut(self) -> None:
        """Accepts no more calls."""
        self._is_shut = True

    def abandon(self) -> None:
        """Accepts no more calls, and stops the calls that run."""
        self._is_shut = True
        for future in list(self._futures):
            future.stop()

    def wait(self) -> None:
        """Waits until all calls have ended."""
        wait(list(self._futures))

    def kill(self, number: int = 0) -> None:
        """Stops the calls that run, because the workers belong to the host."""
        self.abandon()


_lock = threading.Lock()
_executor: Executor | None = None


def executor(key: int, workers: int = 0) -> Executor:
    """Returns the executor of the tasks of this worker. Raises RuntimeError in a process that is no worker.

    `workers` is the number of workers of the host's pool, or 0 if it is not known.
    """
    global _executor  # pylint: disable=global-statement
    if _worker.job is None:
        raise RuntimeError("an Executor can be sent only to its own workers; make another Executor in this process")
    with _lock:
        if _executor is None:
            made = Executor.__new__(Executor)
            made._max_workers = len(_worker.job.alive()) or 1  # pylint: disable=protected-access
            made._pool = Peers(key)  # pylint: disable=protected-access
            made._timeout = None  # pylint: disable=protected-access
            made._set_submit()  # pylint: disable=protected-access
            _executor = made  # at the end, because a stop may raise an exception anywhere before
        # A worker that has just begun may not know all the others yet.
        _executor._max_workers = workers or _executor._max_workers  # pylint: disable=protected-access
        _executor._pool.key = key or _executor._pool.key  # pylint: disable=protected-access
        return _executor
