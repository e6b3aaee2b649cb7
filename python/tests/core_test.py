# SPDX-License-Identifier: Apache-2.0
"""Tests of the extension module, with a worker that is a forked process."""

import operator
import os
import pickle
import signal
import socket
import warnings

import support
import tasks
from farcall import _core, _functions, _worker
from farcall._errors import NodeFailed


class Core(support.TestCase):
    """A job with one worker."""

    def setUp(self):
        super().setUp()
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with warnings.catch_warnings():
            # Threads of farcall do not matter to the forked child.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            here.close()
            _worker.main(there.detach())
            os._exit(0)
        there.close()
        self.job = _core.Job()
        self.node = self.job.add(here.detach())
        self.job.choose(self.node, True)

    def tearDown(self):
        self.job.end()
        os.waitpid(self.pid, 0)

    def function(self, function):
        """Returns the Function for a function."""
        definition = _functions.definition_of(function)
        return self.job.function(_functions.number_of(definition), definition)

    def take(self, count):
        """Takes completions of calls, and skips changes of nodes."""
        taken = []
        while len(taken) < count:
            self.job.take(-1, taken.append)
            taken = [each for each in taken if each[0] is not None]
        return taken

    def test_values_arrive(self):
        same = self.function(tasks.same)
        for value in (None, True, -1, 1 << 80, 2.5, "text", b"bytes", (1, ("nested",)), [1], {"a": None}):
            self.assertEqual(repr(same(value)), repr(value))

    def test_queued_calls_come_with_their_tags(self):
        add = self.function(operator.add)
        for tag in range(100):
            self.job.send(add, add.encode((tag, 1), None), self.node, tag)
        self.assertEqual(self.take(100), [(tag, self.node, 0, tag + 1) for tag in range(100)])

    def test_exceptions_are_raised(self):
        fail = self.function(tasks.fail)
        self.assertRaisesRegex(LookupError, "missing", fail, "missing")
        self.job.send(fail, fail.encode(("queued",), None), self.node, 7)
        [(tag, _, outcome, error)] = self.take(1)
        self.assertEqual((tag, outcome, repr(error)), (7, 1, "LookupError('queued')"))

    def test_messages_that_are_no_calls_are_errors(self):
        unknown = self.job.function(1, b"no pickle")
        self.assertRaises(pickle.UnpicklingError, unknown)
        with self.assertRaises(TypeError):
            self.job.send("function", "message", self.node, 1)

    def test_end_of_the_worker_is_told(self):
        os.kill(self.pid, signal.SIGKILL)
        self.assertRaises(NodeFailed, self.call_until_it_fails)

    def call_until_it_fails(self):
        """Calls until the end of the worker was noticed; then no node is left."""
        self.job.refuse("no worker is left")
        same = self.function(tasks.same)
        while True:
            same(1)

    def test_calls_after_the_end_are_refused(self):
        same = self.function(tasks.same)
        self.job.end()
        self.assertRaisesRegex(RuntimeError, "the job has ended", same, 1)


if __name__ == "__main__":
    support.main()
