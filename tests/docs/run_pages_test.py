#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that run_pages.py finds pages that say something else than happens."""

import os
import pathlib
import tempfile
import unittest

import run_pages

SHELL = "```sh\n{}\n```\n\n```output\n{}\n```\n"


class Pages(unittest.TestCase):
    def run_page(self, text):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, "page.md")
            page.write_text(text, encoding="utf-8")
            return run_pages.run_page(page, pathlib.Path(folder), dict(os.environ))

    def expect_wrong(self, text, *parts):
        with self.assertRaises(run_pages.Wrong) as caught:
            self.run_page(text)
        for part in parts:
            self.assertIn(part, str(caught.exception))

    def test_the_output_of_a_page_may_have_gaps(self):
        self.assertEqual(self.run_page(SHELL.format("echo one two three", "one … three")), 1)

    def test_another_output_is_found(self):
        self.expect_wrong("Text.\n\n" + SHELL.format("echo one", "two"), "page.md:3: echo one", "printed\none", "two")
        self.expect_wrong(SHELL.format("echo one; echo two", "one"), "printed\none\ntwo")
        self.expect_wrong(SHELL.format("printf 'one\\ntwo\\n'", "one…"), "printed\none\ntwo")

    def test_a_command_that_fails_is_found(self):
        self.expect_wrong("```sh\necho reason >&2\nfalse\n```\n", "status 1", "reason")
        self.expect_wrong("```sh\nfalse | cat\n```\n", "status 1")

    def test_files_of_a_page_are_replaced_by_later_ones(self):
        text = "".join(f"```cpp\n// a.hpp\n// {number}\n```\n" for number in (1, 2))
        self.assertEqual(self.run_page(text + SHELL.format("tail -n 1 a.hpp", "// 2")), 1)

    def test_other_blocks_are_not_run(self):
        self.assertEqual(self.run_page("```\nfalse\n```\n<!-- not run: needs root -->\n```sh\nfalse\n```\n"), 0)

    def test_a_command_that_stays_gets_a_signal(self):
        stays = "<!-- stays: elsewhere -->\n" + SHELL.format(
            "trap 'echo end >ended; exit {}' TERM; echo ready; read -r _ < <(sleep 100) || true", "{}")
        other = SHELL.format("echo other", "other")
        self.assertEqual(self.run_page(stays.format(0, "ready") + other), 2)
        self.expect_wrong(stays.format(3, "ready") + other, "status 3")
        self.expect_wrong(stays.format(0, "steady") + other, "printed\nready", "steady")

    def test_the_port_of_a_page_is_replaced(self):
        self.expect_wrong(SHELL.format("echo host:7070", "host:x"), "printed\nhost:")
        self.assertEqual(self.run_page(SHELL.format("[[ host:7070 != host:70''70 ]] && echo host:7070", "host:7070")), 1)


if __name__ == "__main__":
    unittest.main()
