#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that each rule of language_rules.py finds wrong sentences, and accepts the corrected ones."""

import unittest

from language_rules import RULES, count_words, judge, lines_with, normalised, retired_words
from passages import COMMENT, MESSAGE, NAME, Passage

# A rule, sentences that break it and no other, and sentences that are right.
EXAMPLES = (
    ("L1", ("What a node prints is logged.", "“Who calls waits.”", "The lane ends. Whoever waits is woken.", "Returns: What it is made of."),
     ("What does a call cost?", "Returns what() of the error.", "The output of a node is logged.")),
    ("L2", ("It has one owner.", "The same for a whole block.", "One that waits is woken.", "Both are closed then.",
            "Those wait for the lock."),
     ("The ring has one owner. It is closed last.", "Both threads wait.", "One of the threads waits.", "Those rings wait.")),
    ("L3", ("Wakes whoever sleeps on it.", "The table says who has the lock."),
     ("A caller who waits is woken.", "Wakes the thread that sleeps on it.")),
    ("L4", ("Where a node has gone, calls fail.",), ("If a node has gone, calls fail.", "Where does it go?")),
    ("L5", ("Nobody waits for the lock.", "The call ends. Nothing was sent.", "No thread waits for the lock.",
            "Not for several threads at once."),
     ("The lock is free.", "Not all nodes have ended.", "No longer used.", "Not copyable.")),
    ("L6", ("The counter is that of the lane.", "Calls of those that wait.", "Takes the one that is free."),
     ("The counter is the lane's.", "That of course is known.", "Equal to that of a call.")),
    ("L7", ("Of a lane, the first call.", "So are the other calls.", "As before a fork."),
     ("The first call of a lane.", "Of course the lane ends.", "So the lane ends.")),
    ("L8", ("A thread of the user's is woken.", "The memory is one of the peer's."), ("The user's thread is woken.",
                                                                                     "A copy of the user's data.")),
    ("L9", ("The name stands in the header.", "The record bears a number.", "Sees to the lock."),
     ("The record has a number.", "The process stands in for a GPU.", "The result lies in the interval.")),
    ("L10", ("The size; -1: unknown.", "null: the lane is closed"), ("Returns -1 if the size is unknown.",)),
    ("L11", ("All lanes but for the last are open.", "Reads nothing but the header.", "The order is as MPI has it."),
     ("All lanes except the last are open.", "Made not for speed but for safety.")),
)


class EachRule(unittest.TestCase):
    def names(self, text, kind=COMMENT):
        return [r.name for r, _ in judge(Passage(1, kind, text))]

    def test_all_rules_have_examples(self):
        self.assertEqual([r.name for r in RULES], [name for name, _, _ in EXAMPLES])

    def test_a_sentence_that_breaks_a_rule_is_found(self):
        for name, wrong, _ in EXAMPLES:
            for text in wrong:
                with self.subTest(text):
                    self.assertIn(name, self.names(text))

    def test_a_correct_sentence_is_accepted(self):
        for _, _, right in EXAMPLES:
            for text in right:
                with self.subTest(text):
                    self.assertEqual(self.names(text), [])

    def test_fragments_may_begin_with_any_word(self):
        self.assertEqual(self.names("nobody serves this port: start a server there", MESSAGE), [])

    def test_code_in_a_sentence_is_skipped(self):
        self.assertEqual(self.names("The option `those that wait; none: off` is read."), [])

    def test_values_of_options_may_be_listed_in_messages(self):
        self.assertEqual(self.names("limit of calls; 0: unlimited", MESSAGE), [])

    def test_a_long_name_of_a_test_is_found(self):
        name = "A b c d e f g h i j [suite]"
        self.assertEqual(self.names(name, NAME), ["L12"])
        self.assertEqual(self.names(name, COMMENT), [])
        self.assertEqual(self.names("A b c d e f g h i [suite]", NAME), [])

    def test_advice_names_the_sentence(self):
        (found, sentence), = judge(Passage(1, COMMENT, "The lane ends. Nobody waits for it."))
        self.assertEqual(sentence, "Nobody waits for it.")
        self.assertIn("say what is", found.advice)


class Normalisation(unittest.TestCase):
    def same(self, one, other):
        return normalised(Passage(1, COMMENT, one)) == normalised(Passage(9, COMMENT, other))

    def test_line_breaks_and_identifiers_are_no_difference(self):
        self.assertTrue(self.same("Who calls\n`f` or a::b waits.", "Who calls `g` or a_b waits."))

    def test_other_words_are_a_difference(self):
        self.assertFalse(self.same("Who calls waits.", "Who polls waits."))


WORDS = """\
# comment
frob* | turn |
last gasp | exit reason | "last gasp of air", vendor/*
port | thread lanes | "TCP port"
"""


class RetiredWords(unittest.TestCase):
    def count(self, text, path="a.cpp"):
        return dict(count_words(path, text, retired_words(WORDS)))

    def test_inflections_and_identifiers_are_counted(self):
        self.assertEqual(self.count("frob frobs is_frobed doFrob FrobTable frobnicate"), {"frob*": 5})

    def test_phrases_are_counted(self):
        self.assertEqual(self.count("the last gasp, last_gasp and the last\n gasp"), {"last gasp": 3})

    def test_words_may_stay_in_phrases(self):
        self.assertEqual(self.count("the TCP port, tcp_port, a port; the last gasp of air"), {"port": 1})

    def test_words_may_stay_in_paths(self):
        self.assertEqual(self.count("last gasp", "vendor/a/b.cpp"), {})

    def test_the_decision_explains_the_words(self):
        self.assertEqual(self.count("frob", "docs/decisions/0011-words.md"), {})

    def test_lines_are_found(self):
        word = retired_words(WORDS)[0]
        self.assertEqual(list(lines_with("a\nfrobs\n\nis_frob\n", word)), [2, 4])

    def test_a_malformed_line_is_refused(self):
        for line in ("frob | turn", "| turn |", "frob | |"):
            with self.assertRaisesRegex(ValueError, "the form"):
                retired_words(line)


if __name__ == "__main__":
    unittest.main()
