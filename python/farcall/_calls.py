# SPDX-License-Identifier: Apache-2.0
"""Calls of a pool, its workers, and its settings."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, InvalidStateError

from ._future import Future

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Outcomes of calls that job.take() tells.
RESULT, EXCEPTION, RETURNED, STOPPED, UNKNOWN, NODE_FAILED = range(6)
# Number of times that workers may refuse a call because they do not know the function, or return it unasked.
MOST_REFUSALS = 1000
# Time between the interruption of a call whose time is up and the end of its worker.
GRACE_SECONDS = 2.0
# Time after which a worker without calls sleeps.
_IDLE_SECONDS = 20e-6


class Settings:
    """Settings of a pool, which are checked already."""

    size = 1
    preload: Any = ()  # names of modules, or a Source of workers
    threads = 1
    initializer: Callable[..., Any] | None = None
    initargs: tuple[Any, ...] = ()
    most_tasks: int | None = None  # calls after which a worker is replaced
    most_rss: int | None = None  # bytes of memory above which a worker is replaced
    output: Any = None  # an Output, or None
    retries = 0  # how often a call is repeated if its worker ends

    def counts_calls(self) -> bool:
        """True if workers get one call at a time, because each one may be their last."""
        return self.most_tasks is not None or self.most_rss is not None


class Call:
    """A call of a function on a worker."""

    index: int | None = None  # place of the worker that must run the call
    actor: int | None = None  # number of the actor that the call makes
    is_method = False  # true for a call of an actor, which only its node can run

    __slots__ = ("future", "function", "message", "called", "seconds", "tries", "tag", "worker", "begun_at",
                 "kill_at", "late", "refusals")

    def __init__(self, future: Future[Any], function: Any, message: Any, called: Any,
                 seconds: float | None = None) -> None:
        self.future = future
        self.function = function
        self.message = message
        self.called = called  # the function of the program, or its name
        self.seconds = seconds  # time limit
        self.tries = 0  # workers that have ended during the call
        self.refusals = 0  # how often workers have not run it
        self.tag = 0
        self.worker: Worker | None = None  # worker that has the call
        self.begun_at: float | None = None  # time at which the pool has seen that the call runs
        self.kill_at: float | None = None  # time at which the worker of a call that is stopped is killed
        self.late: Exception | None = None  # error of a call whose time is up
        future.call = self

    def may_run(self) -> bool:
        """Marks the future as running. Returns False if the call was cancelled."""
        # A call that comes back from a worker is running already.
        if self.future.node is not None or self.future.set_running_or_notify_cancel():
            return True
        self.future.forget()
        return False

    def name(self) -> str:
        """Returns the name of the function."""
        return name_of(self.called)

    def is_refused(self, asks: int) -> bool:
        """Counts a refusal. True if there were too many. `asks` is how often workers were asked to return calls."""
        self.refusals += 1
        return self.refusals > MOST_REFUSALS + asks

    def refused(self, node: int) -> tuple[Future[Any], int, Any]:
        """Returns the outcome of a call that was refused too often."""
        return self.future, EXCEPTION, RuntimeError(f"node {node} is broken: it refuses a call of {self.name()} again "
                                                    "and again")

    def stopped(self) -> tuple[Future[Any], int, Any]:
        """Returns the outcome of a call that was stopped."""
        return (self.future, STOPPED, None) if self.late is None else (self.future, EXCEPTION, self.late)


class PlacedCall(Call):
    """A call of a function on a given worker, or on the worker that is started in its place."""

    __slots__ = ("index", "actor")

    def __init__(self, call: Call, index: int, actor: int | None = None) -> None:
        super().__init__(call.future, call.function, call.message, call.called, call.seconds)
        self.index = index
        self.actor = actor


class MethodCall(Call):
    """A call of an actor."""

    __slots__ = ()

    is_method = True


class Worker:
    """A worker of a pool."""

    __slots__ = ("node", "pid", "index", "actors", "aside", "calls", "begun", "is_ready", "is_full", "is_tracked",
                 "has_failed", "must_go", "watched", "since", "slept", "asked", "stops", "failed", "give_up_at",
                 "track_attempts")

    def __init__(self, node: int, pid: int, index: int) -> None:
        self.node = node
        self.pid = pid
        self.index = index  # place in the pool, which the worker that is started instead of this one takes over
        self.actors: set[int] = set()  # actors that this process has made or refers to
        self.aside: set[int] = set()  # calls that threads of actors run
        self.calls: dict[int, Call] = {}  # in the order in which they were sent
        self.begun = 0  # calls that were sent, ever
        self.is_ready = False
        self.is_tracked = False  # true if it notes which calls it has begun
        self.track_attempts = 0
        self.is_full = False  # true if its lane had no space for a message
        self.has_failed = False
        self.must_go = False  # true if it gets no more calls, and is replaced after its last one
        self.since = 0.0  # time at which the call that runs has begun
        self.slept = False  # true if the worker may have slept before that call was sent
        self.asked = 0.0  # time at which it was asked to return the calls that it has
        self.watched = -1  # descriptor that becomes readable when the process ends
        self.stops: set[int] = set()  # calls that are being stopped
        self.failed: list[tuple[Call, Exception]] = []  # calls that wait for the reason of its end
        self.give_up_at = 0.0  # time until which they wait

    def take(self, call: Call) -> None:
        """Notes that a call is sent to the worker."""
        if not self.calls:
            now = time.monotonic()
            self.slept, self.since = now - self.since > _IDLE_SECONDS, now
        self.calls[call.tag] = call


# Futures with the outcomes that they get once no lock is held.
Outcomes = list[tuple[Future["Any"], int, "Any"]]


def settle(outcomes: Outcomes) -> None:
    """Sets the results of futures, which runs their callbacks."""
    outcomes.reverse()
    while outcomes:
        future, outcome, value = outcomes.pop()
        future.forget()
        set_outcome(future, outcome, value)
        del future, value


def set_outcome(future: Future[Any], outcome: int, value: Any) -> None:
    """Sets the result of a future, unless the program has set it itself. Runs its callbacks."""
    try:
        if outcome == STOPPED:
            future.set_stopped()
        elif outcome == EXCEPTION:
            future.set_exception(value)
        else:
            future.set_result(value)
    except InvalidStateError:
        pass


def name_of(function: Any) -> str:
    """Returns the name of a function, for errors."""
    while hasattr(function, "func"):
        function = function.func
    return str(getattr(function, "__qualname__", function))


def rss_of(pid: int) -> int:
    """Returns the resident memory of a process in bytes, or 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass
    return 0


def refuse_broken(reason: BaseException) -> Any:
    """Raises the error of an executor that can have no workers any more."""
    raise BrokenExecutor(str(reason)) from reason
