#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that targets_of_tests.py finds the targets of each kind of test, and chooses `all` if unsure."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import targets_of_tests
from targets_of_tests import names_in, pattern_of

FOLDER = pathlib.Path("/tree/build/release")
PROGRAMS = {"farcall_memory_tests": ["rings.wrap", "pairs/rings.carry/"],
            "farcall_different_tests": ["different_builds.agree"]}
OUTPUTS = {"compat/veo/libveo.so", "bin/farcall", "bin/farcall_memory_tests", "bin/example-01-hello", "lib/liblate.so"}


def test_of(name, *command, **properties):
    return {"name": name, "command": list(command),
            "properties": [{"name": key, "value": value} for key, value in properties.items()]}


TESTS = [
    test_of("example.01-hello", f"{FOLDER}/bin/example-01-hello"),
    test_of("example.01-hello.aarch64", "python3", "run.py", f"{FOLDER}/bin/example-01-hello"),
    test_of("tool.quoted", "sh", "-c", f"'{FOLDER}/bin/farcall' run; true"),
    test_of("tool.late", "python3", "late.py", f"--library={FOLDER}/lib/liblate.so"),
    test_of("docs.language", "python3", "-B", "/tree/tests/docs/check_language.py"),
    test_of("install.consumers", "install.sh", str(FOLDER)),
    test_of("folder.setup", f"{FOLDER}/bin/farcall", FIXTURES_SETUP=["folder"]),
    test_of("folder.used", "true", FIXTURES_REQUIRED=["folder"]),
    test_of("without.memory", f"{FOLDER}/bin/farcall_memory_tests"),
    test_of("chain.fortran", "python3", "fortran.py", f"{FOLDER}/compat/veo"),
    test_of("in.path", "farcall", ENVIRONMENT_MODIFICATION=[f"PATH=path_list_prepend:{FOLDER}/bin"]),
    test_of("with.files", "python3", "run.py", REQUIRED_FILES=[f"{FOLDER}/compat/veo/libveo.so", f"{FOLDER}/bin/farcall"]),
    test_of("script.only", "python3", "script.py", WORKING_DIRECTORY=f"{FOLDER}/compat/veo"),
    {"name": "farcall_memory_tests_NOT_BUILT"},
]


def select(pattern):
    return targets_of_tests.select(pattern, PROGRAMS, TESTS, OUTPUTS, FOLDER)


class Names(unittest.TestCase):
    def test_each_kind_of_test_is_read(self):
        source = """
TEST(rings, wrap) {}
TEST_F(lanes,
       close_twice) {}
TEST_P(pairs, carry) {}
INSTANTIATE_TEST_SUITE_P(shm, pairs, Values(1));
INSTANTIATE_TEST_SUITE_P(tcp, pairs, Values(1));
"""
        self.assertEqual(list(names_in([source], "veo.")),
                         ["veo.rings.wrap", "veo.lanes.close_twice", "veo.shm/pairs.carry/",
                          "veo.tcp/pairs.carry/"])

    def test_literals_may_name_parameters(self):
        source = """
TEST_P(pairs, carry) {}
INSTANTIATE_TEST_SUITE_P(, pairs, Bool(), [](auto& info) { return info.param ? "tls" : "plain"; });
"""
        self.assertEqual(list(names_in([source])), ["pairs.carry/", "pairs.carry/plain", "pairs.carry/tls"])

    def test_a_suite_with_types_has_a_slash(self):
        self.assertEqual(list(names_in(["TYPED_TEST(errors, are_caught) {}"])), ["errors/.are_caught"])

    def test_sources_and_their_headers_are_read(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            for path, text in (("tests/devices.hpp", "TEST_P(devices, carry) {}\n"),
                               ("gpu/a_test.cpp", "#include <tests/devices.hpp>\n#include <vector>\n"
                                                  "INSTANTIATE_TEST_SUITE_P(gpu, devices, Values(1));\n"),
                               ("build/test_programs/gpu_tests.txt", f"x.\n{root}/gpu\na_test.cpp\ngone.cpp\n")):
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_bytes(text.encode() + b"\n// \xff\n" if path.endswith("pp") else text.encode())
            self.assertEqual(targets_of_tests.read_programs(root / "build", root),
                             {"gpu_tests": ["x.gpu/devices.carry/"]})

    def test_instances_in_other_files_count(self):
        self.assertEqual(list(names_in(["TEST_P(pairs, carry) {}",
                                        "INSTANTIATE_TEST_SUITE_P(shm, pairs, Values(1));"])),
                         ["shm/pairs.carry/"])


class Pattern(unittest.TestCase):
    def test_all_spellings_of_the_option_are_read(self):
        for arguments in (["-R", "x"], ["--tests-regex", "x"], ["-V", "-R", "x", "-j", "2"]):
            self.assertEqual(pattern_of(arguments), "x")

    def test_ctest_takes_the_last_of_several(self):
        self.assertEqual(pattern_of(["-R", "a", "--tests-regex", "x"]), "x")

    def test_spellings_that_ctest_ignores_have_no_pattern(self):
        for arguments in (["-Rx"], ["-R=x"], ["--tests-regex=x"], ["-R"]):
            self.assertIsNone(pattern_of(arguments))

    def test_other_arguments_have_no_pattern(self):
        self.assertIsNone(pattern_of(["-L", "example"]))


    def test_the_language_is_the_one_of_ctest(self):
        for pattern, name in ((r"\d\.", "d."), ("a{2}", "a{2}"), (r"[\w]_", "w_"), ("[]x]", "]"), ("^a|b$", "b")):
            self.assertTrue(targets_of_tests.compiled(pattern).fullmatch(name), pattern)
        for pattern, name in ((r"\d", "1"), ("a{2}", "aa"), (r"[\w]", "x")):
            self.assertIsNone(targets_of_tests.compiled(pattern).search(name), pattern)

    def test_errors_of_ctest_are_errors(self):
        for pattern in ("(", "*x", "(?i)x"):
            with self.assertRaises(re.error, msg=pattern):
                targets_of_tests.compiled(pattern)


class Selection(unittest.TestCase):
    def test_a_test_of_googletest_needs_its_program(self):
        self.assertEqual(select(r"^rings\.wrap$"), {"farcall_memory_tests"})

    def test_a_test_with_parameters_is_found_by_its_instance(self):
        self.assertEqual(select("pairs/rings"), {"farcall_memory_tests"})

    def test_a_test_of_a_program_needs_that_program(self):
        self.assertEqual(select("01-hello$"), {"bin/example-01-hello"})

    def test_paths_inside_arguments_count(self):
        self.assertEqual(select("tool"), {"bin/farcall", "lib/liblate.so"})

    def test_the_build_folder_as_an_argument_needs_all(self):
        self.assertEqual(select("install"), {"all", "cross"})

    def test_a_folder_of_programs_needs_all(self):
        self.assertEqual(select("chain"), {"all", "cross"})
        self.assertEqual(select("in.path"), {"all", "cross"})

    def test_required_files_are_built(self):
        self.assertEqual(select("with.files"), {"compat/veo/libveo.so", "bin/farcall"})

    def test_the_working_directory_needs_no_target(self):
        self.assertEqual(select("script.only"), set())

    def test_a_command_may_start_a_googletest_program(self):
        self.assertEqual(select("without.memory"), {"farcall_memory_tests"})

    def test_a_folder_may_have_a_foreign_name(self):
        folder = pathlib.Path("/tr\u00e9e/build")
        self.assertEqual(targets_of_tests.select("a", {}, [test_of("a", f"{folder}/bin/a")], {"bin/a"}, folder),
                         {"bin/a"})

    def test_fixtures_are_built(self):
        self.assertEqual(select("folder.used"), {"bin/farcall"})

    def test_programs_of_other_machines_are_asked_for(self):
        self.assertEqual(select("different"), {"farcall_different_tests", "cross"})
        self.assertEqual(select("aarch64"), {"bin/example-01-hello", "cross"})

    def test_a_script_needs_nothing(self):
        self.assertEqual(select("docs.language"), set())

    def test_an_unknown_name_needs_all(self):
        self.assertEqual(select("no_such_test"), {"all", "cross"})


class Program(unittest.TestCase):
    """The program itself, with a ctest and a ninja that print a text."""

    def run_program(self, pattern, ctest, status=0):
        with tempfile.TemporaryDirectory() as folder:
            for name, text, ended in (("ctest", ctest, status), ("ninja", "bin/a: CXX_LINK", 0)):
                program = pathlib.Path(folder, name)
                program.write_text(f"#!/bin/sh\necho '{text}'\nexit {ended}\n", encoding="utf-8")
                program.chmod(0o755)
            return subprocess.run([sys.executable, "-B", targets_of_tests.__file__, folder, "-R", pattern],
                                  env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30)

    def test_an_empty_selection_prints_an_empty_text(self):
        outcome = self.run_program("docs", '{"tests": [{"name": "docs", "command": ["python3"]}]}')
        self.assertEqual((outcome.returncode, outcome.stdout), (0, ""))

    def test_a_pattern_without_a_match_is_told(self):
        outcome = self.run_program("no_such", '{"tests": [{"name": "docs", "command": ["python3"]}]}')
        self.assertEqual(outcome.returncode, 0)
        self.assertIn("-R 'no_such' matches no known test", outcome.stdout)

    def test_a_list_that_fails_needs_all(self):
        outcome = self.run_program("docs", "the program crashed", status=8)
        self.assertEqual((outcome.returncode, outcome.stdout.split()[-2:]), (0, ["all", "cross"]))

    def test_a_malformed_pattern_is_refused(self):
        outcome = self.run_program("a(", '{"tests": []}')
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("no regular expression of ctest", outcome.stdout)


if __name__ == "__main__":
    unittest.main()
