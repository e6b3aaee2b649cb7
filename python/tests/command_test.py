# SPDX-License-Identifier: Apache-2.0
"""Tests of python -m farcall, and of workers behind a server that it starts."""

import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import warnings

import farcall
import support
from farcall import __main__ as command
from farcall import _paths

try:
    COMMAND = _paths.command()
except FileNotFoundError:
    COMMAND = None

needs_command = unittest.skipIf(COMMAND is None, "the farcall command was not built")
MODULE = [sys.executable, "-m", "farcall"]


class Command(support.TestCase):
    """The command without a server."""

    def test_help_names_the_commands(self):
        for arguments in ([], ["--help"]):
            status, out, errors = support.run([*MODULE, *arguments])
            self.assertEqual((status, errors), (0, ""))
            self.assertIn("python -m farcall serve [OPTIONS] [MODULE ...]", out)

    @needs_command
    def test_commands_of_farcall_run(self):
        status, out, _ = support.run([*MODULE, "info"])
        self.assertEqual(status, 0)
        self.assertTrue(out.startswith("farcall"))
        status, _, errors = support.run([*MODULE, "no-such-command"])
        self.assertNotEqual(status, 0)
        self.assertIn("no-such-command", errors)

    @needs_command
    def test_run_starts_equals(self):
        program = "import farcall, os\njob = farcall.spmd()\nos.write(1, b'%d\\n' % sum(job.allgather(job.rank + 1)))"
        status, out, errors = support.run([*MODULE, "run", "--spmd", "-n", "2", sys.executable, "-c", program])
        self.assertEqual((status, out, errors), (0, "3\n" * 2, ""))

    def test_version_is_printed(self):
        self.assertEqual(support.run([*MODULE, "--version"]), (0, farcall.__version__ + "\n", ""))

    def test_headers_are_found(self):
        try:
            folder = farcall.get_include()
        except FileNotFoundError as error:
            self.skipTest(str(error))
        self.assertTrue(os.path.exists(os.path.join(folder, "farcall", "farcall.h")))
        self.assertEqual(support.run([*MODULE, "--include"]), (0, folder + "\n", ""))

    def test_library_is_found(self):
        try:
            path = farcall.get_library()
        except FileNotFoundError as error:
            self.skipTest(str(error))
        self.assertTrue(os.path.exists(path))
        status, out, _ = support.run([*MODULE, "--libs"])
        self.assertEqual(status, 0)
        self.assertIn(os.path.dirname(path), out)

    def test_missing_files_are_named(self):
        package, build, source = _paths._PACKAGE, _paths._BUILD, _paths._SOURCE
        for name, value in (("_PACKAGE", package), ("_BUILD", build), ("_SOURCE", source)):
            self.addCleanup(setattr, _paths, name, value)
            setattr(_paths, name, "/nowhere")
        self.addCleanup(os.environ.__setitem__, "PATH", os.environ["PATH"])
        os.environ["PATH"] = "/nowhere"
        for call, text in ((_paths.command, "no farcall command in /nowhere/bin"),
                           (_paths.get_include, "no header farcall/farcall.h; looked for /nowhere/include"),
                           (_paths.get_library, "no library of farcall; looked for /nowhere/lib"),
                           (_paths.get_cmake_dir, "no farcall-config.cmake; looked for /nowhere/lib/cmake")):
            self.assertRaisesRegex(FileNotFoundError, text, call)

    def test_scripts_are_no_command(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "farcall")
            with open(script, "w", encoding="ascii") as file:
                file.write("#!/bin/sh\n")
            os.chmod(script, 0o755)
            self.assertFalse(_paths._is_program(script))
        self.assertTrue(_paths._is_program(os.path.realpath(sys.executable)))

    def test_serve_recognises_modules_and_programs(self):
        made = command.serve_command(["--listen", "127.0.0.1:0", "--plain", "--key=file", "json", "os.path"])
        self.assertEqual(made[:5], ["serve", "--listen", "127.0.0.1:0", "--plain", "--key=file"])
        self.assertEqual((made[5], made[-2:]), (sys.executable, ["json", "os.path"]))
        self.assertEqual(command.serve_command(["--plain", "--", "json"])[-1], "json")
        for given in (["--key", "file", "./program", "argument"], ["--help"]):
            self.assertEqual(command.serve_command(given), ["serve", *given])
        self.assertRaisesRegex(ImportError, "no module 'no_such_module'", command.serve_command, ["no_such_module"])

    @needs_command
    def test_help_of_serve_names_modules(self):
        status, out, _ = support.run([*MODULE, "serve", "--help"])
        self.assertEqual(status, 0)
        self.assertTrue(out.startswith("Usage: python -m farcall serve [OPTIONS] [MODULE ...]"), out)
        self.assertIn("--listen", out)

    def test_target_without_a_host_says_how_it_is_started(self):
        status, out, errors = support.run([sys.executable, "-m", "farcall._serve", "0"])
        self.assertEqual((status, out), (2, ""))
        self.assertIn("python -m farcall serve", errors)


@needs_command
class Served(support.TestCase):
    """Workers behind a server of this machine."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.key = os.path.join(cls.folder, "key")
        subprocess.run([COMMAND, "keygen", cls.key], check=True, capture_output=True)
        with open(os.path.join(cls.folder, "served_tasks.py"), "w", encoding="ascii") as file:
            file.write(textwrap.dedent("""
                import ctypes, os

                def folder():
                    return os.getcwd()

                def hold_the_gil(seconds):
                    ctypes.PyDLL(None).usleep(int(seconds * 1e6))
                    return os.getpid()
                """))
        _, cls.url = cls.start_server()

    @classmethod
    def start_server(cls):
        """Starts a server, and returns its process and its URL."""
        server = subprocess.Popen([*MODULE, "serve", "--listen", "127.0.0.1:0", "--key", cls.key, "served_tasks"],
                                  cwd=cls.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        cls.addClassCleanup(cls.end_server, server)
        return server, re.search(r"tcp://127\.0\.0\.1:\d+", server.stdout.readline()).group()

    @classmethod
    def end_server(cls, server):
        """Lets a server end with its last target."""
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=support.GUARD_SECONDS)

    def test_executor_calls_functions_there(self):
        executor = self.executor(self.url + "?count=2", key=self.key)
        self.assertEqual(list(executor.map(abs, range(-20, 0))), list(range(20, 0, -1)))
        self.assertTrue(executor.submit(eval, "'served_tasks' in __import__('sys').modules").result())
        data = bytes(range(256)) * 4000
        self.assertEqual(executor.submit(bytes.upper, data).result(), data.upper())
        self.assertEqual(executor.function(divmod)(17, 5), (3, 2))

    def test_exceptions_and_ends_of_workers_arrive(self):
        executor = self.executor(self.url, key=self.key)
        with self.assertRaisesRegex(ValueError, "invalid literal") as caught:
            executor.submit(int, "x").result()
        self.assertIn("on node 1 (pid ", caught.exception.__notes__[-1])
        with self.assertRaisesRegex(farcall.NodeFailed, r"node 1 \(pid \d+\) exited with status 3 while it ran _exit"):
            executor.submit(os._exit, 3).result()
        self.assertEqual(executor.submit(abs, -1).result(), 1)

    def test_heartbeats_do_not_need_the_interpreter(self):
        executor = self.executor(self.url, key=self.key, heartbeat_timeout=0.5)
        begin = time.monotonic()
        call = executor.submit(eval, "__import__('served_tasks').hold_the_gil(3)")
        next_call = executor.submit(os.getpid)
        self.assertEqual(call.result(), next_call.result())
        self.assertGreaterEqual(time.monotonic() - begin, 3)

    def test_workers_here_and_there_are_mixed(self):
        executor = self.executor(self.url + ",shm", key=self.key)
        folders = {executor.submit(os.getcwd).result() for _ in range(50)}
        folders |= {future.result() for future in [executor.submit(os.getcwd) for _ in range(50)]}
        self.assertLessEqual(folders, {os.path.realpath(self.folder), os.getcwd()})

    def test_calls_go_on_without_a_server_that_ends(self):
        server, url = self.start_server()
        executor = self.executor(url + ",shm", key=self.key, start_timeout=support.GUARD_SECONDS / 2)
        path = os.path.join(self.folder, "go")
        wait = f"[None for _ in iter(lambda: __import__('os').path.exists({path!r}), True)]"
        calls = [executor.submit(eval, wait) for _ in range(2)]
        self.assertTrue(support.wait_until(lambda: all(call.running() for call in calls)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            server.kill()
            self.assertTrue(support.wait_until(lambda: any(call.done() for call in calls)))
            open(path, "w", encoding="ascii").close()
            errors = [call.exception() for call in calls]
            self.assertEqual([type(error) for error in errors if error is not None], [farcall.NodeFailed])
            self.assertEqual([executor.submit(abs, -i).result() for i in range(10)], list(range(10)))

    def test_calls_for_a_worker_without_a_server_fail(self):
        server, url = self.start_server()
        executor = self.executor(url + ",shm", key=self.key, start_timeout=support.GUARD_SECONDS / 2)
        executor.broadcast(abs, -1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            server.kill()
            # The first calls may run, or fail together with the worker.
            self.assertTrue(support.wait_until(lambda: "worker 0 has ended, and could not be started again" in str(
                executor.submit_to(0, abs, -1).exception(support.GUARD_SECONDS / 2))))
            self.assertRaises(farcall.NodeFailed, executor.broadcast, abs, -1)
        self.assertEqual(executor.submit_to(1, abs, -1).result(), 1)

    def test_arrays_of_a_server_are_arguments_here(self):
        executor = self.executor(self.url + ",shm", key=self.key)
        array = farcall.empty(1000, "f8", node=executor[0])
        array.put(2.0)
        for index in range(2):
            self.assertEqual(executor.submit_to(index, sum, array).result(), 2000.0)

    def test_executor_without_workers_is_broken(self):
        server, url = self.start_server()
        executor = self.executor(url, key=self.key, start_timeout=support.GUARD_SECONDS / 2)
        self.assertEqual(executor.submit(abs, -1).result(), 1)
        server.kill()
        with self.assertRaises(concurrent.futures.BrokenExecutor):
            while True:
                executor.submit(abs, -1).result()

    def test_jobs_call_functions_in_c_there(self):
        with farcall.Job(self.url, key=self.key) as job:
            self.assertEqual(job[1].describe()["transport"], "tcp")
            self.assertEqual(job[1].load("libm.so.6").function("sqrt", "d(d)")(16.0), 4.0)
            c = job[1].load("libc.so.6")
            data = bytearray(os.urandom(300_000))
            copy = bytearray(len(data))
            c.function("memcpy", "p(osN)")(copy, bytes(data), len(data))
            self.assertEqual(copy, data)
            self.assertEqual(job[1].call(os.getcwd), os.path.realpath(self.folder))

    def test_ctrl_c_ends_copies(self):
        executor = self.executor(self.url, key=self.key)
        array, data = farcall.empty(1 << 22, "u1", node=executor[0]), bytearray(1 << 22)
        with farcall.Job(self.url, key=self.key) as job:
            memory = job[1].allocate(len(data))
            for copy, pid in ((memory.put, job[1].pid), (memory.get, job[1].pid), (array.put, executor[0].pid),
                              (array.get, executor[0].pid)):
                support.stop(pid)
                threading.Timer(0.1, signal.raise_signal, (signal.SIGINT,)).start()
                with self.assertRaises(KeyboardInterrupt):
                    while True:  # some copies end although the worker is stopped
                        copy(data)
                os.kill(pid, signal.SIGCONT)
                self.assertTrue(support.wait_until(lambda: can_grow(data) or copy(data)))

    def test_wrong_keys_are_refused(self):
        other = os.path.join(self.folder, "other")
        if not os.path.exists(other):
            subprocess.run([COMMAND, "keygen", other], check=True, capture_output=True)
        for make in (farcall.Executor, farcall.Job):
            with self.assertRaisesRegex(farcall.StartFailed, "another key"):
                make(self.url, key=other)
            with self.assertRaisesRegex(farcall.StartFailed, "wants a key"):
                make(self.url)


def can_grow(data):
    """True if no copy uses the bytes."""
    try:
        data.append(0)
    except BufferError:
        return False
    data.pop()
    return True


if __name__ == "__main__":
    support.main()
