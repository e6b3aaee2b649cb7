# SPDX-License-Identifier: Apache-2.0
"""Tasks that the tests of packages call."""

import os
import time

import tasks


def square_of_sum(numbers, executor_name):
    """Calls tasks by joblib in a task."""
    import joblib

    squares = joblib.Parallel(n_jobs=2)(joblib.delayed(pow)(number, 2) for number in numbers)
    return sum(squares), type(joblib.parallel.get_active_backend()[0]).__name__ == executor_name


def number_of_threads():
    """Returns the limit of threads of OpenMP."""
    return os.environ.get("OMP_NUM_THREADS")


def wait_or_fail(path, i):
    """Fails if `i` is 0, and waits for a file otherwise, or for the end of its folder."""
    if i == 0:
        raise LookupError("the first call fails")
    while os.path.exists(os.path.dirname(path)) and not os.path.exists(path):
        time.sleep(0.002)


def nested_levels(depth):
    """Returns the names of the backends of nested calls."""
    import joblib

    name = type(joblib.parallel.get_active_backend()[0]).__name__
    if depth == 1:
        return [name]
    return [name, *joblib.Parallel(n_jobs=2)(joblib.delayed(nested_levels)(depth - 1) for _ in range(2))[0]]


def squares_by_farcall(_):
    """Calls tasks by farcall in a process of another backend."""
    import joblib

    import farcall

    farcall.joblib.register()
    return joblib.Parallel(n_jobs=2, backend="farcall")(joblib.delayed(pow)(i, 2) for i in range(3))
