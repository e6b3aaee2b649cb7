# SPDX-License-Identifier: Apache-2.0
"""Functions that the stress test calls in workers."""

import ctypes
import os
import threading
import time
import zlib

import data_tasks
import tasks


def checksum_of(data):
    """Returns the checksum of a buffer."""
    return zlib.crc32(memoryview(data).cast("B"))


def hold_the_gil(seconds):
    """Is in C with the GIL for some time, and returns the process ID."""
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))
    return os.getpid()


def hold_the_gil_for_ever():
    """Is in C with the GIL until the worker is killed."""
    c = ctypes.PyDLL(None)
    mutex = ctypes.create_string_buffer(256)  # larger than a pthread_mutex_t
    while True:
        c.pthread_mutex_lock(mutex)  # the second time, it waits, and signals do not wake it


def square(value):
    """Returns the square of a number."""
    return value * value


def sum_by_threads(count):
    """Adds the squares of numbers in threads of the worker."""
    squares = [0] * count

    def work(i):
        squares[i] = square(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(squares)


def leave_a_thread(seconds):
    """Leaves a thread behind that runs for some time."""
    threading.Thread(target=time.sleep, args=(seconds,), daemon=True).start()
    return threading.main_thread() is threading.current_thread()


def fork_a_child(status):
    """Forks the worker, and returns the exit status of the child."""
    pid = os.fork()
    if pid == 0:
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def call_from_threads(executor, count):
    """Calls tasks in threads of this task, and returns the sum of their results."""
    results, errors = [], []

    def call(i):
        try:
            results.append(executor.submit(square, i).result())
        except Exception as error:  # pylint: disable=broad-except
            errors.append(error)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        raise error
    return sum(results)


def end_behind_a_task(executor, status):
    """Waits for a task that ends its worker."""
    return executor.submit(os._exit, status).result()


def pattern_of(size, seed):
    """Returns a buffer, for a result."""
    return data_tasks.make(size, seed)


def count_down(executor, depth):
    """Waits for a task that waits for a task, and so on."""
    return tasks.count_down(executor, depth)
