#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that check_language.py fails for each of its reasons, in temporary git repositories."""

import contextlib
import io
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock

import check_language
import language_baseline
from language_baseline import folder_of

CLEAN = "// The ring has exactly one owner.\n"
CLEAN_2 = "// The lane has exactly one owner.\n"
UNCLEAN = "// What a ring holds is read once.\n"
UNCLEAN_2 = "// Who holds a ring reads it once.\n"
WORDS = "docs/decisions/retired-words.txt"
RETIRED = "frob* | turn |\ngrue | night |\n"
ENVIRONMENT = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "a",
               "GIT_COMMITTER_EMAIL": "a@example.org", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


class InATree(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name) / "tree"
        self.write(WORDS, RETIRED)
        self.write("farcall/am/a.cpp", CLEAN + "int a;\n" + UNCLEAN + "int frob;\n")
        self.write("farcall/call/b.cpp", CLEAN_2 + "int b;\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def append(self, name, text):
        path = self.root / name
        path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")

    def run_check(self, *arguments):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            self.status = check_language.main(["--root", str(self.root), *arguments])
        return out.getvalue()

    def expect(self, status, *words, arguments=()):
        out = self.run_check(*arguments)
        self.assertEqual(self.status, status, out)
        for word in words:
            self.assertIn(word, out)
        return out


@unittest.skipIf(shutil.which("git") is None, "git is missing")
class InARepository(InATree):
    def setUp(self):
        super().setUp()
        self.git("init", "-q")
        self.commit("tests: add the files\n\nThe check needs files.")
        self.expect(0, arguments=["--update"])
        self.commit("tests: take the baseline\n\nThe rates are known now.")

    def git(self, *arguments):
        done = subprocess.run(["git", *arguments], cwd=self.root, env={**os.environ, **ENVIRONMENT}, text=True,
                              capture_output=True, check=True)
        return done.stdout

    def commit(self, message="tests: change a file\n\nThe test needs this."):
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD").strip()

    def baseline(self):
        return (self.root / language_baseline.FILE).read_text(encoding="utf-8")


class Rates(InARepository):
    def test_an_unchanged_tree_passes(self):
        self.expect(0, "0 problem(s)")

    def test_the_baseline_has_each_folder(self):
        self.assertIn("\nfarcall/am | 1 of 2 | frob* 1\nfarcall/call | 0 of 1 |\n", self.baseline())
        self.assertIn("\ntotal | 1 of 3 | frob* 1, grue 0\n", self.baseline())

    def test_a_rate_that_rises_is_found(self):
        self.write("farcall/am/a.cpp", UNCLEAN + "int frob;\n")
        self.expect(1, "farcall/am: 1 of 1 (100.0 %) passages are flagged, and the baseline has 1 of 2 (50.0 %)",
                    "total: ", "2 problem(s)")

    def test_a_retired_word_more_is_found(self):
        self.append("farcall/call/b.cpp", "int c;\nint frobs;\n")
        self.expect(1, "farcall/call: the retired word 'frob*' occurs 1 times", "write 'turn'", "farcall/call/b.cpp:4",
                    "total: the retired word", "2 problem(s)")

    def test_words_that_the_baseline_lacks_are_left_out(self):
        self.write(WORDS, RETIRED + "owner | holder |\n")
        self.expect(0)

    def test_rows_are_two_folders_deep(self):
        self.assertEqual([folder_of(p) for p in ("a.md", "docs/a.md", "farcall/am/x/a.cpp", "farcall/am/a_test.cpp",
                                                 "tests/network/a_test.cpp")],
                         [".", "docs", "farcall/am", "farcall/am tests", "tests/network"])


class NewPassages(InARepository):
    def test_a_new_passage_is_found(self):
        self.write("bench/c.cpp", CLEAN * 9 + "int c;\n" + UNCLEAN_2)
        out = self.expect(1, "bench/c.cpp:11: L1: Who holds a ring reads it once.: begin with the noun")
        self.assertNotIn("a.cpp", out)

    def test_a_file_that_git_does_not_know_is_read(self):
        self.write("farcall/am/new.cpp", CLEAN * 9 + "int c;\n" + UNCLEAN_2)
        self.expect(1, "farcall/am/new.cpp:11: L1")

    def test_moved_and_wrapped_passages_are_old(self):
        self.git("mv", "farcall/am/a.cpp", "bench.cpp")
        self.write("bench.cpp", CLEAN + "int a;\n// What a ring holds\n// is read once.\nint frob;\n")
        self.expect(0)

    def test_a_byte_order_mark_hides_no_passage(self):
        self.write("bench/c.py", "\ufeff# Who holds a ring reads it once.\n")
        self.expect(1, "bench/c.py:1: L1")

    def test_a_clean_passage_passes(self):
        self.append("farcall/call/b.cpp", "// The third comment has words, too.\n")
        self.expect(0)

    def test_new_names_and_messages_are_judged(self):
        self.write("bench/c.cpp", 'auto a = "The file is closed. Nobody reads it.";\n')
        self.write("bench/c_test.cpp", "TEST(rings, nobody_reads_them) {}\n")
        self.expect(1, "bench/c.cpp:1: L5", "bench/c_test.cpp:1: L5")


class Commits(InARepository):
    def expect_refused(self, message, *words):
        self.commit(message)
        self.expect(1, *words, "1 problem(s)")

    def test_a_subject_without_area_is_found(self):
        self.expect_refused("Change a file\n\nThe test needs this.", "has the form 'area: verb object'")

    def test_a_capital_behind_the_colon_is_found(self):
        self.expect_refused("tests: Change a file\n\nThe test needs this.", "a small letter")

    def test_a_long_subject_is_found(self):
        self.expect_refused("tests: change " + "a" * 59 + "\n\nThe test needs this.", "at most 72 characters")

    def test_a_full_stop_is_found(self):
        self.expect_refused("tests: change a file.\n\nThe test needs this.", "without a full stop")

    def test_a_headless_clause_is_found(self):
        self.expect_refused("tests: change what is read\n\nThe test needs this.", "in place of what or who")

    def test_a_commit_without_body_is_found(self):
        self.expect_refused("tests: change a file", "a commit has a body")

    def test_several_areas_and_merges_pass(self):
        self.git("checkout", "-q", "-b", "side")
        self.commit("farcall/am, tests: change a file\n\nThe test needs this.")
        self.git("checkout", "-q", "-")
        self.git("merge", "-q", "--no-ff", "-m", "Merge what is there.", "side")
        self.expect(0)


class MissingHistory(InARepository):
    REMARK = "new passages and commits were not checked"

    def shallow(self):
        self.commit()
        clone = self.root.parent / "clone"
        self.git("clone", "-q", "--depth", "1", self.root.as_uri(), str(clone))
        self.root = clone

    def test_a_shallow_clone_passes_with_a_remark(self):
        self.shallow()
        self.expect(0, self.REMARK)

    def test_rates_are_checked_in_a_shallow_clone(self):
        self.shallow()
        self.append("farcall/am/a.cpp", UNCLEAN_2)
        self.expect(1, self.REMARK, "farcall/am: 2 of 3")

    def test_a_tree_without_git_passes_with_a_remark(self):
        shutil.rmtree(self.root / ".git")
        self.write("build/c.cpp", UNCLEAN_2 * 9)
        self.expect(0, self.REMARK)
        self.append("farcall/call/b.cpp", "int grue;\n")
        self.expect(1, self.REMARK, "'grue'")

    def test_a_folder_of_another_checkout_has_no_history(self):
        outer = self.root.parent
        shutil.rmtree(self.root / ".git")
        subprocess.run(["git", "init", "-q"], cwd=outer, check=True)
        self.expect(0, self.REMARK)

    def test_the_remark_says_why_git_refuses(self):
        with unittest.mock.patch.dict(os.environ, {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1", "LC_ALL": "C"}):
            self.expect(0, self.REMARK, "dubious ownership")
        shutil.rmtree(self.root / ".git")
        self.assertNotIn("unshallow", self.expect(0, self.REMARK, "not a git repository"))

    def test_a_baseline_is_refused_in_a_shallow_clone(self):
        self.shallow()
        self.expect(1, "git fetch --unshallow", arguments=["--update"])


class Updates(InARepository):
    def test_better_rates_are_written(self):
        self.write("farcall/am/a.cpp", CLEAN + "int a;\n")
        number = self.commit()
        self.expect(0, arguments=["--update"])
        self.assertIn(f"\ncommit {number}\n", self.baseline())
        self.assertIn("\nfarcall/am | 0 of 1 |\n", self.baseline())

    def test_moved_files_may_raise_the_rate_of_a_folder(self):
        self.git("mv", "farcall/am/a.cpp", "farcall/call/a.cpp")
        self.commit()
        self.expect(1, "farcall/call: 1 of 3")
        self.expect(0, arguments=["--update"])
        self.assertIn("\nfarcall/call | 1 of 3 | frob* 1\n", self.baseline())

    def expect_refused(self, *words):
        before = self.baseline()
        self.expect(1, *words, arguments=["--update"])
        self.assertEqual(self.baseline(), before)

    def test_uncommitted_changes_are_refused(self):
        self.append("farcall/call/b.cpp", CLEAN)
        self.expect_refused("commit or stash")

    def test_new_findings_are_refused(self):
        self.append("farcall/call/b.cpp", CLEAN.join("int x;\n" * 9) + UNCLEAN_2)
        self.commit()
        self.expect_refused("farcall/call/b.cpp", "L1")

    def test_a_higher_total_rate_is_refused(self):
        self.write("farcall/call/b.cpp", "int b;\n")
        self.commit()
        self.expect_refused("the total rate would rise from 1 of 3 (33.3 %) to 1 of 2 (50.0 %)")

    def test_a_retired_word_more_is_refused(self):
        self.append("farcall/call/b.cpp", "int grue;\n")
        self.commit()
        self.expect_refused("'grue' would rise from 0 to 1")

    def test_malformed_commits_are_refused(self):
        self.commit("Change a file\n\nThe test needs this.")
        self.expect_refused("has the form 'area: verb object'")

    def test_another_commit_than_the_last_is_refused(self):
        self.commit()
        self.commit()
        before = self.baseline()
        self.expect(1, "is taken at HEAD", arguments=["--update", "HEAD~1"])
        self.assertEqual(self.baseline(), before)

    def test_new_words_are_taken_in_at_the_same_commit(self):
        self.write(WORDS, RETIRED + "owner | holder |\n")
        self.commit()
        number = self.git("rev-parse", "HEAD~2").strip()
        self.expect(0, arguments=["--update", number])
        self.assertIn(f"\ncommit {number}\n", self.baseline())
        self.assertIn("owner 2", self.baseline())


class Listings(InARepository):
    def test_findings_of_a_path_are_listed(self):
        self.expect(1, "farcall/am/a.cpp:3: L1: What a ring holds is read once.", "1 problem(s)",
                    arguments=[str(self.root / "farcall/am")])
        self.expect(0, "0 problem(s)", arguments=[str(self.root / "farcall/call/b.cpp")])

    def test_a_path_that_does_not_exist_is_refused(self):
        self.expect(2, "no file of this name", arguments=[str(self.root / "gone.cpp")])
        self.expect(2, "is outside", arguments=["/gone.cpp"])

    def test_findings_since_a_commit_are_listed(self):
        first = self.git("rev-parse", "HEAD").strip()
        self.append("farcall/call/b.cpp", UNCLEAN_2)
        self.commit("Change a file")
        out = self.expect(1, "farcall/call/b.cpp:3: L1", "'area: verb object'", "has a body", arguments=["--since", first])
        self.assertNotIn("a.cpp", out)

    def test_an_unknown_commit_is_refused(self):
        self.expect(2, "git", arguments=["--since", "gone"])

    def test_empty_commits_are_refused(self):
        self.expect(2, "git", arguments=["--since", ""])
        self.expect(2, "git", arguments=["--update", ""])

    def test_two_questions_at_once_are_refused(self):
        before = self.baseline()
        for words in (["farcall/am", "--update"], ["--rates", "--since", "HEAD"], ["--since", "HEAD", "--update"]):
            with self.assertRaises(SystemExit) as refusal:
                self.run_check(*words)
            self.assertEqual(refusal.exception.code, 2)
        self.assertEqual(self.baseline(), before)

    def test_files_that_git_has_lost_are_an_error(self):
        first = self.git("rev-parse", "HEAD").strip()
        number = self.git("rev-parse", "HEAD:farcall/am/a.cpp").strip()
        self.write("farcall/call/b.cpp", UNCLEAN_2)
        (self.root / "farcall/am/a.cpp").unlink()
        (self.root / ".git/objects" / number[:2] / number[2:]).unlink()
        self.expect(2, "farcall/am/a.cpp: git cannot read this file", arguments=["--since", first])

    def test_rates_begin_with_the_worst_folder(self):
        lines = self.expect(0, arguments=["--rates"]).splitlines()
        self.assertRegex(lines[0], r"50\.0 %  baseline  50\.0 %      1 of     2 +1 retired words  farcall/am$")
        self.assertRegex(lines[-1], "total$")


class MalformedFiles(InARepository):
    def test_a_missing_baseline_is_an_error(self):
        (self.root / language_baseline.FILE).unlink()
        self.expect(2, "the baseline is missing")

    def test_a_malformed_baseline_is_an_error(self):
        self.append(language_baseline.FILE, "farcall/am | many |\n")
        self.expect(2, "has not the form")

    def test_a_missing_list_of_words_is_an_error(self):
        (self.root / WORDS).unlink()
        self.expect(2, "the list of retired words is missing")


class ThisTree(unittest.TestCase):
    def test_decision_11_names_the_list_of_words(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        self.assertIn(pathlib.Path(WORDS).name, (root / "docs/decisions/0011-words.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
