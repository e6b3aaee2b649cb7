# SPDX-License-Identifier: Apache-2.0
"""Functions that the tests call in workers."""

import ctypes
import math
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


async def coroutine():
    """Returns nothing, in a coroutine."""


class Unpicklable:
    """Object that cannot be pickled."""

    def __reduce__(self):
        raise TypeError("this object cannot be pickled")


class BreaksWhenRead:
    """Object that can be pickled, but not unpickled."""

    def __reduce__(self):
        return fail, ("not to be read",)


class TwoArgumentsError(Exception):
    """Exception whose class takes other arguments than BaseException remembers."""

    __slots__ = ("second",)

    def __init__(self, first, second):
        super().__init__(first + second)
        self.first, self.second = first, second


class NoSuchPathError(FileNotFoundError):
    """Exception that inherits from a class with members in C."""

    def __init__(self, path):
        super().__init__(2, "no such path", path)


class DescribedError(Exception):
    """Exception that makes another text of its text."""

    def __init__(self, text):
        super().__init__(f"described: {text}")


class UnreadableError(Exception):
    """Exception that can be pickled, but not unpickled."""

    def __reduce__(self):
        return fail, ("not to be read",)


class UnpicklableError(Exception):
    """Exception that cannot be pickled."""

    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


def limit_at_import():
    """Returns the limit of threads that a preloaded module has found."""
    return sys.modules["thread_limit"].LIMIT


def fail(text):
    """Raises an error."""
    raise LookupError(text)


def fail_strangely(kind):
    """Raises an exception that cannot be sent."""
    if kind == "read":
        raise UnreadableError("one two")
    raise UnpicklableError("locked")


def raise_it(make, *arguments):
    """Raises the exception that a class or function makes."""
    raise make(*arguments)


def group_of_errors():
    """Returns a group with an exception whose cause is another one."""
    error = TwoArgumentsError("one ", "two")
    error.__cause__ = NoSuchPathError("/cause")
    return ExceptionGroup("group", [error, ValueError(3)])


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


def same_after(path, value):
    """Returns the value when there is a file, or at once if the path is None."""
    while path is not None and not os.path.exists(path):
        time.sleep(0.002)
    return value


def note_and_sleep(path):
    """Writes the worker's process ID to a file, and sleeps."""
    note(path)
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


def call_in_threads(executor, call, threads, depth):
    """Calls itself in threads that this task joins, and returns the number of calls of all depths."""
    if depth == 0:
        return 0
    counts = []

    def work():
        arguments = executor, call, threads, depth - 1
        if call == "submit":
            counts.append(1 + executor.submit(call_in_threads, *arguments).result())
        else:
            counts.append(1 + executor.function(call_in_threads)(*arguments))

    made = [threading.Thread(target=work) for _ in range(threads)]
    for thread in made:
        thread.start()
    for thread in made:
        thread.join()
    return sum(counts)


def call_later_in_a_thread(executor, path):
    """Leaves a thread behind that calls a task when another task runs, and writes the result to a file."""
    def work():
        same_after(path + ".begun", None)
        result = executor.submit(pow, 7, 2).result()
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write(str(result))
        os.rename(path + ".new", path)

    threading.Thread(target=work, daemon=True).start()


def read_after(path):
    """Says by a file that it runs, waits for another file, and returns its content."""
    note(path + ".begun")
    pid_after(path)
    with open(path, encoding="ascii") as file:
        return file.read()


def append_two(numbers):
    """Changes its argument, and returns it."""
    numbers.append(2)
    return numbers


def lend_list(executor):
    """Calls a task that changes a list, and returns the list and the result."""
    numbers = [1]
    return numbers, executor.submit(append_two, numbers).result()


def catch_nested(executor):
    """Describes the exception of a task that this task has called."""
    error = executor.submit(fail, "nested").exception()
    return type(error).__name__, str(error.__cause__), error.__notes__[-1]


def fail_nested(executor):
    """Waits for a task that fails."""
    return executor.submit(fail, "missing").result()


def submit_and_poll(executor, path):
    """Calls a task that writes a file, and waits for the file."""
    executor.submit(note, path)
    return pid_after(path)


def sum_of_tasks(executor, numbers):
    """Calls tasks for numbers, and waits for all of them in different ways."""
    futures = [executor.submit(same, number) for number in numbers]
    done, _ = farcall.wait(futures)
    return sum(future.result() for future in done), sum(future.result() for future in farcall.as_completed(futures))


def chain(executor, length):
    """Waits for calls that callbacks of other calls make."""
    done = threading.Event()

    def go_on(future):
        if future.result() == length:
            done.set()
        else:
            executor.submit(same, future.result() + 1).add_done_callback(go_on)

    executor.submit(same, 0).add_done_callback(go_on)
    return done.wait(30)


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


def sleep_stubbornly(path):
    """Writes the worker's process ID to a file, and sleeps again whenever it is interrupted."""
    note(path)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            time.sleep(60)
        except farcall.Stopped:
            note(path + ".interrupted")


def note(path):
    """Writes the worker's process ID to a file."""
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    os.rename(path + ".new", path)


def note_and_sleep_twice(path):
    """Writes the worker's process ID to a file, and sleeps twice, without a look at signals in between."""
    sleep = ctypes.CDLL(None).usleep
    note(path)
    list(map(sleep, [60_000_000, 60_000_000]))


def note_and_lock(path):
    """Writes the worker's process ID to a file, and waits for a lock for ever."""
    note(path)
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def note_and_wait(path):
    """Writes the worker's process ID to a file, and looks for another file for ever."""
    note(path)
    pid_after(path + ".never")


def note_and_spin(path):
    """Writes the worker's process ID to a file, and computes for ever."""
    note(path)
    while True:
        pass


def note_and_hold_the_gil(path, seconds=None):
    """Writes the worker's process ID to a file, and is in C with the GIL for some seconds, or for ever."""
    c = ctypes.PyDLL(None)
    note(path)
    if seconds is not None:
        c.usleep(int(seconds * 1e6))
        return os.getpid()
    mutex = ctypes.create_string_buffer(256)  # larger than a pthread_mutex_t
    while True:
        c.pthread_mutex_lock(mutex)  # the second time, it waits, and signals do not wake it


def note_and_clean_up(path):
    """Writes the worker's process ID to a file, sleeps, and returns a text if it is interrupted."""
    note(path)
    try:
        time.sleep(60)
    except farcall.Stopped as stopped:
        return f"cleaned up after {type(stopped).__name__}"


class Waits:
    """Object whose methods wait."""

    def wait_for_a_task(self, executor, begun, path):
        """Says that it runs, and waits for a task that waits for a file."""
        note(begun)
        return executor.submit(same_after, path, 1).result()

    def wait_for_a_function(self, executor, path):
        """Waits for a function that waits for a file, and then for ever."""
        executor.function(read_after)(path)
        pid_after(path + ".never")

    def wait_for_ever(self, path):
        """Writes the worker's process ID to a file, and looks for another file for ever."""
        note_and_wait(path)


class EndsSlowly:
    """Object with a finalizer that takes for ever, unless it is interrupted."""

    def __init__(self, path):
        self.path = path

    def __del__(self):
        note_and_wait(self.path)


def drop_and_wait(path):
    """Drops an object with a finalizer, and waits for ever."""
    EndsSlowly(path)
    pid_after(path + ".never")


def nested_stop(executor, path):
    """Stops a task that this task has called."""
    future = executor.submit(note_and_wait, path)
    while not os.path.exists(path):
        time.sleep(0.002)
    is_stopped = future.stop()
    farcall.wait([future])
    return is_stopped, future.cancelled()


def give_up_and_call(executor, path):
    """Stops a task of this task that cannot be stopped here, and then calls another one."""
    future = executor.submit(note_and_lock, path)
    while not os.path.exists(path):
        time.sleep(0.002)
    future.stop(0.1)
    farcall.wait([future])
    return [executor.function(math.sqrt)(16.0), future.cancelled()]


def nested_timeout(executor, seconds):
    """Calls a task with a time limit."""
    try:
        executor.with_timeout(seconds).submit(pid_after, "/no/such/file").result()
    except farcall.Timeout as late:
        return str(late)


def use_own_executor(workers):
    """Makes an executor with workers in a task, and calls functions by it."""
    with farcall.Executor(workers, initializer=initialise, initargs=("guest",)) as executor:
        got = executor.submit(status).result(), list(executor.map(pow, [2, 3], [4, 2])), executor.function(pow)(3, 3)
    try:
        executor.submit(pow, 1, 1)
    except RuntimeError as error:
        return *got, str(error)


def die_unless(path):
    """Ends the worker, except if the file exists, which is then written."""
    if os.path.exists(path):
        return "done"
    note(path)
    die()


def note_and_die(path):
    """Appends the worker's process ID to a file, and ends the worker."""
    with open(path, "a", encoding="ascii") as file:
        file.write(f"{os.getpid()}\n")
    die()


def append(path, number):
    """Appends a number to a file, and returns it."""
    with open(path, "a", encoding="ascii") as file:
        file.write(f"{number}\n")
    return number


def end_slowly(seconds, status):
    """Closes all connections of the worker, and ends it some time later, like a process that writes a core file."""
    os.closerange(3, 1000)
    time.sleep(seconds)
    os._exit(status)


def raise_node_failed():
    """Raises the exception of calls whose worker has ended."""
    raise farcall.NodeFailed("raised by a task")


def allocate(megabytes):
    """Keeps memory in the worker, and returns its process ID."""
    _kept.append(bytearray(os.urandom(1 << 20)) * megabytes)
    return os.getpid()


_kept = []


def has_module(name):
    """True if the worker has imported a module."""
    return name in sys.modules


class UndefinesItself:
    """Object whose pickle lets a worker forget the function with this number, and then is a function."""

    def __init__(self, number):
        self.number = number

    def __reduce__(self):
        return _undefine, (self.number,)


def _undefine(number):
    from farcall import _core

    _core.undefine(number)
    return abs
