# SPDX-License-Identifier: Apache-2.0
"""Functions that have a number, as programs see them."""

from __future__ import annotations

from collections.abc import Callable

from . import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ParamSpec, Protocol, TypeVar

    from ._future import Future

    P = ParamSpec("P")
    T = TypeVar("T")

    class FrozenFunction(Protocol[P, T]):
        """Function with a number, as type checkers see it."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
            ...

        def submit(self, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
            """Calls the function on a worker, and returns a future of the result."""
            ...

        async def aio(self, *args: P.args, **kwargs: P.kwargs) -> T:
            """Calls the function on a worker, and waits for the result in a coroutine of asyncio."""
            ...


class Frozen(_core.Function):
    """Function whose code is sent to each worker once, as it was when it was frozen.

    A call waits for the result. submit() returns a future, and aio() is for coroutines.
    """

    __slots__ = ("pool", "called")

    pool: Any  # set by Executor.function()
    called: Any

    def __repr__(self) -> str:
        called = getattr(self, "called", None)
        return f"<farcall function {getattr(called, '__qualname__', called)}>"

    def submit(self, *arguments: Any, **keywords: Any) -> Any:
        """Calls the function on a worker, and returns a future of the result."""
        return self.pool.submit_frozen(self, self.called, arguments, keywords)

    async def aio(self, *arguments: Any, **keywords: Any) -> Any:
        """Calls the function on a worker, and waits for the result in a coroutine of asyncio."""
        return await self.submit(*arguments, **keywords)


class Counted:
    """Stands for a Frozen function if its calls must have futures, for instance for their time limit."""

    __slots__ = ("_pool", "_target", "_name", "_called", "_seconds")

    def __init__(self, pool: Any, target: Any, name: str, called: Callable[..., Any], seconds: float | None) -> None:
        self._pool = pool
        self._target = target
        self._name = name
        self._called = called
        self._seconds = seconds

    def __repr__(self) -> str:
        return f"<farcall function {self._name}>"

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._pool.call(self._target, self._name, arguments, keywords, self._seconds)

    def submit(self, *arguments: Any, **keywords: Any) -> Any:
        """Calls the function on a worker, and returns a future of the result."""
        return self._pool.submit_frozen(self._target, self._called, arguments, keywords, self._seconds)

    async def aio(self, *arguments: Any, **keywords: Any) -> Any:
        """Calls the function on a worker, and waits for the result in a coroutine of asyncio."""
        return await self.submit(*arguments, **keywords)
