# SPDX-License-Identifier: Apache-2.0
"""Programs that python -m farcall.bench measures: how they start, wait, fail and end, and what they need."""

from __future__ import annotations

import concurrent.futures
import functools
import importlib.metadata
import json
import math
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import farcall

from . import _bench_tasks
from ._bench_anchors import ALL, HEAVY, Anchor, Dask, Farcall, ForkServer, Joblib, Loky, Mpi, Pool, Ray, Rpyc, Standard
from ._bench_cases import Executors, Options
from ._bench_measure import Case, Group, first_result, seconds_of

_START_SECONDS = 120
_IDLE_SECONDS, _IDLE_SECONDS_IF_QUICK = 2.0, 0.1
_GRACE_SECONDS = 0.1
_ROUNDS = 5
# Packages that take seconds in some of these cases, and others.
_FAST = (Standard, ForkServer, Loky)
_SLOW = (Pool, Mpi, Joblib, Dask, Ray)


class Program:
    """A program of _bench_programs.py. Ends with all its processes at the end of a `with` statement."""

    def __init__(self, program: str, kind: type[Anchor]) -> None:
        command = [sys.executable, "-m", "farcall._bench_programs", program, kind.name]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=subprocess.DEVNULL, start_new_session=True)
        self.pid = self._process.pid
        self._text = b""

    def line(self, seconds: float) -> str | None:
        """Returns the next line, or None if there is none after this time, or at the end of the program."""
        assert self._process.stdout is not None
        end = time.monotonic() + seconds
        while b"\n" not in self._text:
            left = max(0.0, end - time.monotonic())
            if not select.select([self._process.stdout], [], [], left)[0]:
                return None
            part = os.read(self._process.stdout.fileno(), 1 << 16)
            if not part:
                return None
            self._text += part
        line, _, self._text = self._text.partition(b"\n")
        return line.decode()

    def number(self, seconds: float) -> float:
        """Returns the next line as a number, or infinity if there is none."""
        line = self.line(seconds)
        return math.inf if line is None else float(line)

    def seconds_until_end(self, number: int, most: float) -> float:
        """Sends a signal to all processes of the program, as a terminal does, and returns the time to its end."""
        begin = time.perf_counter()
        os.killpg(self.pid, number)
        try:
            self._process.wait(most)
        except subprocess.TimeoutExpired:
            return math.inf
        return time.perf_counter() - begin

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        others = [pid for pid, (parent, session) in processes().items() if session == self.pid or parent == self.pid]
        others += [pid for pid in descendants(self.pid) if pid not in others]
        for pid in (*others, self.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._process.communicate()


def processes() -> dict[int, tuple[int, int]]:
    """Returns the parents and sessions of all processes."""
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found[int(path.parent.name)] = int(words[1]), int(words[3])
    return found


def descendants(pid: int) -> list[int]:
    """Returns a process, and all processes that it and they have started."""
    parents, found = processes(), [pid]
    for each in found:
        found += [child for child, (parent, _) in parents.items() if parent == each]
    return found


def processor_seconds(pids: list[int]) -> float:
    """Returns how long threads of processes have run."""
    total = 0
    for pid in pids:
        for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
            try:
                total += int(path.read_text(encoding="ascii").split()[0])
            except (FileNotFoundError, ProcessLookupError):
                pass
    return total / 1e9


def memory_of(pid: int) -> dict[str, int]:
    """Returns sizes of the memory of a process in bytes."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return {name: int(size) * 1024 for name, size in re.findall(r"^(Rss|Pss|Anonymous): +(\d+) kB", text, re.M)}


def take_heavy(options: Options) -> dict[str, dict[str, tuple[float, ...]]]:
    """Measures calls of packages whose processes would disturb other measurements. See _bench_programs.figures()."""
    samples: dict[str, dict[str, tuple[float, ...]]] = {}
    for kind in HEAVY:
        if not options.lack(kind):
            with Program("figures", kind) as program:
                samples[kind.name] = {}
                while text := program.line(2 * _START_SECONDS):
                    samples[kind.name].update((key, tuple(each)) for key, each in json.loads(text).items())
    return samples


def _programs(made: Executors, program: str, texts: tuple[str, ...], goals: tuple[str, ...],
              *kinds: type[Anchor], is_ready_told: bool = False) -> list[list[Case]]:
    """Returns cases for each number that a program tells. All cases of a package use the same runs of the program."""
    cases: list[list[Case]] = [[] for _ in texts]
    for kind in (*kinds, Farcall):
        told: list[float] = []

        def sample(index: int, kind: type[Anchor] = kind, told: list[float] = told) -> float:
            if index == 0:
                with Program(program, kind) as running:
                    if is_ready_told:
                        running.line(_START_SECONDS)
                    told[:] = [running.number(made.options.hang_seconds() if is_ready_told else _START_SECONDS)
                               for _ in texts]
            return told[index]

        for index, (text, goal) in enumerate(zip(texts, goals)):
            cases[index].append(_case(made, kind, text, functools.partial(sample, index), goal))
    return cases


def _case(made: Executors, kind: type[Anchor], text: str, sample: Callable[[], float], goal: str) -> Case:
    """Returns a case of a package. `goal` is for farcall."""
    lack = made.options.lack(kind)
    is_farcall = kind is Farcall
    return Case(text if is_farcall else f"{kind.name}: {text}", None if lack else sample, is_farcall,
                goal if is_farcall else "", lack, (), 1 if kind in _SLOW else _ROUNDS)


def starts(made: Executors) -> Group:
    """Four workers, until each has returned a result."""

    def bare() -> None:
        subprocess.run([sys.executable, "-I", "-c", ""], check=True)

    first, = _programs(made, "start", ("four workers",), ("the line above + 15",), *_FAST, *_SLOW)
    more, = _programs(made, "further", ("four further workers",), ("8",), Standard, ForkServer, Pool)
    cases = [*first[:-1], Case("a Python that does nothing", seconds_of(bare), False), first[-1], *more]
    return Group("Start of workers, until four have returned a result", "ms", _ROUNDS, cases)


def imports(made: Executors) -> Group:
    """Times that imports take."""

    def loads(statement: str) -> Callable[[], float]:
        text = f"import time; begin = time.perf_counter(); {statement}; print(time.perf_counter() - begin)"
        return lambda: float(subprocess.run([sys.executable, "-c", text], stdout=subprocess.PIPE, check=True).stdout)

    cases = []
    for kind in (Loky, Joblib, Rpyc, Mpi, Dask, Ray):
        lack = made.options.lack(kind)
        statement = f"import {kind.module}"
        cases.append(Case(statement, None if lack else loads(statement), False, note=lack, most_rounds=3))
    statement = "from concurrent.futures import ProcessPoolExecutor"
    cases += [Case(statement, loads(statement), False),
              Case("import concurrent.futures", loads("import concurrent.futures"), False),
              Case("import farcall", loads("import farcall"), goal="the line above + 3"),
              Case("from farcall import Executor", loads("from farcall import Executor"))]
    return Group("Imports", "ms", 7, cases)


def maps(made: Executors) -> Group:
    """First results of map() over many numbers."""
    cases = [*made.light("map(chunksize=1000)", lambda other: first_result(other.executor.map, chunksize=1000),
                         Standard),
             *made.light("imap(chunksize=1000)", lambda other: first_result(other.pool.imap, chunksize=1000), Pool),
             Case("map()", first_result(made.farcall.map), goal="1")]
    return Group("First result of map() of 100,000 numbers", "ms", 7, cases)


def faults(made: Executors) -> Group:
    """Calls whose worker is killed."""
    texts = ("error after a kill", "next result after the error")
    errors, results = _programs(made, "kill", texts, ("20", "30"), Standard, Loky, Pool, Dask, Ray,
                                is_ready_told=True)
    return Group("Worker that is killed", "ms", _ROUNDS, [*errors, *results])


def stops(made: Executors) -> Group:
    """Calls that are stopped while they run."""

    def stopped(function: Callable[[], None], grace: float) -> float:
        with farcall.Executor(1) as executor:
            executor.submit(os.getpid).result()
            future = executor.submit(function)
            time.sleep(0.05)
            begin = time.perf_counter()
            future.stop(grace)
            concurrent.futures.wait([future])
            return time.perf_counter() - begin

    cases = [*made.heavy("cancel() of a call that sleeps", "stop", "Ray"),
             Case("stop() of a call that sleeps", lambda: stopped(_bench_tasks.sleep_long, 60), goal="10"),
             Case("stop() of a call that goes on, after its grace",
                  lambda: stopped(_bench_tasks.sleep_stubbornly, _GRACE_SECONDS) - _GRACE_SECONDS, goal="10")]
    return Group("Calls that are stopped", "ms", _ROUNDS, cases)


def interrupts(made: Executors) -> Group:
    """Ctrl-C during a call, until the program has ended."""

    def sample(kind: type[Anchor]) -> float:
        with Program("interrupt", kind) as program:
            if program.line(_START_SECONDS) is None:
                return math.inf
            return program.seconds_until_end(signal.SIGINT, made.options.hang_seconds())

    cases = [_case(made, kind, "Ctrl-C", functools.partial(sample, kind), "100")
             for kind in (Standard, Loky, Pool, Dask, Ray, Farcall)]
    return Group("Ctrl-C during a call, until the program has ended", "ms", _ROUNDS, cases)


def _idle(kind: type[Anchor], seconds: float) -> dict[str, float]:
    """Returns the memory of an idle worker, and the share of a processor that all processes of its program use."""
    with Program("idle", kind) as program:
        worker = program.line(_START_SECONDS)
        if worker is None:
            return dict.fromkeys(("Rss", "Pss", "Anonymous", "processor"), math.inf)
        time.sleep(seconds / 2)  # until threads sleep
        pids = descendants(program.pid)
        begin, used = time.perf_counter(), processor_seconds(pids)
        time.sleep(seconds)
        used = processor_seconds(pids) - used
        return {**memory_of(int(worker)), "processor": used / (time.perf_counter() - begin)}


def idle(made: Executors) -> Iterator[Group]:
    """Memory and processor time of workers that wait for calls."""
    seconds = _IDLE_SECONDS_IF_QUICK if made.options.is_quick else _IDLE_SECONDS

    @functools.cache
    def measure(name: str) -> dict[str, float]:
        return _idle(ALL[name], seconds)

    groups = (("Memory of an idle worker (RSS)", "MB", "Rss", "18"),
              ("Its share of memory (PSS)", "MB", "Pss", ""),
              ("Processor time of idle programs, of one processor", "%", "processor", "0"))
    for title, unit, key, goal in groups:
        def sample(kind: type[Anchor], key: str = key) -> float:
            return measure(kind.name)[key]

        cases = [_case(made, kind, "worker", functools.partial(sample, kind), goal)
                 for kind in (Standard, ForkServer, Pool, Loky, Mpi, Rpyc, Dask, Ray, Farcall)]
        yield Group(title, unit, 1, cases)


def _installed(name: str, found: dict[str, int]) -> int:
    """Returns the sizes of the files of a distribution and of all distributions that it requires, in bytes."""
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return 0
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in found:
        return 0
    found[key] = 0
    size = 0
    for file in distribution.files or ():
        path = pathlib.Path(str(file.locate()))
        size += path.stat().st_size if path.exists() else 0
    found[key] = size
    for requirement in distribution.requires or ():
        if "extra ==" not in requirement:
            size += _installed(re.match(r"[\w.-]+", requirement).group(), found)  # type: ignore[union-attr]
    return size


def sizes(made: Executors) -> Group:
    """Sizes of packages."""
    cases = []
    for kind in (Loky, Joblib, Mpi, Rpyc, Dask, Ray):
        lack = made.options.lack(kind)
        size = 0 if lack else _installed(kind.module.partition(".")[0], {})
        cases.append(Case(f"{kind.name} and packages that it requires", None if lack or not size else
                          functools.partial(float, size), False, note=lack or "of unknown size"))
    folder = pathlib.Path(__file__).parent
    files = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    wheel = made.options.wheel
    cases += [Case("farcall, installed", functools.partial(float, files)),
              Case("wheel of farcall", None if wheel is None else lambda: float(os.path.getsize(wheel)), goal="4",
                   note="no --wheel FILE was given")]
    return Group("Sizes of packages", "MB", 1, cases)


def groups(made: Executors) -> Iterator[Group]:
    """Returns all groups of this file."""
    for make in (maps, starts, imports, faults, stops, interrupts):
        yield make(made)
    yield from idle(made)
    yield sizes(made)
