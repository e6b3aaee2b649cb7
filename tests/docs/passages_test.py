#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that passages.py finds the prose of each language, and no code."""

import unittest

from passages import COMMENT, MESSAGE, NAME, TEXT, is_test, language_of, passages


class Passages(unittest.TestCase):
    def expect(self, path, text, *expected):
        self.assertEqual([(p.line, p.kind, p.text) for p in passages(path, text)], sorted(expected))


class CFamily(Passages):
    def test_adjacent_lines_are_one_comment(self):
        self.expect("a.cpp", "int a;\n// A comment of two\n// lines is one passage.\n",
                    (2, COMMENT, "A comment of two lines is one passage."))

    def test_empty_lines_and_items_separate_passages(self):
        self.expect("a.hpp", "/// The first paragraph has five words.\n///\n/// The second one has five, too.\n"
                             "/// * The item has five words here.\n",
                    (1, COMMENT, "The first paragraph has five words."),
                    (3, COMMENT, "The second one has five, too."),
                    (4, COMMENT, "The item has five words here."))

    def test_trailing_comments_are_passages(self):
        self.expect("a.h", "int a; ///< the first of the two numbers\nint b; ///< the second of the two numbers\n",
                    (1, COMMENT, "the first of the two numbers"), (2, COMMENT, "the second of the two numbers"))

    def test_a_trailing_comment_goes_on_below_it(self):
        self.expect("a.c", "int a; // the first of the two\n       // numbers in this file\n",
                    (1, COMMENT, "the first of the two numbers in this file"))

    def test_blocks(self):
        self.expect("a.cu", "/* The block comment\n * has two lines here.\n */\nint a;\n",
                    (1, COMMENT, "The block comment has two lines here."))

    def test_strings_have_no_comments(self):
        self.expect("a.cpp", 'auto a = "//a b c d e";\nauto b = R"x(/* a "comment" in a raw string */)x";\n'
                             "char c = '\"'; // The quote above begins no string.\n",
                    (2, MESSAGE, '/* a "comment" in a raw string */'),
                    (3, COMMENT, "The quote above begins no string."))

    def test_digit_separators_are_no_characters(self):
        self.expect("a.cpp", "int a = 1'000; // one thousand is the largest number\nint b = 2'000;\n",
                    (1, COMMENT, "one thousand is the largest number"))

    def test_adjacent_literals_are_joined(self):
        self.expect("a.cpp", 'f("the file could not "\n  "be opened: {}", name);\n',
                    (1, MESSAGE, "the file could not be opened: {}"))

    def test_columns_of_a_help_text_are_separated(self):
        self.expect("a.cpp", 'auto help = R"(\n  --all   prints the rows of all nodes\n  --one   prints the rows of one node)";\n',
                    (2, MESSAGE, "prints the rows of all nodes"), (3, MESSAGE, "prints the rows of one node"))

    def test_programs_in_literals_are_left_out(self):
        self.expect("a.cpp", 'auto a = "select a from b where c = d and e";\nauto b = "<p>a page of some words</p>";\n',
                    (1, MESSAGE, "select a from b where c = d and e"))

    def test_messages_of_tests_are_left_out(self):
        self.expect("a_test.cpp", 'f("the file could not be opened");\n')

    def test_code_and_licences_are_left_out(self):
        self.expect("a.cpp", "// SPDX-License-Identifier: a licence of some words\n"
                             "// for (int i = 0; i < n; ++i) f(i);\n"
                             "f(); // NOLINT(some-check): the reason has five words\n")

    def test_addresses_are_left_out(self):
        self.expect("a.cpp", "// See https://example.org/What for a page of words.\n",
                    (1, COMMENT, "See URL for a page of words."))

    def test_separators_of_hexadecimal_digits_are_no_characters(self):
        self.expect("a.cpp", "int a = 0xff'ff; // it's the largest of all numbers\n",
                    (1, COMMENT, "it's the largest of all numbers"))

    def test_prefixed_characters_are_characters(self):
        self.expect("a.cpp", "auto a = u8'\"'; // The quote above begins no string.\n",
                    (1, COMMENT, "The quote above begins no string."))

    def test_pages_of_doxygen_are_read(self):
        self.expect("a.dox", "/// The namespace has five words.\n", (1, COMMENT, "The namespace has five words."))

    def test_names_of_tests_with_types(self):
        self.expect("a_test.cpp", "TYPED_TEST(ring, is_empty_at_first) {}\n", (1, NAME, "Is empty at first [ring]"))

    def test_names_of_tests(self):
        self.expect("a_test.cpp", "TEST(ring, is_empty_at_first) {}\nTEST_F(ring, grows) {}\n"
                                  "TEST_P(rings,\n       wrap_at_their_end) {}\n",
                    (1, NAME, "Is empty at first [ring]"), (3, NAME, "Wrap at their end [rings]"))


class Python(Passages):
    def test_comments_docstrings_and_messages(self):
        self.expect("a.py", '"""Checks the files of a tree."""\n\n# A comment with five words.\n'
                            'raise ValueError(f"{name}: the file could not " "be read")\nx = "# no comment in a string"\n',
                    (3, COMMENT, "A comment with five words."),
                    (1, COMMENT, "Checks the files of a tree."),
                    (4, MESSAGE, "{}: the file could not be read"),
                    (5, MESSAGE, "# no comment in a string"))

    def test_names_of_tests(self):
        self.expect("a_test.py", "class A:\n    def test_a_file_is_read(self):\n        pass\n",
                    (2, NAME, "A file is read"))

    def test_a_program_of_another_version_is_skipped(self):
        self.expect("a.py", "print 'the words of this text are five'\n")


class OtherLanguages(Passages):
    def test_comments_of_cmake(self):
        self.expect("CMakeLists.txt", "set(a \"#no comment in a string here\")\n# A comment of\n# more than five words.\n"
                                      "#[[ The bracket comment has words, too. ]]\n",
                    (4, COMMENT, "The bracket comment has words, too."),
                    (2, COMMENT, "A comment of more than five words."))

    def test_names_of_ctest(self):
        self.expect("a.cmake", "add_test(NAME docs.links_lead_somewhere COMMAND a)\n",
                    (1, NAME, "Docs links lead somewhere"))

    def test_comments_and_help_of_shells(self):
        self.expect("run", "#!/usr/bin/env bash\n# Builds all programs of the tree.\necho \"${#a} # no comment of five words\"\n"
                           "cat <<'END'\nusage: run\n\n  The text has # more than five words.\nEND\n"
                           "python3 - <<END\n# a program in another language here\nEND\n",
                    (7, MESSAGE, "The text has # more than five words."),
                    (2, COMMENT, "Builds all programs of the tree."))

    def test_escaped_quotes_of_shells_end_no_string(self):
        self.expect("a.sh", "a=$'it\\'s'\n# Builds all programs of the tree.\necho 'a'\n",
                    (2, COMMENT, "Builds all programs of the tree."))

    def test_quotations_of_markdown_are_paragraphs(self):
        self.expect("a.md", "> The quotation has\n> two lines here.\n>\n> * The item has five words here.\n",
                    (1, TEXT, "The quotation has two lines here."), (4, TEXT, "The item has five words here."))

    def test_paragraphs_items_and_cells_of_markdown(self):
        self.expect("a.md", "# A heading of five or more words\n\nA paragraph with\na [link to](b.md) a page.\n"
                            "* The item has five words here.\n\n| short | The cell has `a | b` and words. |\n|---|---|\n\n"
                            "```sh\necho this is code of a shell\n```\n",
                    (7, TEXT, "The cell has `a | b` and words."),
                    (3, TEXT, "A paragraph with a link to a page."),
                    (5, TEXT, "The item has five words here."))

    def test_other_files_are_skipped(self):
        self.expect("a.svg", "<!-- A comment of more than five words. -->\n")

    def test_languages_are_told_by_name_or_first_line(self):
        self.assertEqual(language_of("a/headers.c.in", ""), "c")
        self.assertEqual(language_of("run", "#!/usr/bin/env python3\n"), "python")
        self.assertEqual(language_of("run", "#!/bin/sh\n"), "shell")
        self.assertIsNone(language_of("LICENSE", "text"))

    def test_tests_are_told_by_their_paths(self):
        self.assertTrue(is_test("farcall/am/engine_test.cpp"))
        self.assertTrue(is_test("tests/network/support.hpp"))
        self.assertFalse(is_test("tests/docs/check_language.py"))
        self.assertFalse(is_test("farcall/am/engine.cpp"))


if __name__ == "__main__":
    unittest.main()
