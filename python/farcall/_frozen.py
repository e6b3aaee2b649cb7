"""Functions that have a number, as programs see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from . import _core

P = ParamSpec("P")
T = TypeVar("T")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from ._future import Future

    class FrozenFunction(Protocol[P, T]):
        """Function with a number, as type checkers see it."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
            ...

        def submit(self, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
            """Calls the function on a worker, and returns a future of the result."""

        async def aio(self, *args: P.args, **kwargs: P.kwargs) -> T:
            """Calls the function on a worker, and waits for the result in a coroutine of asyncio."""


class Frozen(_core.Function):
    """Function whose code is sent to each worker once, as it was when it was frozen.

    A call waits for the result. submit() returns a future, and aio() is for coroutines.
    """

    __slots__ = ("pool", "called")

    pool: Any
    called: Any

    def submit(self, *arguments: Any, **keywords: Any) -> Any:
        """Calls the function on a worker, and returns a future of the result."""
        return self.pool.submit_frozen(self, arguments, keywords)

    async def aio(self, *arguments: Any, **keywords: Any) -> Any:
        """Calls the function on a worker, and waits for the result in a coroutine of asyncio."""
        return await self.submit(*arguments, **keywords)


class InPlace:
    """Stands for a Frozen function in an executor without workers."""

    __slots__ = ("_pool", "_function")

    def __init__(self, pool: Any, function: Callable[..., Any]) -> None:
        self._pool = pool
        self._function = function

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._function(*arguments, **keywords)

    def submit(self, *arguments: Any, **keywords: Any) -> Any:
        """Calls the function, and returns a future that has its result."""
        return self._pool.submit(self._function, arguments, keywords)

    async def aio(self, *arguments: Any, **keywords: Any) -> Any:
        """Calls the function."""
        return self._function(*arguments, **keywords)
