# SPDX-License-Identifier: Apache-2.0
"""Executors without workers."""

from __future__ import annotations

import os
from collections.abc import Callable

from . import _arguments, _core, _functions
from ._calls import Settings
from ._future import Future

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class InPlace:
    """Stands for a pool without workers: calls run at once, in the calling thread, and have no time limit."""

    key = None
    node = 0

    def __init__(self, settings: Settings) -> None:
        self._is_shut = False
        self._job: Any = None
        if settings.initializer is not None:
            settings.initializer(*settings.initargs)

    @property
    def job(self) -> Any:
        """Job without workers, for arrays."""
        if self._job is None:
            self._job = _core.Job()
        return self._job

    def check(self) -> None:
        """Raises RuntimeError after shut()."""
        if self._is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")

    def submit(self, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any],
               seconds: float | None = None, index: int | None = None) -> Future[Any]:
        """Calls the function, and returns a future that has its result."""
        _arguments.function("the first argument of submit()", function)
        self.check()
        return _run(function, arguments, keywords)

    def submit_chunk(self, function: Callable[..., Any], rows: list[Any], is_flat: bool,
                     seconds: float | None = None, least: int = 1) -> Future[Any]:
        """Calls the function for each row."""
        return _run(_functions.apply_chunk, (function, rows, is_flat), {})

    def submit_frozen(self, function: Callable[..., Any], called: Any, arguments: tuple[Any, ...],
                      keywords: dict[str, Any], seconds: float | None = None) -> Future[Any]:
        """Calls the function, and returns a future that has its result."""
        return self.submit(function, arguments, keywords)

    def worker_at(self, index: int) -> Any:
        """Returns this process in place of a worker."""
        return self

    @property
    def pid(self) -> int:
        """Process ID of this process."""
        return os.getpid()

    def frozen(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the function itself."""
        return function

    def needs_futures(self) -> bool:
        """Returns True, so that functions call call()."""
        return True

    def call(self, target: Callable[..., Any], name: str, arguments: tuple[Any, ...], keywords: dict[str, Any],
             seconds: float | None) -> Any:
        """Calls the function."""
        return target(*arguments, **keywords)

    def begin_map(self, number: int) -> None:
        """Does nothing, because map() can go on at any time."""

    def end_map(self, number: int) -> None:
        """Does nothing, because map() needs no workers."""

    def forget_maps(self) -> None:
        """Does nothing, because map() needs no workers."""

    def shut(self) -> None:
        """Accepts no more calls."""
        self._is_shut = True

    def abandon(self) -> None:
        """Accepts no more calls."""
        self._is_shut = True

    def cancel_pending(self) -> None:
        """Does nothing, because no call is pending."""

    def wait(self) -> None:
        """Returns, because all calls have ended."""

    def kill(self, number: int = 0) -> None:
        """Does nothing, because there are no workers."""


def _run(function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    future.node = 0
    from ._array import local_view

    try:
        # A worker would get views of arrays, too.
        arguments = tuple(local_view(each) for each in arguments)
        keywords = {name: local_view(each) for name, each in keywords.items()}
        future.set_result(function(*arguments, **keywords))
    except Exception as error:  # pylint: disable=broad-except
        future.set_exception(error)
    return future
