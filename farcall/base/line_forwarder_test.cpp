// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/line_forwarder.hpp>
#include <farcall/base/unique_fd.hpp>

#include <gtest/gtest.h>

#include <csignal>
#include <cstddef>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::line_forwarder_test {
namespace {

/// Forwards to a file, whose content text() returns.
class line_forwarder_test : public ::testing::Test {
 protected:
  [[nodiscard]] int fd() const { return file_.get(); }
  [[nodiscard]] std::string text() const {
    struct stat status{};
    EXPECT_EQ(::fstat(fd(), &status), 0);
    std::string all(static_cast<std::size_t>(status.st_size), '\0');
    EXPECT_EQ(::pread(fd(), all.data(), all.size(), 0), status.st_size);
    return all;
  }

 private:
  unique_fd file_{::memfd_create("lines", MFD_CLOEXEC)};
};

TEST_F(line_forwarder_test, a_line_waits_for_its_end) {
  line_forwarder lines(fd(), "");
  EXPECT_TRUE(lines.take("one\ntw"));
  EXPECT_EQ(text(), "one\n");
  EXPECT_TRUE(lines.take("o"));
  EXPECT_EQ(text(), "one\n");
  EXPECT_TRUE(lines.take("\n\nthree"));
  EXPECT_EQ(text(), "one\ntwo\n\n");
  EXPECT_TRUE(lines.finish());
  EXPECT_EQ(text(), "one\ntwo\n\nthree");
}

TEST_F(line_forwarder_test, lines_of_two_sources_do_not_mix) {
  line_forwarder first(fd(), node_label(1));
  line_forwarder second(fd(), node_label(12));
  first.take("a");
  second.take("x\ny");
  first.take("b\n\nc");
  first.finish();
  second.finish();
  EXPECT_EQ(text(), "12: x\n1: ab\n1: \n1: c\n12: y\n");
}

TEST(line_forwarder_to_a_function, passes_each_line_without_its_end) {
  std::vector<std::string> got;
  line_forwarder lines([&](std::string_view line) { got.emplace_back(line); });
  EXPECT_TRUE(lines.take("one\ntw"));
  EXPECT_EQ(got, (std::vector<std::string>{"one"}));
  EXPECT_TRUE(lines.take("o\n\nthree"));
  EXPECT_EQ(got, (std::vector<std::string>{"one", "two", ""}));
  EXPECT_TRUE(lines.finish());
  EXPECT_EQ(got, (std::vector<std::string>{"one", "two", "", "three"}));
}

TEST(line_forwarder_to_a_function, passes_long_lines_in_parts) {
  std::vector<std::size_t> sizes;
  line_forwarder lines([&](std::string_view line) { sizes.push_back(line.size()); });
  lines.take(std::string(line_forwarder::max_line + 3, 'x') + "\n");
  EXPECT_EQ(sizes, (std::vector<std::size_t>{line_forwarder::max_line, 3}));
}

TEST_F(line_forwarder_test, other_bytes_than_text_pass_unchanged) {
  std::string bytes;
  for (int i = 0; i < 100'000; ++i)
    bytes.push_back(static_cast<char>(i % 251 * (i % 251) % 251));
  line_forwarder lines(fd(), "");
  for (std::size_t at = 0; at < bytes.size(); at += 777)
    ASSERT_TRUE(lines.take(std::string_view(bytes).substr(at, 777)));
  lines.finish();
  EXPECT_EQ(text(), bytes);
}

TEST_F(line_forwarder_test, a_line_that_is_too_long_passes_in_parts) {
  const std::string line(2 * line_forwarder::max_line + 5, 'l');
  line_forwarder lines(fd(), "");
  lines.take(line);
  EXPECT_EQ(text().size(), 2 * line_forwarder::max_line);
  lines.take("\n");
  EXPECT_EQ(text(), line + "\n");
}

TEST_F(line_forwarder_test, each_part_of_a_labelled_line_is_a_line) {
  // A label, a part of a line, and its end.
  const std::string part(line_forwarder::max_line - 4, 'l');
  line_forwarder lines(fd(), node_label(3));
  lines.take(part + "end\n");
  EXPECT_EQ(text(), "3: " + part + "\n3: end\n");
}

TEST_F(line_forwarder_test, tells_only_that_its_reader_has_gone) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const unique_fd to(ends[1]);
  ::close(ends[0]);
  const auto before = ::signal(SIGPIPE, SIG_IGN);
  line_forwarder lines(to.get(), "");
  EXPECT_TRUE(lines.take("not yet"));
  EXPECT_FALSE(lines.take("\n"));
  EXPECT_FALSE(lines.take("more\n"));
  EXPECT_FALSE(lines.finish());
  (void)::signal(SIGPIPE, before);
}

TEST_F(line_forwarder_test, drops_output_that_cannot_be_written) {
  const unique_fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  line_forwarder lines(full.get(), "");
  EXPECT_TRUE(lines.take("line\n"));
  EXPECT_TRUE(lines.take("more\n"));
  EXPECT_TRUE(lines.finish());
}

TEST_F(line_forwarder_test, a_descriptor_that_does_not_block_is_waited_for) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const unique_fd from(ends[0]);
  unique_fd to(ends[1]);
  const std::string sent(300'000, 's');
  std::string got;
  std::thread writer([&] {
    EXPECT_TRUE(write_all(to.get(), sent));
    to.reset();
  });
  char piece[4096];
  ASSERT_EQ(::fcntl(from.get(), F_SETFL, 0), 0);
  for (ssize_t n = 0; (n = ::read(from.get(), piece, sizeof piece)) > 0;)
    got.append(piece, static_cast<std::size_t>(n));
  writer.join();
  EXPECT_EQ(got, sent);
}

} // namespace
} // namespace farcall::line_forwarder_test
