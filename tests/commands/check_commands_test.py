#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that check_commands.py finds each kind of problem, and that ./run refuses unknown words.

Run as: check_commands_test.py [project root]
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import check_commands

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".").resolve()

RUN = """\
#!/usr/bin/env bash
help() {
  cat <<'END'
usage: ./run <command> [arguments]

  build [preset…] build everything
  asan, tsan      build with
                  and run
  docs [--long]
                  make the documents
  help            this text

Packages are Debian's.
END
}
do_build() { :; }
do_asan() {
  :
}
do_tsan() { :; }
do_docs() { :; }
[[ $1 == help ]] && help
"""
CI = """\
#!/usr/bin/env bash
cd "$(dirname "$0")/.."
status=0
step() { ./run "$@" || { echo "FAILED  0 s  ./run $*"; status=1; }; }
step build dev
step asan
step tsan -R x
step docs
step help
exit $status
"""


class Commands(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)
        (self.root / ".ci").mkdir()

    def problems(self, run=RUN, ci=CI):
        for name, text in (("run", run), (".ci/run", ci)):
            (self.root / name).write_text(text, encoding="utf-8")
            (self.root / name).chmod(0o755)
        return list(check_commands.problems(self.root))

    def expect_one(self, problems, text):
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(text, problems[0])

    def test_all_commands_are_run(self):
        self.assertEqual(self.problems(), [])

    def test_a_command_that_is_not_run_is_found(self):
        self.expect_one(self.problems(ci=CI.replace("step tsan -R x\n", "")),
                        "runs ./run tsan in no form")

    def test_an_argument_is_not_run(self):
        self.expect_one(self.problems(ci=CI.replace("step asan\n", "step build asan\n")),
                        "runs ./run asan in no form")

    def test_a_new_command_that_is_not_run_is_found(self):
        new = RUN.replace("  help   ", "  paint           paint it\n  help   ") + "do_paint() { :; }\n"
        self.expect_one(self.problems(run=new), "runs ./run paint in no form")

    def test_a_command_that_help_leaves_out_is_found(self):
        self.expect_one(self.problems(run=RUN + "do_paint() { :; }\n"),
                        "help does not list the command paint")

    def test_all_spellings_of_commands_are_read(self):
        for head in ("do_paint_2() {", "do_dry-run () {", "function do_paint {", "  do_paint() {"):
            name = head.split("do_")[1].split("(")[0].strip(" {")
            self.expect_one(self.problems(run=RUN + head + " :; }\n"), f"help does not list the command {name}")
            new = RUN.replace("  help   ", f"  {name}  paint it\n  help   ") + head + " :; }\n"
            self.expect_one(self.problems(run=new), f"runs ./run {name} in no form")

    def test_a_command_of_help_that_is_none_is_found(self):
        self.expect_one(self.problems(run=RUN.replace("do_build() { :; }\n", "")),
                        "help lists build, which is no command")

    def test_a_failure_that_is_passed_over_is_found(self):
        problems = self.problems(ci=CI.replace("exit $status", "exit 0"))
        self.assertEqual(len(problems), 5, problems)
        self.assertIn("although ./run docs has failed", "".join(problems))

    def test_one_failure_that_is_passed_over_is_found(self):
        self.expect_one(self.problems(ci=CI.replace("step tsan -R x", "./run tsan")), "although ./run tsan has failed")

    def test_a_failure_of_its_own_is_found(self):
        self.expect_one(self.problems(ci=CI.replace("exit $status", "exit 3")),
                        "ends with 3, although every command has passed")


class Run(unittest.TestCase):
    """Tests the real ./run, copied to a temporary folder, where it can do no harm."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)
        shutil.copy(ROOT / "run", self.root)

    def refused(self, *words):
        done = subprocess.run([self.root / "run", *words], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60)
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stdout

    def test_clean_removes_the_build_folder_and_nothing_else(self):
        (self.root / "build/release").mkdir(parents=True)
        (self.root / "farcall").mkdir()
        subprocess.run([self.root / "run", "clean"], check=True, timeout=60)
        self.assertEqual(sorted(p.name for p in self.root.iterdir()), ["farcall", "run"])

    def test_words_that_it_does_not_know_are_refused(self):
        self.assertIn("'paint'", self.refused("paint"))
        self.assertIn("'paint'", self.refused("setup", "paint"))
        self.assertIn("'paint'", self.refused("build", "paint"))
        self.assertIn("'paint'", self.refused("cross", "paint"))
        self.assertIn("'paint'", self.refused("bench", "paint"))
        self.assertIn("'--paint'", self.refused("format", "--paint"))
        self.assertIn("farcall/paint.cpp", self.refused("lint", "farcall/paint.cpp"))


if __name__ == "__main__":
    unittest.main()
