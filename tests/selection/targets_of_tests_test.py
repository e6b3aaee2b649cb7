#!/usr/bin/env python3
"""Checks that targets_of_tests.py finds the targets of each kind of test, and chooses `all` if unsure."""

import pathlib
import unittest

import targets_of_tests
from targets_of_tests import names_in, pattern_of

FOLDER = pathlib.Path("/tree/build/release")
PROGRAMS = {"farcall_memory_tests": ["rings.wrap", "pairs/rings.carry/"],
            "farcall_different_tests": ["different_builds.agree"]}
OUTPUTS = {"bin/farcall", "bin/farcall_memory_tests", "bin/example-01-hello", "lib/liblate.so"}


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

    def test_instances_in_other_files_count(self):
        self.assertEqual(list(names_in(["TEST_P(pairs, carry) {}",
                                        "INSTANTIATE_TEST_SUITE_P(shm, pairs, Values(1));"])),
                         ["shm/pairs.carry/"])


class Pattern(unittest.TestCase):
    def test_all_spellings_of_the_option_are_read(self):
        for arguments in (["-R", "x"], ["-Rx"], ["--tests-regex", "x"], ["-V", "-R", "x", "-j", "2"]):
            self.assertEqual(pattern_of(arguments), "x")

    def test_other_arguments_have_no_pattern(self):
        self.assertIsNone(pattern_of(["-L", "example"]))


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

    def test_fixtures_are_built(self):
        self.assertEqual(select("folder.used"), {"bin/farcall"})

    def test_programs_of_other_machines_are_asked_for(self):
        self.assertEqual(select("different"), {"farcall_different_tests", "cross"})
        self.assertEqual(select("aarch64"), {"bin/example-01-hello", "cross"})

    def test_a_script_needs_nothing(self):
        self.assertEqual(select("docs.language"), set())

    def test_an_unknown_name_needs_all(self):
        self.assertEqual(select("no_such_test"), {"all", "cross"})


if __name__ == "__main__":
    unittest.main()
