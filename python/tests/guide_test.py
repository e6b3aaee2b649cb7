"""Runs the Python code of the guide's page, and compares its output with the page."""

import pathlib
import re
import sys
import tempfile

import support

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/guide/22-python.md"
BLOCK = re.compile(r"^```(python|output)\n(.*?)^```$", re.M | re.S)


class Guide(support.TestCase):
    """The page of the guide."""

    @support.needs_cloudpickle
    def test_code_prints_what_the_page_says(self):
        parts = {"python": "", "output": ""}
        for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
            parts[kind] += text
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "page.py")
            script.write_text(parts["python"], encoding="utf-8")
            status, out, errors = support.run([sys.executable, str(script)])
        self.assertEqual((status, out, errors), (0, parts["output"], ""))


if __name__ == "__main__":
    support.main()
