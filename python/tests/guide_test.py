# SPDX-License-Identifier: Apache-2.0
"""Runs the Python code of the guide's pages, and compares its output with the pages."""

import importlib.util
import pathlib
import re
import sys
import tempfile

import support

GUIDE = pathlib.Path(__file__).resolve().parents[2] / "docs/guide"
PAGES = sorted(GUIDE.glob("*-python*.md"))
BLOCK = re.compile(r"^```(python|output)\n(.*?)^```$", re.M | re.S)
SECTION = re.compile(r"^## +(.+)$", re.M)
IMPORT = re.compile(r"^ *(?:import|from) (\w+)", re.M)
# Each section of these pages is a program of its own. The code of other pages is one program.
PAGES_OF_PROGRAMS = ("24-python-cookbook", "28-python-from-ray")


def programs_of(page):
    """Returns the code and the output of each program of a page, by its name."""
    text = page.read_text(encoding="utf-8")
    if page.stem in PAGES_OF_PROGRAMS:
        pieces = SECTION.split(text)
        sections = dict(zip(pieces[1::2], pieces[2::2]))
    else:
        sections = {page.stem: text}
    programs = {}
    for name, section in sections.items():
        parts = {"python": "", "output": ""}
        for kind, block in BLOCK.findall(section):
            parts[kind] += block
        if parts["python"]:
            programs[name] = parts["python"], parts["output"]
    return programs


def missing_modules(code):
    """Returns the modules that the code imports and this Python lacks."""
    return [name for name in dict.fromkeys(IMPORT.findall(code)) if importlib.util.find_spec(name) is None]


class Guide(support.TestCase):
    """The pages of the guide."""

    GUARD = 200

    @support.needs_cloudpickle
    def check(self, page):
        """Runs the programs of a page."""
        for name, (code, output) in programs_of(page).items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                missing = missing_modules(code)
                if missing:
                    self.skipTest(f"{', '.join(missing)} is not installed")
                script = pathlib.Path(folder, "page.py")
                script.write_text(code, encoding="utf-8")
                status, out, errors = support.run([sys.executable, str(script)])
                self.assertEqual((status, out), (0, output), errors)


def add_test(page):
    """Adds a test of a page."""
    name = page.stem.partition("-")[2].replace("-", "_")
    setattr(Guide, f"test_code_of_{name}_prints_what_the_page_says", lambda self: self.check(page))


class Requirements(support.TestCase):
    """The table of README.md."""

    def test_tests_of_the_table_exist(self):
        folder = pathlib.Path(__file__).resolve().parent
        rows = (folder / "README.md").read_text(encoding="utf-8").split("|---|---|\n")[1].splitlines()
        self.assertEqual(len(rows), 30)
        for row in rows:
            names = re.findall(r"`(\w+_test)\.(\w+)`", row)
            self.assertTrue(names, row)
            for file, name in names:
                self.assertIn(f"def {name}(self", (folder / f"{file}.py").read_text(encoding="utf-8"))


for guide_page in PAGES:
    add_test(guide_page)

if __name__ == "__main__":
    support.main()
