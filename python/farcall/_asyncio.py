# SPDX-License-Identifier: Apache-2.0
"""Futures in event loops of asyncio."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Generator

from . import _errors
from ._future import Future
from ._map import Map

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Most turns of the loop in which a task looks for the result of a short call, before it leaves the result to the
# thread of the pool.
_MOST_TURNS = 16
# Time for which a task waits before it lets other tasks run.
_SPIN_NS = 3000
# Most results in a row that tasks take in this time, without letting other tasks run.
_MOST_AT_ONCE = 16


class _Bridge:
    """Brings futures that are ready to an event loop. The loop wakes up once for all that have come meanwhile."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._ready: deque[asyncio.Future[None]] = deque()
        self._lock = threading.Lock()
        self._is_woken = False
        self.at_once = 0  # results in a row for which no task had to let others run

    def add(self, future: Future[Any]) -> asyncio.Future[None]:
        """Returns a future of the loop that becomes ready together with `future`."""
        loop = self._loop()
        assert loop is not None
        waiter: asyncio.Future[None] = loop.create_future()
        future.add_done_callback(lambda _: self._tell(waiter))
        return waiter

    def _tell(self, waiter: asyncio.Future[None]) -> None:
        with self._lock:
            self._ready.append(waiter)
            if self._is_woken:
                return
            self._is_woken = True
        loop = self._loop()
        try:
            if loop is not None:
                loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            pass  # the loop was closed

    def _wake(self) -> None:
        with self._lock:
            ready, self._ready = self._ready, deque()
            self._is_woken = False
        for waiter in ready:
            if not waiter.done():
                waiter.set_result(None)


_bridges: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Bridge] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def _renew_lock() -> None:
    """In a forked child, makes a lock that no thread of the parent holds."""
    global _lock  # pylint: disable=global-statement
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def _bridge() -> _Bridge:
    """Returns the bridge to the running loop."""
    loop = asyncio.get_running_loop()
    with _lock:
        found = _bridges.get(loop)
        if found is None:
            found = _bridges[loop] = _Bridge(loop)
        return found


def wait(future: Future[Any]) -> Generator[Any, None, Any]:
    """Waits for a future in a coroutine. If the coroutine is cancelled, cancels the call, or stops it."""
    pool = future.pool
    try:
        if not future.has_ended() and pool is not None:
            # Most calls take less time than it takes to wake the loop up.
            pool.poll(_SPIN_NS)
            bridge = _bridge()
            bridge.at_once += 1
            if bridge.at_once > _MOST_AT_ONCE:
                bridge.at_once = 0
                yield
            turns = 0
            while not future.has_ended() and turns < _MOST_TURNS:
                bridge.at_once = 0
                turns += 1
                yield
                pool.poll(0)
        if not future.has_ended():
            yield from _bridge().add(future)
    except (asyncio.CancelledError, GeneratorExit):
        _cancel(future)
        raise
    try:
        return future.result()
    except concurrent.futures.CancelledError:
        raise asyncio.CancelledError from None


def _cancel(future: Future[Any]) -> None:
    future.stop()


async def results(mapped: Map) -> AsyncIterator[Any]:
    """Yields the results of a map in their order."""
    try:
        while (chunk := mapped.next_chunk()) is not None:
            future, count = chunk
            results, description = mapped.take(count, await future)
            node = future.node
            del future, chunk
            results.reverse()
            while results:
                yield results.pop()
            if description is not None:
                raise _errors.of_remote(description, node or 0)
    finally:
        mapped.close()


async def leave(executor: Any, is_interrupted: bool) -> None:
    """Ends an executor without blocking the loop."""
    pool = executor._pool  # pylint: disable=protected-access
    if is_interrupted:
        pool.abandon()
    await asyncio.to_thread(executor.shutdown)
