# SPDX-License-Identifier: Apache-2.0
"""Tasks that print and log."""

import logging
import os
import subprocess
import sys


def print_lines(number):
    """Prints to both streams."""
    print("line", number)
    print("error", number, file=sys.stderr)
    return number


def print_many(count):
    """Prints lines one after the other."""
    for number in range(count):
        print_lines(number)


def print_from_a_child():
    """Prints by a command."""
    return os.system("echo from a child")


def print_bytes(data):
    """Writes bytes."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def leave_behind():
    """Starts a process that lives longer than the worker, and returns its ID."""
    # pylint: disable-next=consider-using-with
    return subprocess.Popen(["sh", "-c", "echo left behind; exec sleep 50"], start_new_session=True).pid


def print_and_die():
    """Prints a line without an end, and ends the worker."""
    sys.stdout.write("unfinished line")
    sys.stdout.flush()
    os.kill(os.getpid(), 9)


def log_all():
    """Logs records with several levels, and an exception."""
    logger = logging.getLogger("farcall.test")
    logger.debug("debug %d", 1)
    logger.info("info %s", "two", extra={"thing": object()})
    try:
        raise LookupError("missing")
    except LookupError:
        logger.exception("failed")
    logging.getLogger("farcall.test.quiet").warning("not wanted")
