# SPDX-License-Identifier: Apache-2.0
"""Tests of the zygote and its workers."""

import concurrent.futures
import os
import signal
import socket
import subprocess
import sys

import farcall
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

    def test_program_is_never_forked(self):
        status, out, errors = support.run_program("""
            import os, threading
            import farcall

            os.register_at_fork(before=lambda: print("forked"))
            stop = threading.Event()
            thread = threading.Thread(target=stop.wait)
            thread.start()
            with farcall.Executor(2) as executor:
                print(os.getpid() in [executor.submit(os.getppid).result() for _ in range(10)])
                try:
                    executor.submit(os._exit, 1).result()
                except farcall.NodeFailed:
                    print(executor.submit(abs, -1).result())
            stop.set()
        """)
        self.assertEqual((status, out, errors), (0, "False\n1\n", ""))

    def test_end_of_a_worker_is_told(self):
        zygote = _processes.zygote()
        [(pid, channel)] = zygote.fork(1, 1)
        self.addCleanup(os.close, channel)
        self.assertEqual(zygote.end_of(pid, 0), "cannot be reached any more")
        zygote.kill([pid])
        self.assertEqual(zygote.end_of(pid, support.GUARD_SECONDS / 2), "was killed by SIGKILL")

    def test_end_of_a_worker_is_told_to_all_threads(self):
        zygote = _processes.zygote()
        (pid, descriptor), = zygote.fork(1, 1)
        self.addCleanup(os.close, descriptor)
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            ends = [threads.submit(zygote.known_end_of, pid, 5) for _ in range(4)]
            os.kill(pid, signal.SIGKILL)
            self.assertEqual({end.result() for end in ends}, {"was killed by SIGKILL"})

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

    def test_zygote_whose_host_has_ended_ends_silently(self):
        ended = subprocess.Popen(["true"])
        ended.wait()
        here, there = socket.socketpair()
        with here, there:
            package = os.path.dirname(os.path.dirname(os.path.abspath(farcall.__file__)))
            done = subprocess.run([sys.executable, "-I", "-c", _processes._START, package, str(there.fileno()),
                                   str(ended.pid)], pass_fds=[there.fileno()], capture_output=True, check=False,
                                  timeout=support.GUARD_SECONDS)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))

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
