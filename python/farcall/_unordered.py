# SPDX-License-Identifier: Apache-2.0
"""Results of Executor.map() that come as soon as they are ready."""

from __future__ import annotations

import queue

from ._future import Future
from ._map import Map

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class UnorderedMap(Map):
    """State of a map() whose results come as soon as they are ready."""

    def __init__(self, *arguments: Any) -> None:
        self._ready: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lengths: dict[Future[Any], int] = {}
        super().__init__(*arguments)

    def _add(self, future: Future[Any], length: int) -> None:
        self._lengths[future] = length
        future.add_done_callback(self._ready.put)

    def _may_send(self) -> bool:
        if self._most_ahead is not None or not self._is_adaptive:
            return super()._may_send()
        return len(self._lengths) < self._most_chunks

    def next_chunk(self) -> tuple[Future[Any], int] | None:
        """Waits for a future of rows. Returns it and the number of its rows, or None if there are no more rows."""
        if not self._lengths:
            return None
        left = self._left()
        try:
            future = self._ready.get(timeout=None if left is None else max(left, 0))
        except queue.Empty:
            raise TimeoutError from None
        return future, self._lengths.pop(future)

    def _cancel(self) -> None:
        while self._lengths:
            self._lengths.popitem()[0].cancel()
