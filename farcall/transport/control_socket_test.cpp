// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/memory/segment.hpp>
#include <farcall/transport/control_socket.hpp>
#include <tests/child.hpp>
#include <tests/support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::control_socket_test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::size_t max_body = (64 << 10) - sizeof(control);

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* from = reinterpret_cast<const std::byte*>(text.data());
  return {from, from + text.size()};
}

std::vector<std::byte> body_of(std::size_t bytes, std::uint64_t n) {
  std::vector<std::byte> body(bytes);
  for (std::size_t at = 0; at < bytes; ++at)
    body[at] = test::content(n, at);
  return body;
}

time_point soon() { return clock::now() + test::wait_limit; }

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

ino_t file_behind(int fd) {
  struct stat status{};
  EXPECT_EQ(::fstat(fd, &status), 0);
  return status.st_ino;
}

TEST(control_socket, carries_messages_both_ways) {
  auto [a, b] = control_socket::make_pair();
  EXPECT_TRUE(a.send(control::hello, bytes_of("you are node 1")));
  EXPECT_TRUE(b.send(control::present));
  const auto there = b.receive(soon());
  ASSERT_TRUE(there);
  EXPECT_EQ(there->kind, control::hello);
  EXPECT_EQ(there->body, bytes_of("you are node 1"));
  EXPECT_TRUE(there->files.empty());
  const auto back = a.receive(soon());
  ASSERT_TRUE(back);
  EXPECT_EQ(back->kind, control::present);
  EXPECT_TRUE(back->body.empty());
}

TEST(control_socket, keeps_the_boundaries_between_messages) {
  auto [a, b] = control_socket::make_pair();
  const std::size_t sizes[] = {0, 1, 4096, 0, max_body, 7};
  std::uint64_t n = 0;
  for (const std::size_t bytes : sizes)
    ASSERT_TRUE(a.send(control::memory, body_of(bytes, ++n)));
  n = 0;
  for (const std::size_t bytes : sizes) {
    const auto message = b.receive(soon());
    ASSERT_TRUE(message);
    EXPECT_EQ(message->body, body_of(bytes, ++n));
  }
}

TEST(control_socket, does_not_reach_programs_that_we_start) {
  const auto [a, b] = control_socket::make_pair();
  EXPECT_EQ(::fcntl(a.fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ(::fcntl(b.fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

// ---- waiting ------------------------------------------------------------------------------------

TEST(control_socket, gives_nothing_once_the_deadline_has_passed) {
  auto [a, b] = control_socket::make_pair();
  const time_point deadline = clock::now() + 20ms;
  EXPECT_FALSE(b.receive(deadline));
  EXPECT_GE(clock::now(), deadline);
  EXPECT_FALSE(b.receive(clock::now() - 1h));
}

TEST(control_socket, gives_what_is_there_although_the_deadline_has_passed) {
  auto [a, b] = control_socket::make_pair();
  ASSERT_TRUE(a.send(control::start));
  EXPECT_TRUE(b.receive(clock::now() - 1h));
}

TEST(control_socket, waits_for_a_message_without_a_deadline) {
  auto [a, b] = control_socket::make_pair();
  std::thread sender([&sending = a] {
    std::this_thread::sleep_for(5ms);
    sending.send(control::start);
  });
  const auto message = b.receive(time_point::max());
  sender.join();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->kind, control::start);
}

TEST(control_socket, a_signal_does_not_end_the_wait) {
  struct sigaction ours{};
  struct sigaction before{};
  ours.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGUSR1, &ours, &before), 0); // without SA_RESTART
  auto [a, b] = control_socket::make_pair();
  std::atomic<bool> over{false};
  std::thread disturber([&, receiver = ::pthread_self()] {
    for (int i = 0; i < 20; ++i) {
      ::pthread_kill(receiver, SIGUSR1);
      std::this_thread::sleep_for(1ms);
    }
    a.send(control::start);
    over = true;
  });
  EXPECT_TRUE(b.receive(soon()));
  EXPECT_TRUE(test::eventually([&] { return over.load(); }));
  disturber.join();
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST(control_socket, a_full_socket_makes_send_wait_and_loses_nothing) {
  auto [a, b] = control_socket::make_pair();
  constexpr std::uint64_t messages = 500;
  std::thread receiver([&receiving = b] {
    for (std::uint64_t n = 0; n < messages; ++n) {
      const auto message = receiving.receive(soon());
      ASSERT_TRUE(message) << n;
      ASSERT_EQ(message->body, body_of(10'000, n)) << n;
    }
  });
  for (std::uint64_t n = 0; n < messages; ++n) {
    EXPECT_TRUE(a.send(control::memory, body_of(10'000, n)));
  }
  receiver.join();
}

TEST(control_socket, a_full_socket_ends_send_at_its_deadline) {
  auto [a, b] = control_socket::make_pair();
  while (a.try_send(control::memory, body_of(10'000, 1))) {
  }
  const time_point deadline = clock::now() + 20ms;
  EXPECT_FALSE(a.send(control::memory, body_of(10'000, 1), {}, deadline));
  EXPECT_GE(clock::now(), deadline);
}

TEST(control_socket, try_send_does_not_wait) {
  auto [a, b] = control_socket::make_pair();
  const auto body = body_of(10'000, 1);
  std::size_t sent = 0;
  while (a.try_send(control::node_failed, body))
    ++sent;
  EXPECT_GT(sent, 0U);
  for (std::size_t n = 0; n < sent; ++n) {
    const auto message = b.receive(soon());
    ASSERT_TRUE(message);
    EXPECT_EQ(message->body, body);
  }
  EXPECT_TRUE(a.try_send(control::node_failed, body));
  b.close();
  EXPECT_FALSE(a.try_send(control::node_failed, body));
}

// ---- the other side ends ------------------------------------------------------------------------

TEST(control_socket, tells_that_the_other_side_is_gone) {
  auto [a, b] = control_socket::make_pair();
  b.close();
  EXPECT_FALSE(a.send(control::start));
  EXPECT_FALSE(a.send(control::start, body_of(100, 1)));
  EXPECT_FALSE(a.receive(time_point::max()));
}

TEST(control_socket, messages_sent_before_the_end_still_arrive) {
  auto [a, b] = control_socket::make_pair();
  ASSERT_TRUE(a.send(control::joined, bytes_of("last message")));
  a.close();
  const auto message = b.receive(soon());
  ASSERT_TRUE(message);
  EXPECT_EQ(message->body, bytes_of("last message"));
  EXPECT_FALSE(b.receive(time_point::max()));
}

TEST(control_socket, messages_of_a_sender_with_unread_data_arrive) {
  auto [ours, theirs] = control_socket::make_pair();
  ASSERT_TRUE(ours.send(control::hello));
  ASSERT_TRUE(theirs.send(control::ended, {}));
  theirs.close();
  const auto got = ours.receive(no_deadline);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->kind, control::ended);
  EXPECT_FALSE(ours.receive(no_deadline));
}

TEST(control_socket, a_closed_socket_is_disconnected) {
  control_socket none;
  EXPECT_FALSE(none.receive(time_point::max()));
  EXPECT_FALSE(none.send(control::start));
  EXPECT_FALSE(none.try_send(control::start, {}));
  auto [a, b] = control_socket::make_pair();
  a.close();
  EXPECT_EQ(a.fd(), -1);
  EXPECT_FALSE(a.receive(time_point::max()));
}

TEST(control_socket, the_end_of_a_process_ends_its_socket) {
  auto [a, b] = control_socket::make_pair();
  const int ours = a.fd();
  test::forked_child child([ours, &theirs = b] {
    ::close(ours);
    theirs.send(control::present);
    return 0;
  });
  b.close();
  const auto message = a.receive(soon());
  ASSERT_TRUE(message);
  EXPECT_EQ(message->kind, control::present);
  EXPECT_FALSE(a.receive(time_point::max()));
  EXPECT_EQ(child.wait(), 0);
}

// ---- descriptors --------------------------------------------------------------------------------

TEST(control_socket, passes_descriptors_on) {
  auto [a, b] = control_socket::make_pair();
  std::vector<segment> segments;
  std::vector<int> files;
  for (int n = 0; n < 8; ++n) {
    segments.push_back(segment::create("farcall-test", 4096));
    files.push_back(segments.back().fd());
  }
  for (const std::size_t count : {1U, 3U, 8U}) {
    ASSERT_TRUE(a.send(control::memory, bytes_of("x"), std::span(files).first(count)));
    const auto message = b.receive(soon());
    ASSERT_TRUE(message);
    ASSERT_EQ(message->files.size(), count);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_NE(message->files[i].get(), files[i]);
      EXPECT_EQ(file_behind(message->files[i].get()), file_behind(files[i])) << "in this order";
      EXPECT_EQ(::fcntl(message->files[i].get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    }
  }
}

TEST(control_socket, descriptors_lead_to_the_same_memory_in_another_process) {
  auto [a, b] = control_socket::make_pair();
  test::forked_child child([&theirs = b] {
    auto message = theirs.receive(soon());
    if (!message || message->files.size() != 1) return 1;
    const segment memory = segment::map(std::move(message->files[0]), 4096);
    memory.data()[17] = std::byte{42};
    return theirs.send(control::present) ? 0 : 2;
  });
  // Created after the fork, so that the child can get it through the socket only.
  const segment memory = segment::create("farcall-test", 4096);
  const int files[] = {memory.fd()};
  ASSERT_TRUE(a.send(control::memory, {}, files));
  EXPECT_TRUE(a.receive(soon()));
  EXPECT_EQ(memory.data()[17], std::byte{42});
  EXPECT_EQ(child.wait(), 0);
}

TEST(control_socket, dropping_a_message_closes_its_descriptors) {
  auto [a, b] = control_socket::make_pair();
  const segment memory = segment::create("farcall-test", 4096);
  const int files[] = {memory.fd()};
  ASSERT_TRUE(a.send(control::memory, {}, files));
  int number = -1;
  {
    const auto message = b.receive(soon());
    ASSERT_TRUE(message);
    number = message->files[0].get();
  }
  EXPECT_FALSE(is_open(number));
}

TEST(control_socket, a_lack_of_descriptors_is_named_with_the_remedy) {
  auto [a, b] = control_socket::make_pair();
  const segment memory = segment::create("farcall-test", 4096);
  const int files[] = {memory.fd(), memory.fd()};
  ASSERT_TRUE(a.send(control::memory, {}, files));
  test::show_to_sanitizer<error>();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  // Set the limit to the next free number, so that the kernel has to drop the descriptors.
  none.rlim_cur = static_cast<rlim_t>(unique_fd(::dup(0)).get());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  std::string what;
  try {
    (void)b.receive(soon());
  } catch (const error& e) {
    what = e.what();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(what, AllOf(HasSubstr("descriptor"), HasSubstr("ulimit -n")));
}

// ---- limits -------------------------------------------------------------------------------------

TEST(control_socket, oversized_messages_are_not_sent) {
  auto [a, b] = control_socket::make_pair();
  EXPECT_THAT([&] { a.send(control::memory, body_of(max_body + 1, 1)); },
              ThrowsMessage<error>(AllOf(HasSubstr(std::to_string(max_body)),
                                         HasSubstr(std::to_string(max_body + 1)))));
  const std::vector<int> files(9, 0);
  EXPECT_THAT([&] { a.send(control::memory, {}, files); },
              ThrowsMessage<error>(AllOf(HasSubstr("8 descriptors"), HasSubstr("9"))));
  EXPECT_FALSE(b.receive(clock::now())) << "something was sent";
  EXPECT_TRUE(a.send(control::memory, body_of(max_body, 1)));
}

TEST(control_socket, bytes_that_are_no_message_are_refused) {
  auto [a, b] = control_socket::make_pair();
  const auto body = body_of(max_body + sizeof(control) + 1, 1);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{3}, body.size()}) {
    ASSERT_EQ(::send(a.fd(), body.data(), bytes, 0), static_cast<ssize_t>(bytes));
    EXPECT_THROW((void)b.receive(soon()), malformed_message) << bytes;
  }
  // The next message is not affected.
  ASSERT_TRUE(a.send(control::start));
  EXPECT_TRUE(b.receive(soon()));
}

TEST(control_socket, unknown_kinds_are_returned) {
  auto [a, b] = control_socket::make_pair();
  ASSERT_TRUE(a.send(static_cast<control>(0xFFFFFFFF)));
  const auto message = b.receive(soon());
  ASSERT_TRUE(message);
  EXPECT_EQ(message->kind, static_cast<control>(0xFFFFFFFF));
}

// ---- poll_timeout -------------------------------------------------------------------------------

TEST(poll_timeout, rounds_up_to_milliseconds) {
  const int timeout = poll_timeout(clock::now() + 5s + 1ns);
  EXPECT_GE(timeout, 1);
  EXPECT_LE(timeout, 5001);
  EXPECT_GE(poll_timeout(clock::now() + 1h), 3'500'000);
}

TEST(poll_timeout, handles_no_deadline_and_past_deadlines) {
  EXPECT_EQ(poll_timeout(time_point::max()), -1);
  EXPECT_EQ(poll_timeout(clock::now() - 1ns), 0);
  EXPECT_EQ(poll_timeout(time_point{}), 0);
  EXPECT_EQ(poll_timeout(time_point::min()), 0);
  EXPECT_GT(poll_timeout(time_point::max() - 1h), 0);
}

TEST(control_socket, is_disconnected_once_an_end_is_closed) {
  const auto check = [](std::pair<control_socket, control_socket> ends) {
    auto& [one, other] = ends;
    EXPECT_FALSE(one.is_disconnected());
    EXPECT_FALSE(other.is_disconnected());
    ASSERT_TRUE(other.send(control::hello));
    EXPECT_FALSE(one.is_disconnected()) << "a message waits";
    other.close();
    EXPECT_TRUE(one.is_disconnected());
    EXPECT_TRUE(other.is_disconnected());
  };
  check(control_socket::make_pair());
  check(control_socket::make_pair_in_memory());
}

} // namespace
} // namespace farcall::control_socket_test
