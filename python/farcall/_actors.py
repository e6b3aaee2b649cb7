# SPDX-License-Identifier: Apache-2.0
"""Actors: objects that live on a worker, and the handles by which all processes of the job call them."""

from __future__ import annotations

import copy
import itertools
import operator
import os
import threading
import weakref
from collections.abc import Callable

from . import _arguments, _core, _objects, _pickling, _placed, _worker
from ._calls import MethodCall
from ._errors import NodeFailed, RemoteTraceback, UnknownFunction
from ._future import Future

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Kinds of requests, as in actors.c.
_HOLD, _LEND, _RELEASE = 0, 1, 2
_tokens = itertools.count()


class _Home:
    """Job of an actor, as this process sees it."""

    def __init__(self, key: int) -> None:
        self.key = key
        self.job: Any = _worker.job
        if _worker.job is None:
            pool = _placed.by_key.get(key)
            if pool is None:
                raise RuntimeError("the executor of the actor does not exist in this process any more")
            self.job = pool.job
        self.own = _objects.own_node()

    def meet(self, node: int) -> None:
        """Makes calls to a node possible that another process has added."""
        if self.own != 0:
            self.job.meet(node)

    def pool(self) -> Any:
        """Returns what sends calls that have futures."""
        if _worker.job is None:
            return _placed.by_key.get(self.key)
        from ._peers import executor

        return executor(self.key)._pool  # pylint: disable=protected-access

    def explain(self, node: int, error: NodeFailed) -> BaseException:
        """Returns the error with the reason of the node's end, if this process knows it."""
        pool = _placed.by_key.get(self.key)
        return error if pool is None else pool.explain_lost(node, error)

    def leave(self, node: int, number: int) -> None:
        """Says that this process does not refer to an actor any more."""
        pool = _placed.by_key.get(self.key)
        if pool is not None:
            pool.actor_left(node, number)


class Hold:
    """Reference of this process to an actor, which the handles and methods in this process share."""

    __slots__ = ("home", "node", "number", "name", "methods", "has_threads", "keeps", "is_closed", "__weakref__")

    def __init__(self, home: _Home, node: int, number: int, description: bytes | None) -> None:
        self.home = home
        self.node = node
        self.number = number
        self.is_closed = description is None
        threads, self.name, *methods = (description or b"0\0actor").decode().split("\0")
        self.has_threads = threads != "0"
        self.methods = None if description is None else frozenset(methods)
        self.keeps: Any = None  # executor that must not end before the handles

    def function(self, name: str) -> Method:
        """Returns the function that calls a method."""
        definition = _objects.definition_of(self.number, name)
        made = Method(self.home.job, _objects.number_of(definition), definition, self.node, self.explain)
        made.hold = self
        made.name = name
        return made

    def explain(self, error: BaseException) -> BaseException:
        """Returns the exception that a call raises, in place of the exception of the extension module."""
        if isinstance(error, UnknownFunction):
            return RuntimeError("the actor was closed, or belongs to another executor" if self.methods is None else
                                f"the actor {self.name} was closed")
        if isinstance(error, NodeFailed) and not isinstance(error.__cause__, RemoteTraceback):
            return self.home.explain(self.node, error)
        return error

    def lend(self, token: int) -> None:
        """Lets the actor live until the receiver of a message with this token refers to it."""
        _core.actor_ask(self.home.job, self.node, _LEND, self.number, token)

    def __del__(self) -> None:
        try:
            if not self.is_closed:
                self.home.leave(self.node, self.number)
                _core.actor_ask(self.home.job, self.node, _RELEASE, self.number, self.home.own)
        except Exception:  # pylint: disable=broad-except
            pass  # the worker or the job has ended


_holds: weakref.WeakValueDictionary[tuple[int, int], Hold] = weakref.WeakValueDictionary()
_lock = threading.RLock()


class _MethodFuture(Future["Any"]):
    """Future of a call of a method."""

    hold: Hold

    def set_exception(self, exception: BaseException | None) -> None:
        super().set_exception(exception if exception is None else self.hold.explain(exception))


class _Posted(_MethodFuture):
    """Future of a call for which nobody waits."""

    name = ""

    def set_exception(self, exception: BaseException | None) -> None:
        import logging

        if exception is not None:
            exception = self.hold.explain(exception)
        logging.getLogger("farcall").error("%s.%s(), called by post(), has failed", self.hold.name, self.name,
                                           exc_info=exception)
        super().set_exception(exception)


class Method(_core.Function):
    """Method of an actor. A call waits for the result."""

    __slots__ = ("hold", "name")

    hold: Hold
    name: str

    def submit(self, *arguments: Any, **keywords: Any) -> Future[Any]:
        """Calls the method, and returns a future of the result."""
        return self._send(_MethodFuture(), arguments, keywords)

    async def aio(self, *arguments: Any, **keywords: Any) -> Any:
        """Calls the method, and waits for the result in a coroutine of asyncio."""
        return await self.submit(*arguments, **keywords)

    def post(self, *arguments: Any, **keywords: Any) -> None:
        """Calls the method without waiting. The log gets an exception, by the logger "farcall"."""
        future = _Posted()
        future.name = self.name
        self._send(future, arguments, keywords)

    def _send(self, future: _MethodFuture, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Future[Any]:
        future.hold = self.hold
        future.set_running_or_notify_cancel()
        future.node = self.hold.node
        try:
            message = self.encode(arguments, keywords)
        except Exception as error:  # pylint: disable=broad-except
            future.set_exception(error)
            return future
        pool = self.hold.home.pool()
        if pool is None:
            raise RuntimeError("the executor of the actor has ended")
        call = MethodCall(future, self, message, f"{self.hold.name}.{self.name}")
        pool.send_to(self.hold.node, call, self.hold.has_threads)
        return future

    def __reduce__(self) -> Any:
        return getattr, (Actor(self.hold), self.name)

    def __repr__(self) -> str:
        return f"<method {self.name} of {Actor(self.hold)!r}>"


class Actor:
    """Handle of an object that lives on a worker.

    `actor.method(...)` calls a method and waits; `actor.method.submit(...)` returns a future, `.aio(...)` is for
    coroutines, and `.post(...)` does not wait. `actor.name` fetches an attribute that is no method. Names that begin
    with an underscore cannot be used. The object lives as long as a process has a handle, or until close().
    """

    _hold: Hold

    def __init__(self, hold: Hold) -> None:
        self.__dict__["_hold"] = hold

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"an actor has no public attribute {name!r}", name=name, obj=self)
        hold = self._hold
        if hold.methods is None or name in hold.methods:
            made = self.__dict__[name] = hold.function(name)
            return made
        return self._call(_objects.READ)(name)

    def __dir__(self) -> list[str]:
        return sorted({*(self._hold.methods or ()), "close"})

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"attributes of an actor can only be read; set {name!r} in a method", name=name, obj=self)

    def _call(self, name: str) -> Method:
        found: Method | None = self.__dict__.get(name)
        if found is None:
            found = self.__dict__[name] = self._hold.function(name)
        return found

    def close(self) -> None:
        """Ends the object after the calls that were sent before, and waits. First calls its own close(), if any."""
        hold = self._hold
        if hold.is_closed:
            return
        try:
            self._call(_objects.CLOSE)()
        except NodeFailed:
            pass  # the object has ended with its worker
        finally:
            hold.is_closed = True
            hold.home.leave(hold.node, hold.number)

    def __enter__(self) -> Actor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        hold = self._hold
        token = (hold.home.own + 1) << 40 | next(_tokens)
        _pickling.mention(hold, token)
        return _handle, (hold.home.key, hold.node, hold.number, token)

    def __repr__(self) -> str:
        return f"<farcall actor {self._hold.name} on node {self._hold.node}>"


def _renew_lock() -> None:
    """In a forked child, makes a lock that no thread of the parent holds."""
    global _lock  # pylint: disable=global-statement
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


def _handle(key: int, node: int, number: int, token: int) -> Actor:
    """Makes a handle from its pickle."""
    home = _Home(key or _key_of(node, number))
    with _lock:
        hold = _holds.get((key, number))
    try:
        home.meet(node)
        if hold is not None:
            _core.actor_ask(home.job, node, _RELEASE, number, token)
            return Actor(hold)
        description = _core.actor_ask(home.job, node, _HOLD, number, token)
    except NodeFailed:
        description = None
    return Actor(_keep(hold or Hold(home, node, number, description)))


def _key_of(node: int, number: int) -> int:
    """Returns the key of the pool of an actor, whose maker did not know it."""
    if _worker.job is None:
        for key, pool in list(_placed.by_key.items()):
            try:
                if _core.actor_ask(pool.job, node, _HOLD, number, 0) is not None:
                    _core.actor_ask(pool.job, node, _RELEASE, number, 0)
                    return key
            except Exception:  # pylint: disable=broad-except
                pass  # the job has ended, or has no such node
    return 0


def _keep(hold: Hold) -> Hold:
    """Returns the reference to an actor that this process shares."""
    with _lock:
        return _holds.setdefault((hold.home.key, hold.number), hold)


class Creation:
    """Call that makes the object of an actor; see Executor.create()."""

    def __init__(self, executor: Any, maker: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any],
                 node: Any, threads: int | None) -> None:
        if threads is not None:
            threads = _arguments.whole("threads", threads, 1)
        self._executor = executor
        self._pool = executor._pool  # pylint: disable=protected-access
        if self._pool.key is None:
            self._future = self._pool.submit(maker, arguments, keywords)
            return
        self._home = _Home(self._pool.key)
        self._number = int.from_bytes(os.urandom(8), "little") >> 2
        index = None if node is None else executor.index_of(node)
        self._future = self._pool.submit_actor(
            index, self._number, _objects.make,
            (self._number, self._home.own, threads or 0, maker, arguments, keywords),
            executor._timeout)  # pylint: disable=protected-access

    def wait(self) -> Any:
        """Waits for the object, and returns its handle."""
        try:
            outcome = self._future.result()
        except BaseException:
            self._give_up()
            raise
        return self._actor_of(outcome)

    async def wait_in_loop(self) -> Any:
        """Waits for the object in a coroutine, and returns its handle."""
        try:
            outcome = await self._future
        except BaseException:
            self._give_up()
            raise
        return self._actor_of(outcome)

    def _give_up(self) -> None:
        """Lets the object end if it is made although the caller does not wait any more."""
        def drop(future: Future[Any]) -> None:
            if not future.cancelled() and future.exception() is None:
                self._actor_of(future.result())

        self._future.add_done_callback(drop)

    def _actor_of(self, outcome: Any) -> Any:
        if self._pool.key is None:
            return LocalActor(self._pool, outcome)
        self._home.meet(self._future.node)
        hold = Hold(self._home, self._future.node, self._number, outcome)
        hold.keeps = self._executor
        return Actor(_keep(hold))


def get(actor: Any) -> Any:
    """Returns a copy of the object of an actor."""
    if isinstance(actor, LocalActor):
        return copy.copy(actor._value)  # pylint: disable=protected-access
    if not isinstance(actor, Actor):
        raise TypeError(f"get() takes an actor, not {type(actor).__name__}")
    return actor._call(_objects.COPY)()  # pylint: disable=protected-access


class _LocalMethod:
    """Method of an object in this process."""

    def __init__(self, actor: LocalActor, function: Callable[..., Any]) -> None:
        self._actor = actor
        self._function = function

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if self._actor._is_closed:  # pylint: disable=protected-access
            raise RuntimeError("the actor was closed")
        return self._function(*arguments, **keywords)

    def submit(self, *arguments: Any, **keywords: Any) -> Any:
        """Calls the method, and returns a future that has its result."""
        return self._actor._pool.submit(self, arguments, keywords)  # pylint: disable=protected-access

    async def aio(self, *arguments: Any, **keywords: Any) -> Any:
        """Calls the method."""
        return self(*arguments, **keywords)

    def post(self, *arguments: Any, **keywords: Any) -> None:
        """Calls the method. The log gets an exception."""
        error = self.submit(*arguments, **keywords).exception()
        if error is not None:
            import logging

            logging.getLogger("farcall").error("a call by post() has failed", exc_info=error)


class LocalActor:
    """Stands for an Actor in an executor without workers. The object lives in this process."""

    def __init__(self, pool: Any, value: Any) -> None:
        self.__dict__.update(_pool=pool, _value=value, _is_closed=False)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"an actor has no public attribute {name!r}", name=name, obj=self)
        found = operator.attrgetter(name)(self._value)
        return _LocalMethod(self, found) if callable(getattr(type(self._value), name, None)) else found

    def __dir__(self) -> list[str]:
        return sorted({*(name for name in dir(self._value) if not name.startswith("_")), "close"})

    __setattr__ = Actor.__setattr__

    def close(self) -> None:
        """Calls the object's own close(), if any, and refuses further calls."""
        if not self._is_closed and callable(getattr(type(self._value), "close", None)):
            self._value.close()
        self.__dict__["_is_closed"] = True

    def __enter__(self) -> LocalActor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
