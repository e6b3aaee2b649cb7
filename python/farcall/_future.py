# SPDX-License-Identifier: Apache-2.0
"""Futures of tasks."""

from __future__ import annotations

import concurrent.futures
import os
import threading
from collections.abc import Generator
from concurrent.futures import _base

from . import _arguments, _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    T = TypeVar("T")
else:
    T = object  # the module typing takes 2 ms to import

# Guards states of futures without a condition.
_states = threading.RLock()


class Future(_core.Future, concurrent.futures.Future[T]):
    """Result of a task that may not have ended yet: a concurrent.futures.Future.

    `node` is the number of the node that runs or has run the task, and None before. stop() ends the call. A future can
    be awaited in a coroutine.
    """

    origin: Any = None  # job that the future keeps alive

    # The members are in the base class, which is written in C. The condition and its lists cost more than all the rest,
    # so they are made when a thread has to wait, or a callback is added.

    def _find_condition(self) -> threading.Condition:
        if self._made is None:
            with _states:
                if self._made is None:
                    self._waiters = []
                    self._done_callbacks = []
                    self._made = threading.Condition()
            if self.pool is not None and not self.has_ended():
                self.pool.need_thread()
        made: threading.Condition = self._made
        return made

    # The base class declares an attribute.
    _condition: threading.Condition = property(_find_condition)  # type: ignore[assignment]

    def done(self) -> bool:
        """True if the future has a result or an exception, or was cancelled."""
        if self._state == _base.RUNNING and self.pool is not None and self._made is None:
            self.pool.need_thread()
        return self.has_ended()

    if TYPE_CHECKING:
        def result(self, timeout: float | None = None) -> T:
            """Returns the result, or raises the exception. Waits for them, at most for `timeout` seconds."""
            ...

        def __await__(self) -> Generator[Any, None, T]:
            ...

    def _invoke_callbacks(self) -> None:
        # A callback that raises SystemExit must not end the thread of a pool, which would lose all later results.
        # In the main thread, the exception may come from a signal handler.
        interrupt: BaseException | None = None
        for callback in self._done_callbacks:
            try:
                callback(self)
            except Exception:  # pylint: disable=broad-except
                _base.LOGGER.exception("exception calling callback for %r", self)
            except BaseException as error:  # pylint: disable=broad-except
                if threading.current_thread() is threading.main_thread():
                    interrupt = error
                else:
                    _base.LOGGER.exception("exception calling callback for %r", self)
        if interrupt is not None:
            raise interrupt

    def has_callbacks(self) -> bool:
        """True if functions run when the future is ready."""
        return self._made is not None and bool(self._done_callbacks)

    def _wait_for_end(self, timeout: float | None) -> None:
        """Waits for the result or the exception, after result() has found none."""
        if timeout is None and self.pool is not None and not self.has_ended():
            self.pool.help(self)
        if not self.has_ended():
            with self._condition:
                if not self.has_ended():
                    self._condition.wait(timeout)
        if not self.has_ended():
            raise TimeoutError()
        if self._state != _base.FINISHED:
            raise concurrent.futures.CancelledError()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Returns the exception, or None if there is none. Waits like result()."""
        if timeout is None and self.pool is not None and not self.has_ended():
            self.pool.help(self)
        return concurrent.futures.Future.exception(self, timeout)

    def stop(self, grace: float = 2.0) -> bool:
        """Ends the call: cancels it if it has not begun, and otherwise interrupts it. Does not wait for its end.

        A function that runs gets the exception farcall.Stopped. If it has not ended after `grace` seconds, its worker
        is killed and replaced. The future is then cancelled. If the function catches the exception and returns, the
        future gets the result. Returns False if the call has ended already.
        """
        grace = _arguments.seconds("grace", grace, may_be_zero=True)
        if self.cancel():
            return True
        return self.pool is not None and self.pool.stop(self, grace)

    def set_stopped(self) -> None:
        """Marks the future of a call that was stopped as cancelled."""
        with self._condition:
            if self.has_ended():
                return
            self._state = _base.CANCELLED
            self._condition.notify_all()
        self._invoke_callbacks()
        self.set_running_or_notify_cancel()

    def _wait_in_loop(self) -> Generator[Any, None, T]:
        """Returns the iterator of `await` for a future without a result."""
        from ._asyncio import wait

        return wait(self)

    def set_running_or_notify_cancel(self) -> bool:
        with _states:
            if self._made is None and self._state == _base.PENDING:
                self._state = _base.RUNNING
                return True
        return super().set_running_or_notify_cancel()

    def set_result(self, result: Any) -> None:
        if not self._finish(result, None):
            super().set_result(result)

    def set_exception(self, exception: BaseException | None) -> None:
        if not self._finish(None, exception):
            super().set_exception(exception)

    def settle_alone(self, result: Any) -> bool:
        """Sets the result and returns True, if no thread waits for it and no callback has to run."""
        return self.has_ended() or self._finish(result, None)

    def _finish(self, result: Any, exception: BaseException | None) -> bool:
        """Sets the result if no other thread can be waiting for it."""
        with _states:
            if self._made is not None or self.has_ended():
                return False
            self._result, self._exception = result, exception
            self._state = _base.FINISHED
            return True


def _renew_lock() -> None:
    """In a forked child, makes a lock that no thread of the parent holds."""
    global _states  # pylint: disable=global-statement
    _states = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)
_core.set_future_type(Future)
