// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/job/output_collector.hpp>
#include <farcall/job/output_receiver.hpp>
#include <tests/support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace farcall::output_collector_test {
namespace {

/// Returns a reading end and a writing end.
std::pair<unique_fd, unique_fd> make_pipe() {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  return {unique_fd(ends[0]), unique_fd(ends[1])};
}

/// Reads the next bytes, as many as `bytes`.
std::string next(const unique_fd& from, std::size_t bytes) {
  std::string got;
  while (got.size() < bytes) {
    pollfd readable{from.get(), POLLIN, 0};
    std::array<char, 4096> piece;
    if (::poll(&readable, 1, 60'000) != 1) return got;
    const ssize_t n = ::read(from.get(), piece.data(), std::min(piece.size(), bytes - got.size()));
    if (n <= 0) return got;
    got.append(piece.data(), static_cast<std::size_t>(n));
  }
  return got;
}

void print(const unique_fd& to, std::string_view text) { ASSERT_TRUE(write_all(to.get(), text)); }

/// A collector whose two outputs are read here.
class output_collector_test : public ::testing::Test {
 protected:
  void collect(bool labels) {
    collector_ = std::make_unique<output_collector>(
        output_ends{output_.second.get(), error_.second.get()}, labels);
  }
  /// Returns the writing end of a pipe that is read as the output of `node`.
  unique_fd pipe_of(node_id node, output_stream stream = output_stream::output) {
    auto [from, to] = make_pipe();
    collector_->read(node, stream, std::move(from));
    return std::move(to);
  }

  std::pair<unique_fd, unique_fd> output_ = make_pipe();
  std::pair<unique_fd, unique_fd> error_ = make_pipe();
  std::unique_ptr<output_collector> collector_;
};

TEST_F(output_collector_test, lines_get_the_number_of_their_node) {
  collect(true);
  const unique_fd second = pipe_of(2);
  const unique_fd error = pipe_of(2, output_stream::error);
  print(second, "text\n");
  EXPECT_EQ(next(output_.first, 8), "2: text\n");
  print(error, "wrong\n");
  EXPECT_EQ(next(error_.first, 9), "2: wrong\n");
  collector_->take(11, output_stream::output, "from elsewhere\n", {});
  EXPECT_EQ(next(output_.first, 19), "11: from elsewhere\n");
}

TEST_F(output_collector_test, output_before_the_end_is_written) {
  collect(true);
  unique_fd first = pipe_of(1);
  // More than one read() takes, from a writer that has closed the pipe by then.
  std::string sent;
  std::string expected;
  for (int i = 0; i < 8000; ++i) {
    sent += std::to_string(i) + "\n";
    expected += "1: " + std::to_string(i) + "\n";
  }
  sent += "unfinished";
  expected += "1: unfinished\n";
  ASSERT_LE(sent.size(), std::size_t{1} << 16);
  print(first, sent);
  first.reset();
  collector_->end(1);
  EXPECT_EQ(next(output_.first, expected.size()), expected);
}

TEST_F(output_collector_test, finishing_writes_what_there_is) {
  collect(false);
  const unique_fd first = pipe_of(1);
  print(first, "one\nno end");
  collector_->take(2, output_stream::error, "tw", {});
  collector_->take(2, output_stream::error, "o\nno end", {});
  collector_->finish();
  // Later output is dropped.
  collector_->take(2, output_stream::error, "late\n", [](std::size_t) { FAIL(); });
  output_.second.reset();
  error_.second.reset();
  EXPECT_EQ(next(output_.first, 1000), "one\nno end");
  EXPECT_EQ(next(error_.first, 1000), "two\nno end");
}

TEST_F(output_collector_test, reports_bytes_once_they_are_written) {
  collect(false);
  const std::string much(300'000, 'm');
  std::atomic<std::size_t> written{0};
  collector_->take(1, output_stream::output, much, [&](std::size_t n) { written += n; });
  collector_->take(1, output_stream::output, "end\n", [&](std::size_t n) { written += n; });
  // The pipe is full, and is not read.
  EXPECT_EQ(next(output_.first, 1), "m");
  EXPECT_EQ(written, 0);
  EXPECT_EQ(next(output_.first, much.size() + 3).size(), much.size() + 3);
  EXPECT_TRUE(test::eventually([&] { return written == much.size() + 4; }));
}

TEST_F(output_collector_test, short_pieces_are_reported_together_without_loss) {
  collect(false);
  constexpr std::size_t pieces = 200'000;
  std::atomic<std::size_t> written{0};
  std::atomic<std::size_t> calls{0};
  // The pipe is soon full, and the bytes wait.
  for (std::size_t i = 0; i < pieces; ++i) {
    collector_->take(1, output_stream::output, i % 100 == 99 ? "\n" : "x", [&](std::size_t n) {
      written += n;
      ++calls;
    });
  }
  const std::string all = next(output_.first, pieces);
  EXPECT_EQ(std::ranges::count(all, 'x'), pieces / 100 * 99);
  EXPECT_TRUE(test::eventually([&] { return written == pieces; }));
  EXPECT_LT(calls, pieces);
}

TEST_F(output_collector_test, a_closed_output_closes_the_pipes_of_targets) {
  collect(true);
  ::signal(SIGPIPE, SIG_IGN);
  const unique_fd first = pipe_of(1);
  output_.first.reset();
  print(first, "one\n");
  EXPECT_TRUE(test::eventually([&] { return ::write(first.get(), "\n", 1) < 0; }));
  EXPECT_EQ(errno, EPIPE);
  std::atomic<bool> is_written{false};
  collector_->take(2, output_stream::output, "dropped\n", [&](std::size_t) { is_written = true; });
  EXPECT_TRUE(test::eventually([&] { return is_written.load(); }));
  // The other output still works.
  collector_->take(2, output_stream::error, "x\n", {});
  EXPECT_EQ(next(error_.first, 5), "2: x\n");
}

TEST_F(output_collector_test, an_endless_printer_does_not_silence_others) {
  collect(true);
  const unique_fd busy = pipe_of(1);
  const unique_fd other = pipe_of(2);
  std::atomic<bool> has_ended{false};
  std::thread printer([&] {
    const std::string lines(32'768, '\n');
    while (!has_ended)
      (void)write_all(busy.get(), lines);
  });
  print(other, "here\n");
  std::string got;
  while (got.find("2: here\n") == std::string::npos) {
    const std::string more = next(output_.first, 4096);
    ASSERT_EQ(more.size(), 4096U);
    got = got.substr(got.size() < 16 ? 0 : got.size() - 16) + more;
  }
  has_ended = true;
  std::thread reader([&] { (void)next(output_.first, ~std::size_t{0}); });
  printer.join();
  collector_->finish();
  output_.second.reset();
  reader.join();
}

/// Collects lines as texts like "2: text" and "2! text", with "!" for lines of standard error.
class collected_lines final : public output_receiver {
 public:
  void take_line(node_id node, output_stream stream, std::string_view line) override {
    if (line == "refused") throw error("no such line");
    all.push_back(std::to_string(node) + (stream == output_stream::output ? ": " : "! ") +
                  std::string(line));
  }
  std::vector<std::string> all;
};

TEST_F(output_collector_test, a_receiver_replaces_both_outputs) {
  collected_lines lines;
  collector_ = std::make_unique<output_collector>(
      output_ends{output_.second.get(), error_.second.get()}, true, &lines);
  unique_fd first = pipe_of(1);
  print(first, "one\nrefused\ntwo\nno end");
  first.reset();
  collector_->end(1);
  collector_->take(2, output_stream::error, "elsewhere\nno end", {});
  collector_->finish();
  EXPECT_THAT(lines.all,
              ::testing::ElementsAre("1: one", "1: two", "1: no end", "2! elsewhere", "2! no end"));
  output_.second.reset();
  error_.second.reset();
  EXPECT_EQ(next(output_.first, 1), "");
  EXPECT_EQ(next(error_.first, 1), "");
}

TEST(ends_for_lines, are_standard_output_and_error) {
  const output_ends ends = ends_for_lines();
  EXPECT_EQ(ends.output, STDOUT_FILENO);
  EXPECT_EQ(ends.error, STDERR_FILENO);
}

/// Runs in a process of its own, because a process finds its ends only once.
[[noreturn]] void find_ends(const std::string& text, const output_ends& expected) {
  ::setenv(lines_variable, text.c_str(), 1);
  try {
    const output_ends found = ends_for_lines();
    const bool are_kept = std::getenv(lines_variable) == nullptr;
    ::_exit(are_kept && found.output == expected.output && found.error == expected.error ? 0 : 1);
  } catch (const setting_error&) {
    ::_exit(3);
  }
}

[[noreturn]] void find_pipes(bool has_other_file) {
  const auto first = make_pipe();
  const auto second = make_pipe();
  const output_ends pipes{first.second.get(), second.second.get()};
  const std::string text = text_of(pipes);
  if (has_other_file) ::dup2(STDERR_FILENO, pipes.output);
  find_ends(text, has_other_file ? output_ends{} : pipes);
}

TEST(ends_for_lines, are_the_pipes_that_the_variable_names) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(find_pipes(false), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(find_pipes(true), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(find_ends("7", {}), ::testing::ExitedWithCode(3), "");
  EXPECT_EXIT(find_ends("7:x,8:9", {}), ::testing::ExitedWithCode(3), "");
}

} // namespace
} // namespace farcall::output_collector_test
