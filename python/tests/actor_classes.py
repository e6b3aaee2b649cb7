# SPDX-License-Identifier: Apache-2.0
"""Classes of actors, and tasks that use actors."""

import asyncio
import os
import threading
import time

import farcall
import tasks


class Counter:
    """Counts, and remembers the order of its calls."""

    limit = 100

    def __init__(self, n=0):
        if n < 0:
            raise LookupError("a counter begins at 0")
        self.n = n
        self.seen = []

    @property
    def double(self):
        """Twice the number."""
        return 2 * self.n

    def add(self, k):
        """Adds a number, and returns the sum."""
        self.n += k
        self.seen.append(k)
        return self.n

    def fail(self, text):
        """Raises an error."""
        raise LookupError(text)

    def pid(self):
        """Returns the process ID of the actor's worker."""
        return os.getpid()

    def thread(self):
        """Returns the name of the thread that runs the method."""
        return threading.current_thread().name

    def wait_for(self, path):
        """Waits for a file."""
        while not os.path.exists(path):
            time.sleep(0.002)
        return self.n

    def note_and_wait(self, path):
        """Says in a file that the call has begun, and waits."""
        with open(path, "w", encoding="ascii"):
            time.sleep(60)

    def note_and_compute(self, path):
        """Says in a file that the call has begun, and computes for ever."""
        with open(path, "w", encoding="ascii"):
            while True:
                pass

    def die(self):
        """Ends the worker."""
        os.kill(os.getpid(), 9)
        time.sleep(60)

    def ask(self, other, depth):
        """Calls this method of another actor, which calls this actor."""
        return self.n if depth == 0 else other.ask(self.own, depth - 1)

    def know(self, own):
        """Gives the actor a handle of itself."""
        self.own = own

    def itself(self):
        """Returns the handle of itself."""
        return self.own


class Resource:
    """Writes a file when it is closed, and another one when it is freed."""

    def __init__(self, path):
        self.path = path

    def work(self):
        """Returns a number."""
        return 1

    def close(self):
        """Writes a file."""
        open(self.path + ".closed", "w", encoding="ascii").close()

    def __del__(self):
        open(self.path + ".freed", "w", encoding="ascii").close()


class Unpicklable:
    """Object that cannot be pickled."""

    def __init__(self):
        self.lock = threading.Lock()

    def add(self, k):
        """Returns its argument."""
        with self.lock:
            return k


_kept = []


def number_of_workers(executor):
    """Returns the number that packages such as dask read."""
    return executor._max_workers


def use(actor, k):
    """Calls a method of an actor."""
    return actor.add(k)


def use_in_all_ways(actor):
    """Calls a method of an actor in different ways."""
    actor.add.post(1)
    return actor.add.submit(2).result(), actor.add(3), actor.n, farcall.get(actor).seen


def keep(actor):
    """Keeps a handle in the worker."""
    _kept.append(actor)


def use_kept():
    """Calls a method of the handle that keep() has kept."""
    return _kept[-1].work()


def drop():
    """Drops the handle that keep() has kept."""
    _kept.clear()


def create(executor, n):
    """Makes an actor in a task."""
    actor = executor.create(Counter, n)
    actor.add(1)
    return actor


def create_and_drop(executor, path):
    """Makes an actor, and returns nothing."""
    return executor.create(Resource, path).work()


def error_of(actor):
    """Returns the text of the error of a call."""
    try:
        return actor.add(1)
    except farcall.NodeFailed as error:
        return type(error).__name__
    except RuntimeError as error:
        return str(error)


def sum_in_a_loop(executor, numbers):
    """Awaits calls in a task."""

    async def work():
        return sum(await asyncio.gather(*[executor.submit(tasks.same, number) for number in numbers]))

    return asyncio.run(work())
