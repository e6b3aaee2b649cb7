// SPDX-License-Identifier: Apache-2.0
#include "command_line.hpp"
#include "outcome.hpp"

#include <farcall/base/error.hpp>

#include <cstdio>
#include <stdexcept>
#include <system_error>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

namespace farcall::tool {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// A program with two commands that record their options.
class command_line : public testing::Test {
 protected:
  int run(std::vector<const char*> words) {
    words.insert(words.begin(), "program");
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int status =
        run_command_line(program(), "1.2", static_cast<int>(words.size()), words.data());
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    return status;
  }

  command program() {
    const auto act = [this](const std::vector<std::string>& rest) {
      rest_ = rest;
      return acts_ ? acts_() : 7;
    };
    command measure{.name = "measure", .text = "Measures"};
    measure.options = {
        {.name = "--count",
         .value = &count_,
         .text = "How many",
         .range = {{20, 100}},
         .shows_default = true},
        {.name = "--bytes", .value = &bytes_, .text = "How large", .is_size = true},
        {.name = "--over", .value = &over_, .text = "What", .choices = {"shm", "tcp"}},
        {.name = "--to", .value = &to_, .text = "Where", .excludes = "--over"},
        {.name = "--quick", .value = &quick_, .text = "Soon"},
    };
    measure.run = act;
    command start{.name = "start", .text = "Starts"};
    start.options = {{.name = "-n", .value = &processes_, .text = "How many"},
                     {.name = "--watch", .value = &watch_, .text = "Which", .otherwise = "all"}};
    start.takes_rest = command::rest::after_options;
    start.run = act;
    command pass{.name = "pass", .text = "Passes all on"};
    pass.takes_rest = command::rest::everything;
    pass.run = act;
    command make{.name = "make", .text = "Makes"};
    make.options = {{.name = "FILE", .value = &to_, .text = "Which", .is_required = true}};
    make.run = act;
    command hidden{.name = "hidden", .text = "Does internal work", .is_internal = true};
    hidden.run = act;
    return {.name = "the program",
            .text = "A program",
            .footer = "That is all.",
            .commands = {measure, start, pass, make, hidden}};
  }

  std::size_t count_ = 20;
  std::size_t bytes_ = 0;
  std::string over_ = "shm";
  std::string to_;
  bool quick_ = false;
  std::optional<std::size_t> processes_;
  std::string watch_;
  std::vector<std::string> rest_;
  std::function<int()> acts_;
  std::string out_;
  std::string err_;
};

TEST_F(command_line, options_of_each_kind_are_set) {
  EXPECT_EQ(run({"measure", "--count", "30", "--bytes", "2MiB", "--over", "tcp", "--quick"}), 7);
  EXPECT_EQ(count_, 30U);
  EXPECT_EQ(bytes_, std::size_t{2} << 20);
  EXPECT_EQ(over_, "tcp");
  EXPECT_TRUE(quick_);
  EXPECT_THAT(err_, IsEmpty());
}

TEST_F(command_line, missing_options_keep_their_values) {
  EXPECT_EQ(run({"measure"}), 7);
  EXPECT_EQ(count_, 20U);
  EXPECT_FALSE(processes_.has_value());
}

TEST_F(command_line, a_wrong_option_is_a_usage_problem) {
  acts_ = [] {
    ADD_FAILURE() << "it ran";
    return 0;
  };
  EXPECT_EQ(run({"measure", "--count", "19"}), 2);
  EXPECT_EQ(err_,
            "the program measure: --count: it needs a whole number from 20 to 100, not \"19\"\n");
  EXPECT_EQ(run({"measure", "--over", "sea"}), 2);
  EXPECT_EQ(err_, "the program measure: --over: it needs shm or tcp, not \"sea\"\n");
  EXPECT_EQ(run({"measure", "--bytes", "2XB"}), 2);
  EXPECT_EQ(err_, "the program measure: --bytes: it needs a size such as 64MiB, not \"2XB\"\n");
  EXPECT_EQ(run({"measure", "--over", "tcp", "--to", "there"}), 2);
  // The order of the two options is not specified.
  EXPECT_THAT(err_, AnyOf(HasSubstr(": --to and --over exclude each other; give one of them\n"),
                          HasSubstr(": --over and --to exclude each other; give one of them\n")));
  EXPECT_EQ(run({"measure", "--to", ""}), 2);
  EXPECT_THAT(err_, AllOf(HasSubstr("--to"), HasSubstr("needs a value")));
  EXPECT_EQ(run({"measure", "--to"}), 2);
  EXPECT_EQ(err_, "the program measure: --to: it needs a value\n");
  EXPECT_EQ(run({"measure", "--quick", "--to=", "--count", "30"}), 2);
  EXPECT_EQ(err_, "the program measure: --to: it needs a value\n");
  EXPECT_EQ(run({"make", ""}), 2);
  for (const char* const word : {"-1", "x", "3x", "", "99999999999999999999"}) {
    EXPECT_EQ(run({"start", "-n", word}), 2);
    EXPECT_THAT(err_, AllOf(HasSubstr("-n"), HasSubstr("needs a whole number from 0 on"))) << word;
  }
  EXPECT_EQ(run({"measure", "--quik"}), 2);
  EXPECT_EQ(err_, "the program measure: there is no option --quik; did you mean --quick?; 'the "
                  "program help measure' lists the options\n");
  EXPECT_EQ(run({"measure", "--nonsense=3"}), 2);
  EXPECT_THAT(err_, AllOf(HasSubstr("no option --nonsense; 'the"), Not(HasSubstr("mean"))));
  EXPECT_EQ(run({"measure", "more"}), 2);
  EXPECT_THAT(err_, HasSubstr("\"more\" is one argument too many; "));
  EXPECT_EQ(run({"measure", "--quick=3x"}), 2);
  EXPECT_EQ(err_, "the program measure: --quick: it takes no value\n");
  EXPECT_EQ(run({"measure", "--to", "a", "--to", "b"}), 2);
  EXPECT_EQ(err_, "the program measure: --to is given twice; give it once\n");
  EXPECT_EQ(run({"make"}), 2);
  EXPECT_EQ(err_, "the program make: FILE is missing; usage: the program make [OPTIONS] FILE\n");
  EXPECT_EQ(run({}), 2);
  EXPECT_EQ(err_, "the program: no command given; 'the program help' lists the commands\n");
}

TEST_F(command_line, an_unknown_command_is_named) {
  EXPECT_EQ(run({"measur"}), 2);
  EXPECT_EQ(err_,
            "the program: there is no command \"measur\"; did you mean measure?; 'the program "
            "help' lists the commands\n");
  EXPECT_EQ(run({"help", "measur"}), 2);
  EXPECT_EQ(err_,
            "the program help: there is no command \"the program measur\"; 'the program help' "
            "lists the commands\n");
}

TEST_F(command_line, control_characters_of_words_are_not_printed) {
  EXPECT_EQ(run({"\x1b[31mred"}), 2);
  EXPECT_THAT(err_, AllOf(HasSubstr("[31mred"), Not(HasSubstr("\x1b"))));
}

TEST_F(command_line, words_of_another_program_are_left_alone) {
  EXPECT_EQ(run({"start", "-n", "3", "./app", "-n", "5", "--help"}), 7);
  EXPECT_EQ(processes_, 3U);
  EXPECT_THAT(rest_, ElementsAre("./app", "-n", "5", "--help"));
}

TEST_F(command_line, two_dashes_end_the_options_of_the_command) {
  EXPECT_EQ(run({"start", "-n", "3", "--", "-n", "4"}), 7);
  EXPECT_EQ(processes_, 3);
  EXPECT_THAT(rest_, ElementsAre("-n", "4"));
  EXPECT_EQ(run({"start", "--"}), 7);
  EXPECT_THAT(rest_, IsEmpty());
}

TEST_F(command_line, options_of_another_program_may_lack_values) {
  EXPECT_EQ(run({"start", "-n", "3", "./app", "-n=", "--to="}), 7);
  EXPECT_THAT(rest_, ElementsAre("./app", "-n=", "--to="));
  EXPECT_EQ(run({"start", "--", "app", "-n="}), 7);
  EXPECT_EQ(run({"pass", "--count="}), 7);
}

TEST_F(command_line, two_dashes_behind_another_program_are_its_own) {
  EXPECT_EQ(run({"start", "app", "--", "-n"}), 7);
  EXPECT_THAT(rest_, ElementsAre("app", "--", "-n"));
  EXPECT_EQ(run({"pass", "--", "-n"}), 7);
  EXPECT_THAT(rest_, ElementsAre("--", "-n"));
}

TEST_F(command_line, everything_means_options_and_help_too) {
  EXPECT_EQ(run({"pass", "--help", "x", "--count=3", "-q", "--version"}), 7);
  EXPECT_THAT(rest_, ElementsAre("--help", "x", "--count=3", "-q", "--version"));
  EXPECT_EQ(run({"pass"}), 7);
  EXPECT_THAT(rest_, IsEmpty());
}

TEST_F(command_line, help_that_cannot_be_written_is_a_failure) {
  for (const char* const word : {"--help", "--version"}) {
    const char* const words[] = {"program", word};
    std::fflush(stdout);
    const int before = ::dup(STDOUT_FILENO);
    const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
    ASSERT_NE(full, -1);
    ::dup2(full, STDOUT_FILENO);
    testing::internal::CaptureStderr();
    EXPECT_EQ(run_command_line(program(), "1.2", 2, words), 1) << word;
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("standard output"));
    ::dup2(before, STDOUT_FILENO);
    std::clearerr(stdout);
    ::close(full);
    ::close(before);
  }
}

TEST_F(command_line, a_value_may_be_omitted) {
  EXPECT_EQ(run({"start", "app"}), 7);
  EXPECT_EQ(watch_, "");
  EXPECT_EQ(run({"start", "--watch", "app"}), 7);
  EXPECT_EQ(watch_, "all");
  EXPECT_THAT(rest_, ElementsAre("app"));
  EXPECT_EQ(run({"start", "--watch=2", "app", "--watch=3"}), 7);
  EXPECT_EQ(watch_, "2");
  EXPECT_THAT(rest_, ElementsAre("app", "--watch=3"));
  EXPECT_EQ(run({"start", "--help"}), 0);
  EXPECT_THAT(out_, HasSubstr("--watch[=TEXT]"));
}

TEST_F(command_line, help_describes_commands_and_options) {
  EXPECT_EQ(run({"measure", "--count", "30", "--help"}), 0);
  EXPECT_EQ(out_, R"(Usage: the program measure [OPTIONS]

Measures.

Options:
  --count NUMBER  How many (20 to 100; default 20)
  --bytes SIZE    How large
  --over WORD     What (shm or tcp)
  --to TEXT       Where
  --quick         Soon
  -h, --help      Print this help, and end

That is all.
)");
  const std::string help = out_;
  count_ = 20;
  EXPECT_EQ(run({"help", "measure"}), 0);
  EXPECT_EQ(out_, help);
  EXPECT_EQ(run({"help", "pass", "x"}), 7);
  EXPECT_THAT(rest_, ElementsAre("x", "--help"));
  EXPECT_EQ(run({"help"}), 0);
  EXPECT_THAT(out_, AllOf(HasSubstr("Usage: the program [OPTIONS] COMMAND\n"),
                          HasSubstr("  start "), HasSubstr("  help ")));
  EXPECT_THAT(out_, Not(AnyOf(HasSubstr("hidden"), HasSubstr("documents"))));
  EXPECT_EQ(run({"--version"}), 0);
  EXPECT_EQ(out_, "1.2\n");
}

TEST_F(command_line, internal_commands_run) { EXPECT_EQ(run({"hidden"}), 7); }

TEST_F(command_line, exceptions_of_a_command_become_message_and_status) {
  acts_ = []() -> int { throw usage_problem("that cannot be"); };
  EXPECT_EQ(run({"measure"}), 2);
  EXPECT_EQ(err_, "the program measure: that cannot be\n");
  acts_ = []() -> int { throw failed_run("it went wrong"); };
  EXPECT_EQ(run({"measure"}), 1);
  EXPECT_EQ(err_, "the program measure: it went wrong\n");
  acts_ = []() -> int { throw std::runtime_error("unforeseen"); };
  EXPECT_EQ(run({"measure"}), 1);
  // std::thread throws this if it cannot start a thread.
  acts_ = []() -> int {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  };
  EXPECT_EQ(run({"measure"}), 1);
  EXPECT_THAT(err_, HasSubstr("ulimit -u"));
}

} // namespace
} // namespace farcall::tool
