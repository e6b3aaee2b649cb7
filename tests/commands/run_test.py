#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests how ./run and .ci/run handle users' mistakes and failing tools. Stand-ins for the tools record calls.

Run as: run_test.py [project root]
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import check_commands

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".").resolve()
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
NOTES = """\
#!/bin/sh
printf '%s\\n' "${0##*/} $*" >>"$NOTES"
"""
CMAKE = NOTES + """\
case "$*" in
  --version) echo 'cmake version 3.30.0' ;;
  "$FAILING") exit 1 ;;
  '--build --preset riscv64 '*) [ -z "$SLOW" ] || sleep 60 ;;
esac
"""
CTEST = NOTES + """\
[ -z "$SLOW" ] || sleep 60
while [ -n "$AWAIT" ] && [ ! -s build/cross.status ]; do sleep 0.1; done
for word; do [ "$before" != --output-junit ] || junit=$word; before=$word; done
[ -z "$junit" ] || echo '<s><testcase name="a" status="run"/></s>' >"$junit"
echo '{"tests": []}'
"""
SUCCESS = "#!/bin/sh\necho installed\n"
TESTS = """\
#!/bin/sh
case "$*" in
  *--gtest_list_tests*) [ "$1" != '--gtest_filter=*ring*' ] || printf 'rings.\\n  wrap\\n' ;;
esac
"""


class Run(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="c++")
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name).resolve()
        self.tools = self.root / "tools of the test"
        self.environment = {**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}", "FAILING": "",
                            "SLOW": "", "AWAIT": "", "NOTES": str(self.root / "notes")}
        for name, text in (("cmake", CMAKE), ("ctest", CTEST), ("ninja", NOTES), ("run-clang-tidy-19", NOTES)):
            self.program(self.tools / name, text)
        for name in ("dpkg-query", "apt-get", "apt-cache", "nvidia-smi", "nvcc", "cuobjdump", "clang-format-19",
                     "clang++-19", "aarch64-linux-gnu-g++", "riscv64-linux-gnu-g++", "qemu-riscv64"):
            self.program(self.tools / name, SUCCESS)
        self.program(self.tools / "sudo", '#!/bin/sh\nexec "$@"\n')
        for name in ("run", "tests/selection", "tests/slowest", "tests/skips", "tests/expected_skips.txt",
                     "tests/layers"):
            (self.root / name).parent.mkdir(exist_ok=True)
            (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, self.root / name)
        for name in ("build/release", "build/clang", "build/py-veo/" + PYTHON,
                     f"build/python-tools/{PYTHON}/pyright", "build/python-packages/" + PYTHON):
            (self.root / name).mkdir(parents=True)
        (self.root / "notes").touch()
        for layer in ("am", "memory"):
            self.write(f"farcall/{layer}/CMakeLists.txt", "")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def program(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def start(self, *words):
        return subprocess.Popen([self.root / "run", *words], env=self.environment, text=True, cwd="/",
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def expect(self, status, *words, text=""):
        process = self.start(*words)
        output, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, status, output)
        self.assertIn(text, output)

    def notes(self):
        return (self.root / "notes").read_text(encoding="utf-8")


class Words(Run):
    def test_too_many_words_are_refused(self):
        self.expect(1, "clean", "asan", text="takes no arguments")
        self.expect(1, "docs", "paint", text="takes no arguments")
        self.expect(1, "format", "--check", "farcall/a.cpp", text="usage")
        self.expect(1, "soak", "30", "40", text="usage")
        self.assertTrue((self.root / "build").exists())

    def test_a_soak_takes_a_number(self):
        self.expect(1, "soak", "long", text="usage")
        self.assertEqual(self.notes(), "")

    def test_wrong_words_are_refused_before_anything_is_built(self):
        self.expect(1, "soak", "0", text="usage")
        self.expect(1, "demo", "/no/such/file", text="there is no file '/no/such/file'")
        self.expect(1, "suites", text="usage")
        self.expect(1, "setup", "paint", text="setup knows no 'paint' (it knows asan bench build ")
        self.assertEqual(self.notes(), "")

    def test_each_command_has_help(self):
        self.expect(0, "unit", "--help", text="  unit [layer [filter]]\n")
        self.expect(0, "tsan", "-h", text="  asan, tsan [ctest…]\n")
        self.expect(0, "wheel", "--help", text="  wheel [--quick] [python…]\n")
        self.assertEqual(self.notes(), "")

    def test_two_names_in_one_word_are_refused(self):
        self.expect(1, "unit", "am memory", text="no layer 'am memory'")
        self.expect(1, "cross", "aarch64 riscv64", text="no cross preset 'aarch64 riscv64'")


class Demo(Run):
    def setUp(self):
        super().setUp()
        for name in ("farcall", "example-08-conjugate-gradient"):
            self.program(self.root / "build/release/bin" / name, NOTES)
        self.program(self.tools / "python3", NOTES)

    def test_a_build_without_python_says_what_is_left_out(self):
        self.expect(0, "demo", text="a call of a Python function is left out: it needs python3-dev")
        self.assertIn("farcall bench offload", self.notes())
        self.assertNotIn("farcall.demo", self.notes())

    def test_python_functions_are_called(self):
        self.write("build/release/python/farcall/_core.abi3.so", "")
        self.expect(0, "demo")
        self.assertIn("python3 -B -m farcall.demo", self.notes())


class BenchOfPython(Run):
    def setUp(self):
        super().setUp()
        self.program(self.tools / "python3", NOTES + """case "$*" in *' pip install '*) exit 1 ;; esac\n""")

    def test_options_are_passed_on(self):
        self.write("build/python-rivals/installed", "")
        self.expect(0, "bench", "python", "--quick", "--packages", "none")
        self.assertIn("python3 -B -m farcall.bench --quick --packages none\n", self.notes())
        self.assertNotIn("pip install", self.notes())

    def test_packages_that_cannot_be_installed_are_named(self):
        self.expect(0, "bench", "python", text="ray is not measured")
        self.assertIn("python3 -B -m farcall.bench\n", self.notes())


class Unit(Run):
    def setUp(self):
        super().setUp()
        for layer in ("am", "memory", "conformance"):
            self.program(self.root / f"build/dev/bin/farcall_{layer}_tests", TESTS)

    def test_a_filter_that_matches_passes(self):
        self.expect(0, "unit", "memory", "ring", text="unit tests of memory: 1")
        self.expect(0, "unit", "farcall/memory/", "ring")
        self.expect(0, "unit", "", "ring")

    def test_programs_of_the_release_build_can_be_used(self):
        self.program(self.root / "build/release/bin/farcall_am_tests", TESTS)
        (self.root / "build/dev/bin/farcall_am_tests").unlink()
        self.environment["FARCALL_UNIT_PRESET"] = "release"
        self.expect(0, "unit", "am", "ring")
        self.environment["FARCALL_UNIT_PRESET"] = "debug"
        self.expect(1, "unit", "am", text="not 'debug'")

    def test_a_filter_without_a_match_fails(self):
        self.expect(1, "unit", "memory", "rnig", text="matches no test of: memory")
        self.expect(1, "unit", "", "rnig", text="matches no test")


class Test(Run):
    def test_a_test_without_targets_builds_nothing(self):
        self.program(self.root / "tests/selection/targets_of_tests.py", "")
        self.expect(0, "test", "-R", "docs")
        self.assertNotIn("cmake --build", self.notes())

    def test_a_selection_that_fails_ends_the_command(self):
        self.program(self.root / "tests/selection/targets_of_tests.py", "raise SystemExit('no targets')")
        self.expect(1, "test", "-R", "docs", text="no targets")
        self.assertNotIn("--output-junit", self.notes())

    def status_of_cross(self):
        self.environment["AWAIT"] = "yes"
        self.expect(0, "test")
        return (self.root / "build/cross.status").read_text(encoding="utf-8")

    def test_a_cross_build_that_passes_is_noted(self):
        self.assertEqual(self.status_of_cross(), "0\n")

    def test_a_configuration_that_fails_is_noted(self):
        self.environment["FAILING"] = "--preset riscv64"
        self.assertEqual(self.status_of_cross(), "1\n")
        self.assertNotIn("--build --preset riscv64", self.notes())

    def test_signals_end_the_cross_build(self):
        self.environment["SLOW"] = "yes"
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                (self.root / "notes").write_text("", encoding="utf-8")
                process = self.start("test")
                while "--build --preset riscv64" not in self.notes() or "--output-junit" not in self.notes():
                    self.assertIsNone(process.poll())
                    time.sleep(0.1)
                builder = int((self.root / "build/cross.pid").read_text(encoding="utf-8"))
                os.killpg(process.pid, number)
                process.communicate(timeout=20)
                self.assertEqual(self.running_in(builder), [])

    def is_running(self, entry, group):
        try:
            state, _, of_entry = (entry / "stat").read_text(encoding="utf-8").rpartition(") ")[2].split()[:3]
        except OSError:
            return False
        return state != "Z" and int(of_entry) == group

    def running_in(self, group):
        for _ in range(50):
            left = [entry.name for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit() and
                    self.is_running(entry, group)]
            if not left:
                break
            time.sleep(0.1)
        return left


class Lint(Run):
    def test_a_folder_may_have_any_name(self):
        self.write("farcall/a.cpp", "int a;\n")
        self.program(self.root / "tests/layers/check_layers.py", "")
        self.write("build/clang/compile_commands.json", f'"file": "{self.root}/farcall/a.cpp"')
        self.expect(0, "lint", "farcall/a.cpp")
        call, = (line for line in self.notes().splitlines() if line.startswith("run-clang-tidy-19"))
        self.assertRegex(f"{self.root}/farcall/a.cpp", call.split()[-1])


class Ci(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)
        self.calls = self.root / "calls"
        for name in (".ci", "docs"):
            (self.root / name).mkdir()
        shutil.copy(ROOT / ".ci/run", self.root / ".ci")
        # On a busy machine, steps at idle priority would hardly run.
        (self.root / "tools").mkdir()
        (self.root / "tools/chrt").write_text('#!/bin/sh\nshift 2\nexec "$@"\n', encoding="utf-8")
        (self.root / "tools/chrt").chmod(0o755)
        self.run_does("")

    def run_does(self, text):
        (self.root / "run").write_text(check_commands.NOTING.format(calls=self.calls, failing="") + text,
                                       encoding="utf-8")
        (self.root / "run").chmod(0o755)

    def ci(self):
        return subprocess.run([self.root / ".ci/run"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=100, env={**os.environ, "PATH": f"{self.root}/tools:{os.environ['PATH']}"})

    def commit(self, *names):
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
        for name in names:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            if name != "run":
                (self.root / name).write_text(name, encoding="utf-8")
        for words in (["init", "-q"], ["add", *names], ["commit", "-q", "-m", "files"]):
            subprocess.run([*git, *words], cwd=self.root, check=True)

    @unittest.skipIf(shutil.which("git") is None, "git is missing")
    def test_sources_of_the_code_are_linted(self):
        folders, = (line for line in (ROOT / "run").read_text(encoding="utf-8").splitlines()
                    if line.startswith("code_folders="))
        self.run_does(folders + "\n")
        self.commit("run")
        self.commit("docs/steps.cpp", "cmake/hide.cpp", "packaging/a.cpp", "other/b.cpp")
        self.assertEqual(self.ci().returncode, 0)
        self.assertIn("lint farcall/base/limited_log.cpp\n", self.calls.read_text(encoding="utf-8"))
        self.commit("docs/more.cpp", "farcall/am/c.cpp", "tests/d.cpp", "tools/e.hpp")
        self.assertEqual(self.ci().returncode, 0)
        self.assertIn("lint farcall/am/c.cpp tests/d.cpp\n", self.calls.read_text(encoding="utf-8"))

    def test_steps_of_a_killed_build_ahead_fail(self):
        self.run_does("[[ $1 != headers ]] || kill -KILL 0\n")
        done = self.ci()
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("No such file", done.stdout)
        for step in ("headers", "build tsan"):
            self.assertRegex(done.stdout, rf"FAILED +0 s  ./run {step}\nrun: the build ahead was ended")


if __name__ == "__main__":
    unittest.main()
