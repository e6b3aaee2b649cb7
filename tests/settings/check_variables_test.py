#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that check_variables.py finds variables that the page lacks."""

import pathlib
import tempfile
import unittest

import check_variables


class CheckVariables(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)
        self.write("docs/settings.md", "| `FARCALL_KNOWN` | a |\n| `FARCALL_TEST_*` | tests |\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def expect(self, *names):
        found = [p.split(": ")[1].split()[0] for p in check_variables.problems(self.root)]
        self.assertEqual(found, list(names))

    def test_code(self):
        self.write("farcall/a.cpp", 'getenv("FARCALL_KNOWN"); getenv("FARCALL_NEW");\n'
                                    'putenv("FARCALL_SET=1"); "see FARCALL_IN_A_TEXT"\n'
                                    "#define FARCALL_MACRO 1\n")
        self.expect("FARCALL_NEW", "FARCALL_SET")

    def test_scripts(self):
        self.write("tools/a.py", 'os.environ.get("FARCALL_NEW")\n')
        self.write("compat/a", "#!/usr/bin/env bash\n[[ ${FARCALL_SHELL:-} ]]\n# FARCALL_COMMENT\n"
                               "set_tool FARCALL_TOOL g++\nx) variable=FARCALL_NAME ;;\n")
        self.write("run", "export FARCALL_SET=1\ncmake -DFARCALL_OPTION=ON\n")
        self.expect("FARCALL_SHELL", "FARCALL_TOOL", "FARCALL_NAME", "FARCALL_NEW", "FARCALL_SET")

    def test_families(self):
        self.write("tests/a.cpp", '"FARCALL_TEST_ROLE" "FARCALL_TESTS"\n')
        self.expect("FARCALL_TESTS")

    def test_unit_tests_make_variables_up(self):
        self.write("farcall/a_test.cpp", '"FARCALL_NEW"\n')
        self.expect()

    def test_an_empty_document(self):
        self.write("docs/settings.md", "# Settings\n")
        self.assertEqual(len(list(check_variables.problems(self.root))), 1)


if __name__ == "__main__":
    unittest.main()
