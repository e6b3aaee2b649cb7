# SPDX-License-Identifier: Apache-2.0
"""Functions with large data that the tests call in workers."""

import os
import pickle
import time
import warnings
import zlib

import farcall
from farcall import _core, _worker

kept = []


def same(value):
    """Returns its argument."""
    return value


def draw():
    """Returns a number of the global generator of NumPy."""
    import numpy

    return numpy.random.rand()


def checksum(data):
    """Returns a checksum of all bytes."""
    return zlib.crc32(memoryview(data).cast("B"))


def make(size, seed):
    """Returns a bytearray in a pickle.PickleBuffer's place."""
    return pickle.PickleBuffer(bytearray(pattern(size, seed)))


def pattern(size, seed):
    """Returns bytes that differ from place to place and from seed to seed."""
    block = bytes((i * 7 + seed) % 251 for i in range(251))
    return (block * (size // 251 + 1))[:size]


def invert_first(data):
    """Changes the first byte of its argument, and returns it."""
    view = memoryview(data)
    view[0] ^= 255
    return view[0]


def keep(value):
    """Keeps its argument in the worker."""
    kept.append(value)


def forget():
    """Drops what keep() has kept."""
    kept.clear()


def keep_and_die(value):
    """Ends the worker while it has its argument."""
    kept.append(value)
    os.kill(os.getpid(), 9)
    time.sleep(60)


def blocks():
    """Returns the counts of this worker's blocks."""
    return _worker.job.blocks()


def share(yes):
    """Turns blocks on or off in this worker."""
    _core.set_sharing(yes)


def wait_for(path, value):
    """Waits for a file, and returns the size of a value."""
    while not os.path.exists(path):
        time.sleep(0.002)
    return len(value)


def pass_on(executor, data):
    """Calls a task with the data in a task."""
    return executor.submit(checksum, data).result()


def bytes_back(executor, size):
    """Returns the result of a task that returns bytes."""
    return executor.submit(pattern, size, 3).result()


def make_large(size):
    """Returns a buffer whose first and last byte are 1 and 2."""
    data = bytearray(size)
    data[0], data[-1] = 1, 2
    return pickle.PickleBuffer(data)


def zeros(size):
    """Returns a buffer."""
    return pickle.PickleBuffer(bytearray(size))


def ends_of(data):
    """Returns the size, the first and the last byte."""
    return len(data), data[0], data[len(data) - 1]


def wait_and_make(begun, gate, size):
    """Makes one file, waits for another one, and returns a buffer."""
    with open(begun, "w", encoding="ascii"):
        pass
    wait_for(gate, b"")
    return make(size, 1)


class FailsWhenRead:
    """Object with a large buffer that cannot be unpickled."""

    def __reduce_ex__(self, protocol):
            return fail, (pickle.PickleBuffer(bytearray(1 << 20)),)


def fail(*unused):
    """Raises an error."""
    raise LookupError("not to be read")


def fill(array, value):
    """Sets all elements of an array that is an argument."""
    view = memoryview(array).cast("B")
    view[:] = bytes([value]) * len(view)
    return type(array).__name__


def made_here(count, value):
    """Makes an array in this worker, and returns it."""
    array = farcall.empty(count, "u1")
    array.put([value] * count)
    return array


def view_made_here(count):
    """Returns a NumPy array in memory of farcall.empty()."""
    array = farcall.empty(count, "f8")
    local = array.local()
    local[:] = 1.5
    kept.append(local)
    return local


def first_of_kept():
    """Returns the first element of what was kept."""
    return float(kept[0][0])


def fork():
    """Forks like os.fork(), without a warning about threads, which the child does not use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def pid():
    """Returns the process ID."""
    return os.getpid()


def names(executor, array):
    """Returns the type and the sum of an array that a task passes on to another node."""
    return executor.submit(describe, array).result()


def describe(array):
    """Returns the type and the elements of an array."""
    return type(array).__name__, memoryview(array).tolist()


def sum_of(values, more):
    """Returns the sum of arrays in a list, a dict and a keyword."""
    return sum(sum(each) for each in (values[0], values[1]["a"], more))
