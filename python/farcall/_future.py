"""Futures of tasks."""

from __future__ import annotations

import concurrent.futures
import threading
from concurrent.futures import _base
from typing import Any, TypeVar

T = TypeVar("T")

# Guards states of futures without a condition.
_states = threading.RLock()


class Future(concurrent.futures.Future[T]):
    """Result of a task that may not have ended yet: a concurrent.futures.Future.

    `node` is the number of the worker that runs or has run the task, and None before.
    """

    node: int | None = None
    pool: Any = None  # pool whose thread sets the result
    _made: threading.Condition | None = None
    _state: str = _base.PENDING
    _result: Any = None
    _exception: BaseException | None = None

    # The members of the base class cost more than all the rest, so they are made when a thread has to wait.
    def __init__(self) -> None:  # pylint: disable=super-init-not-called
        pass

    def _find_condition(self) -> threading.Condition:
        if self._made is None:
            with _states:
                if self._made is None:
                    self._waiters: list[Any] = []
                    self._done_callbacks: list[Any] = []
                    self._made = threading.Condition()
            if self.pool is not None and not self.has_ended():
                self.pool.need_thread()
        return self._made

    # The base class declares an attribute.
    _condition: threading.Condition = property(_find_condition)  # type: ignore[assignment]

    def done(self) -> bool:
        """True if the future has a result or an exception, or was cancelled."""
        if self._state == _base.RUNNING and self.pool is not None and self._made is None:
            self.pool.need_thread()
        return self.has_ended()

    def has_ended(self) -> bool:
        """Like done(), but leaves the pool alone."""
        return self._state in (_base.CANCELLED, _base.CANCELLED_AND_NOTIFIED, _base.FINISHED)

    def result(self, timeout: float | None = None) -> T:
        """Returns the result, or raises the exception. Waits for them, at most for `timeout` seconds."""
        if self._state == _base.FINISHED and self._exception is None:
            return self._result  # type: ignore[no-any-return]
        if timeout is None and self.pool is not None and not self.has_ended():
            self.pool.help(self)
            if self._state == _base.FINISHED and self._exception is None:
                return self._result  # type: ignore[no-any-return]
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Returns the exception, or None if there is none. Waits like result()."""
        if timeout is None and self.pool is not None and not self.has_ended():
            self.pool.help(self)
        return super().exception(timeout)

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
