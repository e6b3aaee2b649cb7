#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that await_cross.sh waits for the build of programs for other machines, and fails if it fails."""

import os
import pathlib
import subprocess
import tempfile
import threading
import time
import unittest

SCRIPT = pathlib.Path(__file__).with_name("await_cross.sh")


class AwaitCross(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        (self.folder / "cross.log").write_text("no such compiler\n")

    def builder(self, *command):
        """Starts a process in place of the build, and writes its process ID to cross.pid."""
        process = subprocess.Popen(command)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        (self.folder / "cross.pid").write_text(f"{process.pid}\n")
        return process

    def run_script(self, cross="aarch64"):
        return subprocess.run([SCRIPT, self.folder], env={**os.environ, "FARCALL_CROSS": cross},
                              capture_output=True, text=True, timeout=30)

    def test_tests_begin_at_once_without_a_build(self):
        self.assertEqual(self.run_script().returncode, 0)

    def test_tests_without_other_machines_do_not_wait(self):
        self.builder("sleep", "60")
        self.assertEqual(self.run_script(cross="").returncode, 0)

    def test_a_build_that_has_passed_lets_tests_begin(self):
        self.builder("sleep", "60")
        (self.folder / "cross.status").write_text("0\n")
        self.assertEqual(self.run_script().returncode, 0)

    def test_a_running_build_is_waited_for(self):
        self.builder("sleep", "60")
        begin = time.monotonic()
        timer = threading.Timer(1, lambda: (self.folder / "cross.status").write_text("0\n"))
        timer.start()
        self.addCleanup(timer.join)
        self.assertEqual(self.run_script().returncode, 0)
        self.assertGreaterEqual(time.monotonic() - begin, 0.9)

    def test_a_failed_build_fails_with_its_output(self):
        self.builder("sleep", "60")
        (self.folder / "cross.status").write_text("1\n")
        outcome = self.run_script()
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("no such compiler", outcome.stdout)
        self.assertIn("were not built", outcome.stderr)

    def test_an_unfinished_status_is_no_success(self):
        self.builder("true").wait()
        for text in ("", "killed\n"):
            (self.folder / "cross.status").write_text(text)
            self.assertEqual(self.run_script().returncode, 1)

    def test_a_status_may_be_written_late(self):
        self.builder("sleep", "60")
        (self.folder / "cross.status").touch()
        timer = threading.Timer(0.5, lambda: (self.folder / "cross.status").write_text("1\n"))
        timer.start()
        self.addCleanup(timer.join)
        self.assertEqual(self.run_script().returncode, 1)

    def test_a_build_that_has_died_fails(self):
        self.builder("true").wait()
        self.assertEqual(self.run_script().returncode, 1)


if __name__ == "__main__":
    unittest.main()
