#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests check_comments.py, check_markdown.py and check_glossary.py: each test breaks one rule, which must be found."""

import pathlib
import shutil
import tempfile
import unittest

import check_comments
import check_glossary
import check_markdown
from header_reader import declarations

HEADER = """\
#pragma once

#include <farcall/offload/inner.hpp>

namespace farcall {

/// A number. Any thread may use it.
class number {
 public:
  number() noexcept = default;
  /// Its value.
  [[nodiscard]] int value() const noexcept { return value_; }
  /// Sets it. Throws error for a negative one.
  template <class T>
    requires(sizeof(T) == 4)
  void set(T value);

 private:
  void check();
  int value_{0};
};

template <class T>
  requires(sizeof(T) == 4)
void number::set(T value) {
  value_ = value;
}

/// What it is for.
enum class use { one, two };

/// True for a number. Never fails.
template <auto F, class... A>
[[nodiscard]] bool is_number(A&&... a);
[[nodiscard]] bool is_number();

namespace detail {
struct hidden {};
void hide();
} // namespace detail
} // namespace farcall
"""


class InATree(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def expect_one(self, problems, *words):
        problems = list(problems)
        self.assertEqual(len(problems), 1, problems)
        for word in words:
            self.assertIn(word, problems[0])


class Comments(InATree):
    def setUp(self):
        super().setUp()
        self.write("farcall/farcall.hpp", "#pragma once\n#include <farcall/offload/number.hpp>\n")
        self.write("farcall/offload/number.hpp", HEADER)
        self.write("farcall/offload/inner.hpp", "namespace farcall {\n/// Inner.\nstruct inner {};\n}\n")
        self.write("docs/reference/interface.txt",
                   "# comment\nfarcall/farcall.hpp\nfarcall/offload/number.hpp\n")

    def problems(self):
        return list(check_comments.check(self.root))

    def change(self, old, new):
        self.assertIn(old, HEADER)
        self.write("farcall/offload/number.hpp", HEADER.replace(old, new, 1))

    def test_a_commented_header_passes(self):
        self.assertEqual(self.problems(), [])

    def test_all_of_it_was_read(self):
        names = [d.name.removeprefix("farcall::") for d in declarations(HEADER)]
        self.assertEqual(names, ["number", "number::number", "number::value", "number::set", "use",
                                 "is_number", "is_number"])

    def test_functions_that_return_a_struct_are_read(self):
        self.change("/// What it is for.\n",
                    "/// Returns a number. Never fails.\n"
                    "inline struct number one() { return {}; }\n"
                    "/// Returns a number. Never fails.\n"
                    "struct number& two(int value) { return {}; }\n"
                    "/// What it is for.\n")
        text = (self.root / "farcall/offload/number.hpp").read_text(encoding="utf-8")
        found = [(d.kind, d.name) for d in declarations(text)]
        self.assertIn(("function", "farcall::one"), found)
        self.assertIn(("function", "farcall::two"), found)
        self.assertEqual(self.problems(), [])

    def test_a_class_without_comment_is_found(self):
        self.change("/// A number. Any thread may use it.\n", "")
        self.expect_one(self.problems(), "number.hpp:7: class farcall::number has no")

    def test_an_enum_without_comment_is_found(self):
        self.change("/// What it is for.\n", "")
        self.expect_one(self.problems(), "enum farcall::use has no")

    def test_a_function_without_comment_is_found(self):
        self.change("/// True for a number. Never fails.\n", "")
        self.assertEqual(len(self.problems()), 2)

    def test_a_member_without_comment_is_found(self):
        self.change("  /// Its value.\n", "")
        self.expect_one(self.problems(), "farcall::number::value has no")

    def test_an_ordinary_comment_is_none(self):
        self.change("  /// Its value.\n", "  // Its value.\n")
        self.expect_one(self.problems(), "farcall::number::value has no")

    def test_a_trailing_comment_counts(self):
        self.change("/// What it is for.\nenum class use { one, two };",
                    "enum class use { one, two }; ///< What it is for.")
        self.assertEqual(self.problems(), [])

    def test_an_operation_that_names_no_errors_is_found(self):
        self.change("Sets it. Throws error for a negative one.", "Sets it.")
        self.expect_one(self.problems(), "farcall::number::set can throw")

    def test_a_class_that_states_no_thread_rule_is_found(self):
        self.change(" Any thread may use it.", "")
        self.expect_one(self.problems(), "does not say which threads may use it")

    def test_headers_that_are_only_included_need_comments_too(self):
        self.write("farcall/offload/inner.hpp", "namespace farcall {\nstruct inner {};\n}\n")
        self.expect_one(self.problems(), "inner.hpp:2: class farcall::inner has no")

    def test_a_header_that_the_list_lacks_is_found(self):
        self.write("docs/reference/interface.txt", "farcall/farcall.hpp\n")
        self.expect_one(self.problems(), "farcall/offload/number.hpp is missing")

    def test_a_header_that_does_not_exist_is_found(self):
        self.write("docs/reference/interface.txt",
                   "farcall/farcall.hpp\nfarcall/offload/number.hpp\nfarcall/gone.hpp\n")
        self.expect_one(self.problems(), "there is no farcall/gone.hpp")


class Markdown(InATree):
    def links(self, text):
        self.write("docs/there.md", "# A title: with `code`\n")
        self.write("docs/page.md", text)
        return list(check_markdown.check_links(self.root))

    def test_links_that_lead_somewhere_pass(self):
        self.assertEqual(self.links("[a](there.md) [b](there.md#a-title-with-code) [c](../docs)\n"
                                    "[d](https://example.org/none)\n"), [])

    def test_a_link_to_nothing_is_found(self):
        self.expect_one(self.links("text\n[a](gone.md)\n"), "docs/page.md:2", "gone.md")

    def test_a_link_to_no_heading_is_found(self):
        self.expect_one(self.links("[a](there.md#gone)\n"), "no heading for #gone")

    def test_code_has_no_links(self):
        self.assertEqual(self.links("`a[i](x)`\n```cpp\n[](int x) { return x; }\n[a](gone.md)\n```\n"), [])

    @unittest.skipIf(shutil.which("c++") is None, "no compiler")
    def test_a_block_that_does_not_compile_is_found(self):
        self.write("README.md", "# A\n\n```cpp\nint f();\n```\n\n```sh\nrm\n```\n\n```cpp\nint g() { return h(); }\n```\n")
        self.expect_one(check_markdown.check_programs(self.root, ["c++", "-std=c++20"]),
                        "README.md does not compile", "README.md:12:", "h")

    @unittest.skipIf(shutil.which("c++") is None, "no compiler")
    def test_a_block_of_c_is_compiled_as_c(self):
        self.write("README.md", "```c\nint* f(void* p) { return p; }\n```\n")
        self.assertEqual(list(check_markdown.check_programs(self.root, ["c++", "-std=c++20"])), [])
        self.write("README.md", "```c\nint g(void) { return class; }\n```\n")
        self.expect_one(check_markdown.check_programs(self.root, ["c++", "-std=c++20"]),
                        "README.md:2:", "class")

    @unittest.skipIf(shutil.which("c++") is None, "no compiler")
    def test_a_block_that_is_a_file_is_left_out(self):
        self.write("README.md", "```cpp\n// a.cpp\nint f() {}\n```\n```cpp\nint f();\n```\n```cpp\n// b.cpp\nlong f();\n```\n")
        self.assertEqual(list(check_markdown.check_programs(self.root, ["c++", "-std=c++20"])), [])

    def order(self, **ends):
        for name, end in ends.items():
            self.write(f"docs/guide/{name}.md", f"# Title of {name}\n\n{end}\n")
        return list(check_markdown.check_order(self.root))

    def test_a_guide_in_order_passes(self):
        self.assertEqual(self.order(a="Next: [Title of c](c.md)", b="The end.", c="Next: [Title of b](b.md)"), [])

    def test_a_page_that_readers_do_not_reach_is_found(self):
        self.expect_one(self.order(a="Next: [Title of b](b.md)", b="The end.", c="Next: [Title of b](b.md)"),
                        "docs/guide/c.md", "no page before it")

    def test_a_next_page_that_comes_earlier_is_found(self):
        self.expect_one(self.order(a="Next: [Title of b](b.md)", b="Next: [Title of a](a.md)"), "docs/guide/b.md", "a.md")

    def test_another_title_of_the_next_page_is_found(self):
        self.expect_one(self.order(a="Next: [Other](b.md)", b="The end."), "docs/guide/a.md", "'Other'")

    @unittest.skipIf(shutil.which("c++") is None, "no compiler")
    def test_blocks_whose_optional_header_is_missing_are_left_out(self):
        self.write("README.md", "```cpp\nint f();\n```\n```cpp\n#include <cuda_runtime_api.h>\nint g();\n```\n")
        self.assertEqual(list(check_markdown.check_programs(self.root, ["c++", "-std=c++20"])), [])


class Glossary(InATree):
    def setUp(self):
        super().setUp()
        self.write("docs/glossary.md", "| term | meaning | elsewhere |\n|---|---|---|\n| lane, ring | A. | |\n"
                                       "| transport | One of `shm` and `tcp`. | |\n")
        self.write("docs/architecture.md", "| 0 | `farcall/base/` | B. |\n| 1 | `farcall/job/` | J. |\n"
                                           "| `shm` | `farcall/transport/shm/` | 10 |\n"
                                           "| `tcp` | `farcall/transport/tcp/` | 100 |\n")
        for scheme in ("shm", "tcp"):
            self.write(f"farcall/transport/{scheme}/{scheme}.cpp", "")

    def problems(self, text=""):
        self.write("docs/page.md", text)
        return list(check_glossary.check(self.root))

    def append(self, page, text):
        self.write(page, (self.root / page).read_text(encoding="utf-8") + text)

    def test_pages_that_agree_pass(self):
        self.assertEqual(self.problems("Two layers. One layer. The transports `shm` and `tcp`; the `pipe` transport.\n"),
                         [])

    def test_a_term_with_two_entries_is_found(self):
        self.append("docs/glossary.md", "\n| term | meaning | elsewhere |\n|---|---|---|\n| slot, Ring | B. | |\n")
        self.expect_one(self.problems(), "docs/glossary.md:8: ring has an entry in line 3")

    def test_a_transport_that_the_glossary_lacks_is_found(self):
        self.append("docs/architecture.md", "| `ucx` | `farcall/transport/ucx/` | 50 |\n")
        self.write("farcall/transport/ucx/ucx.cpp", "")
        self.expect_one(self.problems(), "docs/glossary.md:4: lists shm, tcp;", "has shm, tcp, ucx")

    def test_a_transport_without_a_row_is_found(self):
        self.write("farcall/transport/ucx/ucx.cpp", "")
        self.expect_one(self.problems(), "lacks farcall/transport/ucx/")

    def test_a_transport_without_a_folder_is_found(self):
        (self.root / "farcall/transport/tcp/tcp.cpp").unlink()
        (self.root / "farcall/transport/tcp").rmdir()
        self.expect_one(self.problems(), "transport tcp is farcall/transport/tcp/")

    def test_an_unknown_transport_in_prose_is_found(self):
        self.expect_one(self.problems("text\nThe transport `veo` copies.\n"), "docs/page.md:2", "veo")

    def test_a_wrong_number_of_layers_is_found(self):
        self.expect_one(self.problems("It has three layers.\n"), "docs/page.md:1: three layers", "has 2")

    def test_records_may_have_other_numbers(self):
        self.write("docs/decisions/0001-a.md", "It had 3 layers.\n")
        self.assertEqual(self.problems(), [])


if __name__ == "__main__":
    unittest.main()
