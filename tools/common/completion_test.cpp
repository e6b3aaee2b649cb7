// SPDX-License-Identifier: Apache-2.0
#include "completion.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

using testing::HasSubstr;
using testing::Not;

/// The rows of this program are checked here; documents_test.py lets the shells read the scripts.
class completion : public testing::Test {
 protected:
  completion() {
    command run{.name = "run", .text = "Start the user's program: now"};
    run.options = {
        {.name = "-n,--number", .value = &text_, .takes = "N", .text = "Number [of nodes]: all"},
        {.name = "--way", .value = &text_, .text = "Way; one", .choices = {"a", "b"}},
        {.name = "--file", .value = &text_, .takes = "FILE", .text = "File"},
        {.name = "--gdb", .value = &text_, .takes = "NODE", .text = "Node", .otherwise = "0"},
        {.name = "--add", .value = &list_, .text = "Added"},
        {.name = "--secret", .value = &flag_, .text = "Secret", .is_internal = true}};
    run.takes_rest = command::rest::after_options;
    program_ = {.name = "farcall", .text = "Call", .commands = {run}};
  }

  std::string rows(shell s) { return completion_rows({&program_}, s); }

  std::string text_;
  std::vector<std::string> list_;
  bool flag_ = false;
  command program_;
};

TEST_F(completion, bash_rows_have_words_and_kinds_of_values) {
  EXPECT_EQ(rows(shell::bash), R"(    'farcall')
      commands='run'
      options=''
      ;;
    'farcall run')
      commands=''
      options='-n --number --way --file --gdb --add'
      valued=' -n --number --way --file --add '
      program=yes
      ;;
    'farcall run --way') values='a b' ;;
    'farcall run --file') values='FILE' ;;
)");
}

TEST_F(completion, zsh_rows_are_specifications) {
  const std::string all = rows(shell::zsh);
  EXPECT_THAT(all, HasSubstr(R"('run:Start the user'\''s program')"));
  EXPECT_THAT(all, HasSubstr(R"('(-n --number)-n+[Number \[of nodes\]]:N: ')"));
  EXPECT_THAT(all, HasSubstr(R"('(-n --number)--number=[Number \[of nodes\]]:N: ')"));
  EXPECT_THAT(all, HasSubstr(R"('(--way)--way=[Way; one]:WORD:(a b)')"));
  EXPECT_THAT(all, HasSubstr(R"('(--gdb)--gdb=-[Node]::NODE: ')"));
  EXPECT_THAT(all, HasSubstr(R"('*--add=[Added]:TEXT: ')"));
  EXPECT_THAT(all, Not(HasSubstr("secret")));
}

TEST_F(completion, fish_rows_are_commands) {
  const std::string all = rows(shell::fish);
  EXPECT_THAT(all,
              HasSubstr(R"(-n "__farcall_at 'farcall'" -a run -d 'Start the user\'s program')"));
  EXPECT_THAT(all, HasSubstr(R"(-n "__farcall_at 'farcall run'" -s n -l number -x -d)"));
  EXPECT_THAT(all, HasSubstr(R"(-l way -xa 'a b' -d 'Way; one')"));
  EXPECT_THAT(all, HasSubstr(R"(-l file -rF -d 'File')"));
  EXPECT_THAT(all, HasSubstr(R"(-l gdb -d 'Node')"));
  EXPECT_THAT(all, HasSubstr("set -ga __farcall_valued 'farcall run --way'\n"));
  EXPECT_THAT(all, Not(HasSubstr("secret")));
}

TEST_F(completion, scripts_contain_the_rows_and_the_name) {
  for (const shell s : {shell::bash, shell::zsh, shell::fish}) {
    const std::string script = completion_script("farcall", s, "ROWS\n");
    EXPECT_THAT(script, HasSubstr("ROWS\n"));
    EXPECT_THAT(script, HasSubstr("ompletion of farcall in "));
    EXPECT_THAT(script, Not(HasSubstr("@program@")));
  }
}

} // namespace
} // namespace farcall::tool
