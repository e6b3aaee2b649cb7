// SPDX-License-Identifier: Apache-2.0
#include "tests/network/support.hpp"

#include <farcall/job/output_receiver.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

/// Tests the output of targets, local and remote, on its way to the terminal, and their input.
namespace farcall::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int last_lines = 2000;

/// Reads one byte; returns 0 at the end of the input.
ssize_t bytes_of_input() {
  char c = 0;
  return ::read(STDIN_FILENO, &c, 1);
}

void print_some() {
  std::printf("out\nnothing to read: %d\n", static_cast<int>(bytes_of_input()));
  std::fprintf(stderr, "err\n");
}

/// Ends right after the last output, by a signal or by _exit().
void print_and_end(bool is_killed) {
  for (int i = 0; i < last_lines; ++i)
    std::printf("line %d\n", i);
  std::printf("no end");
  std::fflush(stdout);
  if (is_killed) ::raise(SIGKILL);
  ::_exit(3);
}

int host_of_printers() {
  const job j;
  std::printf("host reads %d\n", static_cast<int>(bytes_of_input()));
  for (const node& n : j.targets()) {
    sync(n, print_some);
    EXPECT_THROW(sync(n, print_and_end, n.id() == 2), node_failed);
  }
  return testing::Test::HasFailure() ? 1 : 7;
}
const role printers("printers", host_of_printers);

std::string self() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

/// Runs the role in a shell with `before` in front of the program.
outcome run_printers(const std::string& before, const std::string& redirected = "2>&1") {
  return outcome_of("echo typed | FARCALL_TEST_ROLE=printers " + before + " " + self() + " " +
                    redirected);
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++n;
  return n;
}

void expect_labelled(const outcome& o) {
  EXPECT_EQ(o.status, 7) << o.text;
  EXPECT_EQ(count(o.text, "0: host reads 1\n"), 1U);
  for (const char* node : {"1: ", "2: "}) {
    for (const char* line :
         {"out\n", "err\n", "nothing to read: 0\n", "line 0\n", "line 1999\n", "no end\n"})
      EXPECT_EQ(count(o.text, std::string(node) + line), 1U) << node << line;
    EXPECT_EQ(count(o.text, std::string(node) + "line "), std::size_t{last_lines});
  }
  std::istringstream lines(o.text);
  for (std::string line; std::getline(lines, line);)
    EXPECT_TRUE(line.size() > 3 && line[0] >= '0' && line[0] <= '2' && line[1] == ':') << line;
}

TEST(output, lines_of_targets_here_are_labelled) {
  expect_labelled(run_printers(FARCALL_COMMAND " run --label -n 3"));
  expect_labelled(run_printers("FARCALL_LABEL=yes " FARCALL_COMMAND " run -n 3"));
}

TEST(output, lines_of_targets_elsewhere_are_labelled) {
  const server there(local_server());
  expect_labelled(run_printers(FARCALL_COMMAND " run --label --targets " + url_of(there) + ",shm"));
}

TEST(output, a_program_labels_lines_of_its_targets_by_itself) {
  const outcome o = run_printers("FARCALL_LABEL=yes FARCALL_TARGETS=shm");
  EXPECT_EQ(o.status, 7) << o.text;
  EXPECT_EQ(count(o.text, "1: line "), std::size_t{last_lines});
  EXPECT_EQ(count(o.text, "1: no end\n"), 1U);
  EXPECT_THAT(o.text, HasSubstr("host reads 1\n"));
  EXPECT_THAT(o.text, Not(HasSubstr("0: ")));
}

TEST(output, from_remote_targets_arrives_unchanged) {
  const server there(local_server());
  const std::string targets = "FARCALL_TARGETS='" + url_of(there) + "?count=2'";
  const outcome out = run_printers(targets, "2>/dev/null");
  EXPECT_EQ(out.status, 7);
  std::string all;
  for (int i = 0; i < last_lines; ++i)
    all += "line " + std::to_string(i) + "\n";
  EXPECT_EQ(count(out.text, "out\nnothing to read: 0\n" + all + "no end"), 2U) << out.text;
  EXPECT_THAT(out.text, Not(HasSubstr("err\n")));
  const outcome err = run_printers(targets, "2>&1 >/dev/null");
  EXPECT_EQ(err.status, 7);
  EXPECT_EQ(err.text, "err\nerr\n");
}

/// Lines that targets have printed, for each node.
class lines_of_targets final : public output_receiver {
 public:
  void take_line(node_id node, output_stream stream, std::string_view line) override {
    std::string& text = stream == output_stream::output ? output[node] : error[node];
    text.append(line).push_back('|');
  }
  /// Read after the end of the job.
  std::map<node_id, std::string> output;
  std::map<node_id, std::string> error;
};

int host_of_received() {
  lines_of_targets lines;
  {
    job_options o = with_targets(std::getenv("TEST_TARGETS"));
    o.output = &lines;
    const job j(o);
    for (const node& n : j.targets())
      sync(n, print_some);
  }
  for (const node_id n : {1U, 2U}) {
    EXPECT_EQ(lines.output[n], "out|nothing to read: 0|");
    EXPECT_EQ(lines.error[n], "err|");
  }
  return testing::Test::HasFailure() ? 1 : 7;
}
const role received("received", host_of_received);

TEST(output, lines_of_all_targets_go_to_a_receiver) {
  const server there(local_server());
  const outcome o = outcome_of("FARCALL_TEST_ROLE=received TEST_TARGETS=shm," + url_of(there) +
                               " " + self() + " 2>&1");
  EXPECT_EQ(o.status, 7);
  EXPECT_EQ(o.text, "");
}

TEST(output, settings_other_than_yes_and_no_are_refused) {
  const outcome o = run_printers("FARCALL_LABEL=maybe " FARCALL_COMMAND " run -n 2");
  EXPECT_EQ(o.status, 2) << o.text;
  EXPECT_THAT(o.text, HasSubstr("FARCALL_LABEL"));
}

// ---- output without a reader --------------------------------------------------------------------

constexpr std::string_view line = "fifteen letters\n";

/// Prints until writing blocks; returns the number of complete lines.
std::size_t fill_output() {
  const int flags = ::fcntl(STDOUT_FILENO, F_GETFL);
  ::fcntl(STDOUT_FILENO, F_SETFL, flags | O_NONBLOCK);
  std::size_t bytes = 0;
  for (;;) {
    const std::string_view rest = line.substr(bytes % line.size());
    const ssize_t wrote = ::write(STDOUT_FILENO, rest.data(), rest.size());
    if (wrote > 0) bytes += static_cast<std::size_t>(wrote);
    pollfd writable{STDOUT_FILENO, POLLOUT, 0};
    // On a slow machine 200 ms may be too short, which only weakens the test.
    if (wrote < 0 && (errno != EAGAIN || ::poll(&writable, 1, 200) == 0)) break;
  }
  ::fcntl(STDOUT_FILENO, F_SETFL, flags);
  return bytes / line.size();
}

int ask_first() {
  return sync(node_at(1), [] { return 42; });
}

/// A host whose output is not read until its target has filled all buffers.
int stalled_host() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return 2;
  ::dup2(ends[1], STDOUT_FILENO);
  ::close(ends[1]);
  const job j;
  const std::size_t lines = sync(j.targets()[0], fill_output);
  if (lines == 0 || lines > (std::size_t{2} << 20) / line.size()) return 3;
  // Other calls continue, even on the same connection.
  if (sync(j.targets()[1], ask_first) != 42) return 4;
  std::size_t got = 0;
  std::array<char, 65536> piece;
  while (got < lines) {
    pollfd readable{ends[0], POLLIN, 0};
    if (::poll(&readable, 1, 60'000) != 1) return 5;
    const ssize_t n = ::read(ends[0], piece.data(), piece.size());
    for (ssize_t i = 0; i < n; ++i)
      got += piece[static_cast<std::size_t>(i)] == '\n' ? 1 : 0;
  }
  return got == lines ? 0 : 6;
}
const role stalled("stalled", stalled_host);

TEST(output, without_a_reader_blocks_only_its_target) {
  {
    const scoped_variable label("FARCALL_LABEL", "yes");
    const scoped_variable targets("FARCALL_TARGETS", "shm:2");
    role_process here("stalled");
    EXPECT_EQ(here.wait(), 0);
  }
  const server there(local_server());
  const scoped_variable targets("FARCALL_TARGETS", (url_of(there) + "?count=2").c_str());
  role_process elsewhere("stalled");
  EXPECT_EQ(elsewhere.wait(), 0);
}

} // namespace
} // namespace farcall::test
