# SPDX-License-Identifier: Apache-2.0
"""Tests of the zygote and its workers."""

import os
import signal
import sys

import support
from farcall import _core, _functions, _processes
from farcall._errors import StartFailed


class Zygotes(support.TestCase):
    """Processes that a zygote starts."""

    def test_worker_serves_its_host(self):
        [(pid, channel)] = _processes.zygote().fork(1, 1)
        job = _core.Job()
        self.addCleanup(job.end)
        job.choose(job.add(channel), True)
        definition = _functions.definition_of(os.getpid)
        self.assertEqual(job.function(_functions.number_of(definition), definition)(), pid)

    def test_end_of_a_worker_is_told(self):
        zygote = _processes.zygote()
        [(pid, channel)] = zygote.fork(1, 1)
        self.addCleanup(os.close, channel)
        self.assertEqual(zygote.end_of(pid, 0), "cannot be reached any more")
        zygote.kill([pid])
        self.assertEqual(zygote.end_of(pid, support.GUARD_SECONDS / 2), "was killed by SIGKILL")

    def test_many_workers_start_at_once(self):
        workers = _processes.zygote().fork(20, 1)
        for _, channel in workers:
            os.close(channel)
        self.assertEqual(len({pid for pid, _ in workers}), 20)
        self.assertTrue(support.wait_until(lambda: all(support.is_gone(pid) for pid, _ in workers)))

    def test_zygote_is_kept_while_it_runs(self):
        zygote = _processes.zygote()
        self.assertIs(_processes.zygote(), zygote)
        self.assertIsNot(_processes.zygote(("colorsys",)), zygote)
        os.kill(zygote.pid, signal.SIGKILL)
        self.assertTrue(support.wait_until(lambda: support.is_gone(zygote.pid)))
        self.assertIsNot(_processes.zygote(), zygote)

    def test_interpreter_that_is_missing_is_named(self):
        interpreter = sys.executable
        self.addCleanup(setattr, sys, "executable", interpreter)
        sys.executable = "/no/such/python"
        with self.assertRaisesRegex(StartFailed, "cannot start /no/such/python"):
            _processes.Zygote(())

    def test_module_that_is_missing_is_named(self):
        with self.assertRaisesRegex(StartFailed, "cannot preload no_such_module: ModuleNotFoundError"):
            _processes.Zygote(("no_such_module",))


if __name__ == "__main__":
    support.main()
