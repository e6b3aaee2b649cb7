// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <farcall/offload/job.hpp>
#include <farcall/offload/job_settings.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

namespace farcall::test::job_settings_test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// argc and argv that can be changed.
class command_line {
 public:
  explicit command_line(std::vector<std::string> arguments) : texts_(std::move(arguments)) {
    texts_.insert(texts_.begin(), "program");
    for (std::string& t : texts_)
      pointers_.push_back(t.data());
    argc = static_cast<int>(pointers_.size());
    pointers_.push_back(nullptr);
  }
  char** argv() { return pointers_.data(); }
  [[nodiscard]] std::vector<std::string> left() const {
    return {pointers_.data() + 1, pointers_.data() + argc};
  }
  int argc = 0;

 private:
  std::vector<std::string> texts_;
  std::vector<char*> pointers_;
};

std::string setting_error_of(std::vector<std::string> arguments, const job_options& options = {}) {
  command_line line(std::move(arguments));
  return text_thrown_by<setting_error>([&] { const job j(line.argc, line.argv(), options); });
}

TEST(job_settings, from_the_command_line) {
  command_line line({"-x", "--farcall-targets=shm:2", "file", "--farcall-spin-us", "50",
                     "--farcall-lane-bytes=8192", "--other=1"});
  const job j(line.argc, line.argv());
  EXPECT_EQ(j.size(), 3U);
  EXPECT_EQ(line.left(), (std::vector<std::string>{"-x", "file", "--other=1"}));
  EXPECT_EQ(line.argv()[line.argc], nullptr);
}

TEST(job_settings, the_last_of_several_counts) {
  command_line line({"--farcall-targets=shm:2", "--farcall-targets=shm:3"});
  const job j(line.argc, line.argv());
  EXPECT_EQ(j.size(), 4U);
}

TEST(job_settings, end_at_two_dashes) {
  command_line line({"--farcall-targets=shm:2", "--", "--farcall-targets=shm:3"});
  const job j(line.argc, line.argv());
  EXPECT_EQ(j.size(), 3U);
  EXPECT_EQ(line.left(), (std::vector<std::string>{"--", "--farcall-targets=shm:3"}));
}

TEST(job_settings, that_name_no_target_say_where_they_were_given) {
  const scoped_variable targets("FARCALL_TARGETS", "smh:3");
  EXPECT_THAT([] { const job j; },
              ThrowsMessage<setting_error>(
                  AllOf(HasSubstr("FARCALL_TARGETS: "), HasSubstr("no transport \"smh\""))));
}

TEST(job_settings, that_are_wrong_name_their_variable) {
  const std::string folder = std::filesystem::temp_directory_path();
  const std::pair<const char*, std::string> wrong[] = {{"FARCALL_WRAP", ";"},
                                                       {"FARCALL_WRAP", "1:true;1:true"},
                                                       {"FARCALL_WRAP", "'true"},
                                                       {"FARCALL_TARGETS", "none"},
                                                       {"FARCALL_KEY", folder},
                                                       {"FARCALL_CERTIFICATE", folder},
                                                       {"FARCALL_CERTIFICATE_KEY", folder},
                                                       {"FARCALL_AUTHORITY", folder},
                                                       {"FARCALL_SERVER_KEY", "sha256:x"},
                                                       {"FARCALL_SERVER_KEY", folder}};
  for (const auto& [name, value] : wrong) {
    const scoped_variable given(name, value.c_str());
    EXPECT_THAT(text_thrown_by<setting_error>([] { const job j; }), HasSubstr(name)) << value;
  }
}

TEST(job_settings, allow_no_targets_to_the_program) {
  job j(with_targets("none"));
  EXPECT_EQ(j.size(), 1U);
  EXPECT_EQ(sync(j.add("shm"), [] { return 1; }), 1);
  command_line line({"--farcall-targets=shm:2"});
  const job user(line.argc, line.argv(), with_targets("none"));
  EXPECT_EQ(user.size(), 3U);
  EXPECT_THAT(setting_error_of({"--farcall-targets=none"}), HasSubstr("add their targets later"));
}

TEST(job_settings, name_credentials_that_fit_together) {
  const std::string file = "/proc/self/exe";
  job_options options;
  options.certificate = file;
  EXPECT_THAT(setting_error_of({}, options), HasSubstr("certificates need three files"));
  options.key = file;
  EXPECT_THAT(setting_error_of({}, options), HasSubstr("choose one of them"));
  options = {};
  options.server_key = "sha256:x";
  EXPECT_THAT(setting_error_of({}, options),
              HasSubstr("job_options::server_key: \"sha256:x\" is no public key of a server"));
}

TEST(job_settings, from_the_environment) {
  const scoped_variable targets("FARCALL_TARGETS", "shm:3");
  const scoped_variable spin("FARCALL_SPIN_US", "0");
  const job j;
  EXPECT_EQ(j.size(), 4U);
  EXPECT_EQ(sync(j.targets()[2], [] { return 1; }), 1);
}

TEST(job_settings, order_of_precedence) {
  const scoped_variable targets("FARCALL_TARGETS", "shm:3");
  const job program(with_targets("shm:2"));
  EXPECT_EQ(program.size(), 3U) << "the program comes before the environment";
  command_line nothing({});
  const job variable(nothing.argc, nothing.argv(), with_targets("shm:2"));
  EXPECT_EQ(variable.size(), 4U) << "a program that hands its command line over only has defaults";
  command_line line({"--farcall-targets=shm:1"});
  const job user(line.argc, line.argv(), with_targets("shm:2"));
  EXPECT_EQ(user.size(), 2U) << "the command line comes first";
}

TEST(job_settings, bad_targets) {
  for (const char* bad : {"tcq://x", "shm:0", "shm:x", "shm:-1", "shm:100000", "shm?workers=0",
                          "shm?workers=x", "shm?colour=red", "shm?cpu=-1", "shm?program=", ",",
                          "shm,", "shm?name=", "shm:", "shm: 2", "shm:2x", "shm?name=a&name=b"}) {
    const std::string text = text_thrown_by<setting_error>([&] { const job j(with_targets(bad)); });
    EXPECT_FALSE(text.empty()) << bad;
  }
  EXPECT_THAT(setting_error_of({"--farcall-targets=nosuch:2"}), HasSubstr("nosuch"));
  EXPECT_THAT(setting_error_of({"--farcall-targets=shm,"}),
              HasSubstr("an entry of the list is empty"));
  EXPECT_THAT(setting_error_of({"--farcall-targets="}), HasSubstr("has an empty value"));
  EXPECT_THAT(setting_error_of({"--farcall-targets=shm?colour=red"}),
              AllOf(HasSubstr("colour"), HasSubstr("workers")));
}

TEST(job_settings, bad_values) {
  EXPECT_THAT(setting_error_of({"--farcall-tragets=shm"}), HasSubstr("--farcall-tragets"));
  EXPECT_THAT(setting_error_of({"--farcall-targets"}), HasSubstr("needs a value"));
  EXPECT_THAT(setting_error_of({"--farcall-start-timeout-ms=soon"}),
              AllOf(HasSubstr("start-timeout-ms"), HasSubstr("soon")));
  EXPECT_THAT(setting_error_of({"--farcall-spin-us=-1"}), HasSubstr("spin-us"));
  EXPECT_THAT(setting_error_of({"--farcall-lane-bytes=100"}), HasSubstr("lane-bytes"));
  EXPECT_THAT(setting_error_of({"--farcall-lane-bytes=5000"}), HasSubstr("power of two"));
  EXPECT_THAT(setting_error_of({"--farcall-heap-bytes=12e3"}), HasSubstr("heap-bytes"));
  job_options options;
  options.lane_bytes = 12'345;
  EXPECT_THAT(setting_error_of({}, options), HasSubstr("12345"));
  const scoped_variable spin("FARCALL_YIELD_AFTER_US", "much");
  EXPECT_THAT(setting_error_of({}), AllOf(HasSubstr("FARCALL_YIELD_AFTER_US"), HasSubstr("much")));
}

TEST(job_settings, values_of_the_program_have_the_same_ranges) {
  job_options options;
  options.heartbeat_timeout = std::chrono::milliseconds(9);
  EXPECT_THAT(setting_error_of({}, options),
              AllOf(HasSubstr("job_options::heartbeat_timeout is \"9\""), HasSubstr("from 10 to")));
  options = {};
  options.start_timeout = std::chrono::milliseconds(-5);
  EXPECT_THAT(setting_error_of({}, options), HasSubstr("job_options::start_timeout is \"-5\""));
  options = {};
  options.stop_timeout = std::chrono::hours(25);
  EXPECT_THAT(setting_error_of({}, options), HasSubstr("job_options::stop_timeout"));
  options = {};
  options.heap_bytes = 1U << 19;
  EXPECT_THAT(setting_error_of({}, options), HasSubstr("job_options::heap_bytes is \"524288\""));
  options = {};
  options.progress = "somehow";
  EXPECT_THAT(
      setting_error_of({}, options),
      AllOf(HasSubstr("job_options::progress is \"somehow\""), HasSubstr("wait or thread")));
}

TEST(job_settings, options_of_servers_are_yes_or_no) {
  EXPECT_THAT(setting_error_of({"--farcall-plain=true"}),
              AllOf(HasSubstr("--farcall-plain is \"true\""), HasSubstr("yes or no")));
}

TEST(job_settings, options_of_servers_are_for_servers) {
  for (const std::string option :
       {"--farcall-clients=file", "--farcall-revoked=file", "--farcall-keep-output=no",
        "--farcall-plain=yes", "--farcall-i-trust-this-network=yes"}) {
    EXPECT_THAT(setting_error_of({option}),
                AllOf(HasSubstr(option.substr(0, option.find('='))), HasSubstr("--farcall-serve")));
  }
}

/// Returns the standard output and error of this program, run again by a shell with these
/// variables.
std::string text_of_own_run(const std::string& variables, const std::string& filter,
                            bool succeeds = true) {
  const std::string command = variables + " /proc/" + std::to_string(::getpid()) +
                              "/exe --gtest_filter=" + filter + " 2>&1";
  std::FILE* const from = ::popen(command.c_str(), "r");
  std::string text;
  if (from == nullptr) {
    ADD_FAILURE() << "no shell can be started";
    return text;
  }
  for (int c = std::fgetc(from); c != EOF; c = std::fgetc(from))
    text += static_cast<char>(c);
  EXPECT_EQ(::pclose(from) == 0, succeeds) << text;
  return text;
}

TEST(job_settings, unknown_variables_are_warned_about_once_per_process) {
  const std::string text = "FARCALL_SPIN_UZ is not a setting; did you mean FARCALL_SPIN_US?";
  // Several jobs with several targets each.
  const std::string told = text_of_own_run("FARCALL_SPIN_UZ=5", "several_jobs.do_not_meet");
  const auto first = told.find(text);
  ASSERT_NE(first, std::string::npos) << told;
  EXPECT_EQ(told.find(text, first + 1), std::string::npos) << told;
  EXPECT_THAT(told, HasSubstr("warning: FARCALL_SPIN_UZ"));
  const std::string quiet =
      text_of_own_run("FARCALL_LOG=error FARCALL_SPIN_UZ=5", "several_jobs.do_not_meet");
  EXPECT_EQ(quiet.find(text), std::string::npos) << quiet;
}

TEST(job_settings, the_log_names_the_routes) {
  const std::string filter = "jobs.have_one_target_by_default";
  const std::string route = "node 1, process [0-9]+ on .*, is reached by shm: ";
  EXPECT_THAT(text_of_own_run("FARCALL_LOG=info", filter), ContainsRegex(route));
  EXPECT_THAT(text_of_own_run("FARCALL_LOG=warning", filter), Not(ContainsRegex(route)));
}

TEST(job_settings, empty_variables_count_as_unset) {
  const scoped_variable targets("FARCALL_TARGETS", "");
  const job j;
  EXPECT_EQ(j.size(), 2U);
}

TEST(job_settings, a_bootstrap_that_is_none) {
  // Only farcall sets this variable. A program whose user has set it ends with an error.
  for (const char* variable : {"FARCALL_BOOTSTRAP=0", "FARCALL_BOOTSTRAP=1000"}) {
    const std::string told = text_of_own_run(variable, "jobs.have_one_target_by_default", false);
    EXPECT_THAT(told, HasSubstr("error: FARCALL_BOOTSTRAP")) << variable;
  }
}

TEST(job_settings, a_level_of_the_log_that_is_none) {
  const scoped_variable variable("FARCALL_LOG", "loud");
  EXPECT_THAT(text_thrown_by<setting_error>([] { const job j; }),
              AllOf(HasSubstr("FARCALL_LOG"), HasSubstr("loud"), HasSubstr("info")));
}

TEST(job_settings, arguments_reach_the_targets) {
  job_options options = with_targets("shm");
  options.arguments = {"first", "second argument", ""};
  const job j(options);
  const std::string seen = sync(j.targets()[0], [] {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  });
  EXPECT_EQ(seen, std::string("first\0second argument\0\0", 23));
}

TEST(job_settings, spin_times_may_be_zero) {
  job_options options = with_targets("shm:2");
  options.waiting.spin = std::chrono::nanoseconds(0);
  options.waiting.yield_after = std::chrono::nanoseconds(0);
  const job j(options);
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(sync(
                  j.targets()[static_cast<std::size_t>(i % 2)],
                  [](int v) { return sync(host(), [](int w) { return w; }, v); }, i),
              i);
  }
}

TEST(waiting_of_equals, yields_at_once_if_nodes_outnumber_processors) {
  using std::chrono::nanoseconds;
  const wait_policy usual;
  EXPECT_EQ(detail::waiting_of_equals(usual, 1).yield_after, usual.yield_after);
  EXPECT_EQ(detail::waiting_of_equals(usual, 100'000).yield_after, nanoseconds(0));
  EXPECT_EQ(detail::waiting_of_equals(usual, 100'000).spin, usual.spin);
  const wait_policy chosen{usual.spin, nanoseconds(1)};
  EXPECT_EQ(detail::waiting_of_equals(chosen, 100'000).yield_after, chosen.yield_after);
}

} // namespace
} // namespace farcall::test::job_settings_test
