"""Functions that the tests call in workers."""

import os
import signal
import sys
import threading
import time

import farcall


def same(*arguments, **keywords):
    """Returns its argument, or all of them."""
    if keywords:
        return arguments, keywords
    return arguments[0] if len(arguments) == 1 else arguments


class Unpicklable:
    """Object that cannot be pickled."""

    def __reduce__(self):
        raise TypeError("this object cannot be pickled")


class BreaksWhenRead:
    """Object that can be pickled, but not unpickled."""

    def __reduce__(self):
        return fail, ("not to be read",)


class TwoArgumentsError(Exception):
    """Exception that can be pickled, but not unpickled."""

    def __init__(self, first, second):
        super().__init__(first + second)


class UnpicklableError(Exception):
    """Exception that cannot be pickled."""

    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


def fail(text):
    """Raises an error."""
    raise LookupError(text)


def fail_strangely(kind):
    """Raises an exception that cannot be sent."""
    if kind == "read":
        raise TwoArgumentsError("one ", "two")
    raise UnpicklableError("locked")


def give(kind):
    """Returns a result that cannot be sent or read."""
    return Unpicklable() if kind == "send" else BreaksWhenRead()


def die(number=signal.SIGKILL):
    """Ends the worker by a signal."""
    os.kill(os.getpid(), number)
    time.sleep(60)


def pid_after(path):
    """Waits for a file, and returns the worker's process ID."""
    while not os.path.exists(path):
        time.sleep(0.002)
    return os.getpid()


def note_and_sleep(path):
    """Writes the worker's process ID to a file, and sleeps."""
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    os.rename(path + ".new", path)
    time.sleep(60)


def thread_name():
    """Returns the name of the thread that runs the task."""
    return threading.current_thread().name


def count_down(executor, depth):
    """Calls itself in other tasks, and waits for them."""
    return 0 if depth == 0 else 1 + executor.submit(count_down, executor, depth - 1).result()


def count_down_by_functions(executor, depth):
    """Like count_down(), by a Function."""
    return 0 if depth == 0 else 1 + executor.function(count_down_by_functions)(executor, depth - 1)


def sum_of_tasks(executor, numbers):
    """Calls tasks for numbers, and waits for all of them in different ways."""
    futures = [executor.submit(same, number) for number in numbers]
    done, _ = farcall.wait(futures)
    return sum(future.result() for future in done), sum(future.result() for future in farcall.as_completed(futures))


def run_nested(executor):
    """Calls tasks that end their workers."""
    return [executor.submit(die).result() for _ in range(2)]


class CountsLoads:
    """Object that counts in the worker how often it was unpickled."""

    times = 0

    def __reduce__(self):
        return CountsLoads.load, ()

    @classmethod
    def load(cls):
        """Makes the object from a pickle."""
        cls.times += 1
        return cls()


def loads_of(counted):
    """Returns how often objects of the type were unpickled in this worker."""
    return type(counted).times


def own_executor():
    """Makes an executor in a task."""
    with farcall.Executor(0) as executor:
        return executor.submit(pow, 7, 2).result()


_status = "not initialised"


def initialise(status):
    """Initialiser of workers."""
    global _status
    if status == "fail":
        raise LookupError("no such status")
    if status == "die":
        die()
    _status = status


def status():
    """Returns what the initialiser has set."""
    return _status


class Holder:
    """An object with a method that tasks call."""

    def call(self):
        """Returns None."""


def has_module(name):
    """True if the worker has imported a module."""
    return name in sys.modules
