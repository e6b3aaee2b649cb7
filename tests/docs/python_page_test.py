#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the page of the site about the Python package."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs/reference"))
import python_page  # noqa: E402

INIT = '''
from concurrent.futures import wait
from ._box import Box, open_box
__all__ = ["Box", "open_box", "wait"]
'''
BOX = '''
class Box(list[int]):
    """Has things."""
    def __init__(self, size: int = 3, /, *, colour: str | None = None) -> None:
        """Makes a box."""
    @property
    def size(self) -> int:
        """Number of things."""
    @size.setter
    def size(self, size: int) -> None:
        """Is left out."""
    def put(self, thing: int, *more: int) -> bool:
        """Puts things in."""
    def take(self) -> int:
        return 1
    def _shake(self) -> None:
        """Is left out."""
    @staticmethod
    async def count(boxes: int) -> int:
        """Counts."""

def open_box(path):
    """Opens a box."""

def other():
    """Is not exported."""
'''


class Page(unittest.TestCase):
    def page(self, box):
        with tempfile.TemporaryDirectory() as folder:
            python_page.PACKAGE = pathlib.Path(folder)
            (python_page.PACKAGE / "__init__.py").write_text(INIT, encoding="utf-8")
            (python_page.PACKAGE / "_box.py").write_text(box, encoding="utf-8")
            return python_page.page()

    def test_public_names_are_there_with_their_declarations(self):
        text, wrong = self.page(BOX)
        self.assertEqual(wrong, [])
        for part in ("class Box(list[int])", "Has things.", "Box(size: int = 3, /, *, colour: str | None = None)",
                     "\nsize: int\n", "put(thing: int, *more: int) -> bool", "async count(boxes: int) -> int",
                     "open_box(path)", "`wait`"):
            self.assertIn(part, text)
        for part in ("left out", "take", "not exported"):
            self.assertNotIn(part, text)

    def test_long_declarations_have_a_line_for_each_argument(self):
        text, _ = self.page(BOX.replace("def open_box(path)", f"def open_box(first: {'int | ' * 20} int, second=3)"))
        self.assertIn(",\n    second=3,\n)", text)

    def test_missing_docstrings_are_complaints(self):
        _, wrong = self.page(BOX.replace('    """Opens a box."""', "    pass"))
        self.assertEqual(len(wrong), 1)
        self.assertIn("open_box has no docstring", wrong[0])
        _, wrong = self.page(BOX.replace('    """Has things."""', ""))
        self.assertEqual(len(wrong), 1)


if __name__ == "__main__":
    unittest.main()
