# SPDX-License-Identifier: Apache-2.0
"""Jobs with targets of every kind, and their nodes."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator

from . import _core, _ends
from ._future import Future
from ._job_calls import Calls
from ._listener import Listener, Output, start_job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CHANGES = {1: "joined", 2: "failed", 3: "removed"}
_NO_NODE = 0xFFFFFFFF
# The program of targets that run Python: the package, and how it is found.
_START = "import sys; sys.path[:] = sys.argv.pop(1).split('\\n'); import farcall._serve; farcall._serve.run_target()"

# Options that have their names, and their types.
_TEXTS = ("program", "key", "certificate", "certificate_key", "authority", "server_key", "progress", "process_manager",
          "trace", "crash_report")
_NUMBERS = ("heap_bytes", "lane_bytes", "workers")
_FLAGS = ("restart_lost_servers", "survive")
_MILLISECONDS = ("start_timeout", "stop_timeout", "heartbeat_timeout", "peer_timeout", "release_timeout")
_MICROSECONDS = ("spin", "yield_after")

OPTIONS = (*_TEXTS, *_NUMBERS, *_FLAGS, *_MILLISECONDS, *_MICROSECONDS, "arguments", "host_files")


class NodeEvent:
    """Change of a node: `what` is "joined", "failed" or "removed", and `why` the reason of its end.

    `replaces` is the number of the node in whose place the node was started, or None.
    """

    __slots__ = ("node", "what", "why", "replaces")

    def __init__(self, node: Node, what: str, why: str, replaces: int | None) -> None:
        self.node = node
        self.what = what
        self.why = why
        self.replaces = replaces

    def __repr__(self) -> str:
        return f"<NodeEvent: node {self.node.id} {self.what}{': ' if self.why else ''}{self.why}>"


def is_python_only(targets: str) -> bool:
    """True if targets of this machine run Python. Raises ValueError if only some of them name a program."""
    local = [piece for piece in targets.split(",") if piece.strip().startswith("shm")]
    named = [piece for piece in local if "program=" in piece]
    if named and len(named) < len(local):
        raise ValueError(f"{targets!r} has targets with and without program=; name a program for each shm target, or "
                         "start it as exec:PROGRAM")
    return not named


def python_command(modules: Iterable[str] = (), threads: int = 0) -> tuple[str, ...]:
    """Returns the command line of targets that run Python, and that import the modules first.

    `threads` is the number of threads of numerical libraries, or 0 for no limit.
    """
    path = "\n".join([os.path.dirname(os.path.dirname(os.path.abspath(__file__))), *map(os.path.abspath, sys.path)])
    return sys.executable, "-I", "-c", _START, path, str(threads), *modules


def _text(name: str, value: Any) -> str:
    try:
        return os.fspath(value)  # type: ignore[no-any-return]
    except TypeError:
        raise TypeError(f"{name} must be a text or a path, and not {type(value).__name__}") from None


def _scaled(name: str, seconds: Any, factor: int) -> int:
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool):
        raise TypeError(f"{name} must be a number of seconds, and not {type(seconds).__name__}")
    if not 0 < seconds <= 86400:
        raise ValueError(f"{name} must be greater than 0 and at most 86400 seconds, and not {seconds}")
    return max(1, round(seconds * factor))


def _whole(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an int, and not {type(value).__name__}")
    if value < 0:
        raise ValueError(f"{name} must not be negative")
    return value


def options_of(given: dict[str, Any]) -> dict[str, Any]:
    """Returns options as farcall._core.start_job() takes them. Raises TypeError for unknown options."""
    made: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        if name in _TEXTS:
            made[name] = _text(name, value)
        elif name in _NUMBERS:
            made[name] = _whole(name, value)
        elif name in _FLAGS:
            made[name] = int(bool(value))
        elif name in _MILLISECONDS:
            made[name + "_ms"] = _scaled(name, value, 1000)
        elif name in _MICROSECONDS:
            # 0 stands for the default in farcall's options, and -1 for none.
            made[name + "_us"] = -1 if value == 0 else _scaled(name, value, 1_000_000)
        elif name == "host_files":
            folders = [value] if isinstance(value, (str, os.PathLike)) else value
            made[name] = ",".join(_text(name, folder) for folder in folders)
        elif name == "arguments":
            if isinstance(value, str):
                raise TypeError("arguments must be a sequence of texts, beginning with the program's name")
            made[name] = tuple(_text("an element of arguments", each) for each in value)
        else:
            raise TypeError(f"unknown option {name!r} of a job; there are "
                            f"{', '.join(sorted(OPTIONS))}, output and on_node_change")
    return made


def _set_program(made: dict[str, Any], targets: str | None) -> None:
    """Lets targets of this machine run Python, unless the options name their program."""
    urls = targets if targets is not None else os.environ.get("FARCALL_TARGETS", "")
    if "arguments" in made:
        return
    program = made.get("program") or os.environ.get("FARCALL_PROGRAM")
    if program is None and is_python_only(urls):
        made["program"] = sys.executable
        made["arguments"] = python_command()
    elif program is not None:
        made["arguments"] = (program,)
    else:
        path = urls.partition("program=")[2].partition(",")[0].partition("&")[0]
        made["arguments"] = (path,)


def _printer(_: int, stream: int, line: str) -> None:
    print(line, file=sys.stdout if stream == 1 else sys.stderr)


def _output_of(output: Any, made: dict[str, Any]) -> Output | None:
    """Returns the function that gets lines of targets, if there is one."""
    if output is None:
        return None
    if output == "label":
        made["label"] = 1
        return None
    if output == "print":
        return _printer
    if callable(output):
        return output  # type: ignore[no-any-return]
    if hasattr(output, "log"):
        # INFO for standard output, and WARNING for standard error
        return lambda node, stream, line: output.log(20 if stream == 1 else 30, "node %d: %s", node, line)
    raise TypeError("output must be \"label\", \"print\", a logger, or a function of a node, a stream and a line, and "
                    f"not {output!r}")


class Node:
    """A process of a job. `id` is its number, 0 for the host."""

    __slots__ = ("job", "id")

    def __init__(self, job: Job, number: int) -> None:
        self.job = job
        self.id = number

    def __repr__(self) -> str:
        return f"<farcall.Node {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and other.job is self.job and other.id == self.id

    def __hash__(self) -> int:
        return hash((id(self.job), self.id))

    # ---- description

    @property
    def alive(self) -> bool:
        """True as long as the process runs and can be reached."""
        return not self.job.has_ended and _core.is_alive(self.job.core, self.id)

    def describe(self) -> dict[str, Any]:
        """Returns name, host, architecture, transport, route, pid, cores and workers of the node."""
        return _core.describe_node(self.job.core, self.id)

    @property
    def name(self) -> str:
        """Name of the node: "host", "node 2", or the value of name= in its URL."""
        return str(self.describe()["name"])

    @property
    def pid(self) -> int:
        """Process ID of the node, on its machine."""
        return int(self.describe()["pid"])

    @property
    def host(self) -> str:
        """Name of the node's machine."""
        return str(self.describe()["host"])

    # ---- functions in C

    def load(self, path: str | os.PathLike[str], *, timeout: float | None = None) -> Any:
        """Loads a shared library on the node, and returns a Library. Waits, at most for `timeout` seconds.

        The node looks for the file as dlopen() does; an empty path stands for the program that the node runs. Raises
        OSError with the text of the node's loader if that fails.
        """
        from ._native import Library

        return Library(self, os.fspath(path), timeout)

    def function(self, name: Any, signature: str | None = None, *, timeout: float | None = None) -> Any:
        """Returns a function that calls a handler of fc_register() on the node.

        `signature` has the letters of the results and, in parentheses, of the arguments, as in "d(di)". The handler
        gets the arguments as a struct of C, and replies with a struct of the results. Without a signature, the function
        takes and returns bytes. `name` may be a function with annotations that takes the place of name and signature.
        A call waits for its result, at most for `timeout` seconds; `submit()` of the function returns a farcall.Future.
        """
        from ._native import handler

        return handler(self, name, signature, timeout)

    # ---- memory

    def allocate(self, size: int, *, timeout: float | None = None) -> Any:
        """Returns a farcall.Buffer: memory of the node, whose content is unspecified. Raises OutOfMemory.

        Waits for the node, at most for `timeout` seconds.
        """
        from ._buffer import Buffer
        from ._native import timeout_ns

        return Buffer(self, _whole("size", size), timeout_ns(timeout))

    # ---- Python functions

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Future[Any]:
        """Calls a Python function on the node, which must run Python, and returns a future of the result."""
        future = self.job.calls.submit_python(self.id, function, arguments, keywords)
        future.origin = self.job
        return future

    def call(self, function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:
        """Calls a Python function on the node, and waits for the result."""
        return self.submit(function, *arguments, **keywords).result()

    # ---- changes

    def restart(self) -> Node:
        """Starts the target of a node that has ended again, and returns the new node. Waits until it has joined."""
        return Node(self.job, _core.restart_node(self.job.core, self.id))

    def remove(self) -> None:
        """Ends the node when its calls have ended. Waits for that, at most for the stop timeout."""
        self.job.core.remove(self.id)


class _Changes:
    """Functions of the program that get changes of the nodes of a job."""

    def __init__(self, job: Job, callback: Callable[[NodeEvent], Any] | None) -> None:
        self._job = weakref.ref(job)
        self.callbacks = [] if callback is None else [callback]

    def pass_on(self, kind: int, node: int, replaces: int, why: str) -> None:
        """Calls the functions."""
        job = self._job()
        if job is None:
            return
        replaced = None if replaces == _NO_NODE else replaces
        event = NodeEvent(Node(job, node), _CHANGES.get(kind, str(kind)), why, replaced)
        for callback in list(self.callbacks):
            callback(event)


def _end(calls: Calls, listener: Listener) -> None:
    listener.prepare_end()
    calls.end()
    listener.end()


class Job:
    """Processes that call each other: this one, which is node 0, and the targets that it starts.

    A job is a sequence of its nodes. It ends at the end of a `with` block, by end(), or with the program.
    """

    def __init__(self, targets: str | None = None, *, output: Any = None,
                 on_node_change: Callable[[NodeEvent], Any] | None = None, **options: Any) -> None:
        """Starts the targets, and waits until they have joined, at most for the start timeout.

        `targets` are URLs, separated by commas, such as "shm:4", "shm?program=./solver" or "tcp://host:7070?count=8".
        The default is the variable FARCALL_TARGETS, or one target on this machine. A target of this machine without a
        program runs Python. `output` gets lines that targets print: "label" puts numbers of nodes before them, "print"
        passes them to sys.stdout and sys.stderr, and a logger or a function of (node, stream, line) gets them on a
        thread of Python. `on_node_change` gets a NodeEvent when a node joins, fails or is removed, on the same thread.
        Other options have the names of the members of fc_job_options, with times in seconds: program, arguments, key,
        start_timeout, heap_bytes and so on. Raises StartFailed, and ValueError or TypeError for wrong options.
        """
        made = options_of(options)
        if targets is not None and not isinstance(targets, str):
            raise TypeError(f"targets must be a text with URLs, and not {type(targets).__name__}")
        if targets is not None:
            made["targets"] = targets
        _set_program(made, targets)
        self._begin(made, output, on_node_change, False)

    def _begin(self, made: dict[str, Any], output: Any, on_node_change: Callable[[NodeEvent], Any] | None,
               is_spmd: bool) -> None:
        _ends.refuse_to_make("a Job")
        if on_node_change is not None and not callable(on_node_change):
            raise TypeError("on_node_change must be a callable")
        receive = _output_of(output, made)
        self._changes = _Changes(self, on_node_change)
        self._listener = Listener(receive, self._changes.pass_on)
        if receive is not None or on_node_change is not None:
            self._listener.start()
        try:
            if is_spmd:
                self.core = _core.start_job(made, True, self._listener.events, receive is not None)
            else:
                self.core = start_job(made, self._listener.events, receive is not None)
        except BaseException:
            self._listener.end()
            raise
        self.calls = Calls(self.core)
        self.libraries: dict[tuple[int, str], list[int]] = {}  # number and count of loaded libraries
        self.libraries_lock = threading.Lock()
        self._submit = self.calls.submit
        self._pid = os.getpid()
        self._finalizer = weakref.finalize(self, _end, self.calls, self._listener)
        self._finalizer.atexit = False
        _jobs.add(self)

    @property
    def has_ended(self) -> bool:
        """True after the end of the job."""
        return not self._finalizer.alive

    def end(self) -> None:
        """Ends the targets, after the calls that they have got. Waits for that, at most for the stop timeout.

        Futures of calls that have not ended get NodeFailed. All lines that targets have printed were passed on.
        """
        if self._pid == os.getpid():
            self._finalizer()

    def __enter__(self) -> Job:
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        self.end()

    def __repr__(self) -> str:
        return "<farcall.Job, ended>" if self.has_ended else f"<farcall.Job of {len(self)} nodes>"

    def submit_native(self, native: Any, arguments: tuple[Any, ...]) -> Future[Any]:
        """Calls a function in C; its method submit() does so."""
        future = self._submit(native, arguments)
        future.origin = self
        return future

    # ---- nodes

    def __len__(self) -> int:
        """Returns how many nodes the job has had so far, with this process and nodes that have ended.

        Counts at most 65,536: a later node gets the place of one that has ended, and is not counted.
        """
        return _core.job_size(self.core)

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, number: int) -> Node:
        size = len(self)
        if not isinstance(number, int):
            raise TypeError(f"a node is given by a number from 0 on, not by {number!r}")
        if -size <= number < size:
            return Node(self, number % size)
        if number >= 65536:  # a node that has the place of one that has ended
            place = number % 65536
            if place < size and number <= _core.latest_node(self.core, place):
                return Node(self, number)
        raise IndexError(f"the job has no node {number}; its last node is {size - 1}")

    def node(self, number: int) -> Node:
        """Returns the node with the number; job[number] is the same."""
        return self[number]

    def __iter__(self) -> Iterator[Node]:
        return (Node(self, _core.latest_node(self.core, place)) for place in range(len(self)))

    @property
    def targets(self) -> list[Node]:
        """The nodes other than this one that are alive."""
        own = self.core.own()
        return [node for node in self if node.id != own and node.alive]

    def add(self, url: str) -> Node:
        """Starts one more target, and returns its node. Waits until the target has joined."""
        return Node(self, _core.add_node(self.core, url))

    def on_node_change(self, callback: Callable[[NodeEvent], Any]) -> None:
        """Calls `callback` with a NodeEvent for each change of a node, on a thread of Python, until the job ends."""
        if not callable(callback):
            raise TypeError("on_node_change() takes a callable")
        self._changes.callbacks.append(callback)
        self._listener.start()

    def counters(self) -> dict[str, int]:
        """Returns counts of this process in the job: calls, replies, bytes sent, copies and others."""
        return _core.counters(self.core)


_jobs: weakref.WeakSet[Job] = weakref.WeakSet()


def _end_all() -> None:
    for job in list(_jobs):
        job.end()


atexit.register(_end_all)
