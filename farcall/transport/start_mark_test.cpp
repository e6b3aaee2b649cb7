// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/control_socket.hpp>
#include <farcall/transport/start_mark.hpp>

#include <gtest/gtest.h>

#include <utility>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::test::start_mark_test {
namespace {

/// Runs `body` in a child of a fork, or its descendant at `depth`, and returns its exit status.
template <class Body>
int status_in_child(start_record* record, int depth, const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(depth > 1 ? status_in_child(nullptr, depth - 1, body) : body());
  if (record != nullptr) record->name(child);
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

int tell_environment() { return tell_lost_mark(lost_mark::variable) ? 1 : 0; }

TEST(start_marks, a_child_finds_the_record_of_its_host) {
  start_record record = start_record::open();
  EXPECT_EQ(record.lost(), lost_mark::none);
  // The child may search before the host has named it.
  EXPECT_EQ(status_in_child(&record, 1, tell_environment), 1);
  EXPECT_EQ(record.lost(), lost_mark::variable);
}

TEST(start_marks, a_descendant_of_the_child_finds_the_record) {
  start_record record = start_record::open();
  EXPECT_EQ(status_in_child(&record, 3, tell_environment), 1);
  EXPECT_EQ(record.lost(), lost_mark::variable);
}

TEST(start_marks, other_children_are_in_no_record) {
  start_record record = start_record::open();
  record.name(::getpid());
  EXPECT_EQ(status_in_child(nullptr, 1, tell_environment), 0);
  EXPECT_EQ(record.lost(), lost_mark::none);
}

TEST(start_marks, a_child_that_has_joined_is_in_no_record) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  start_record record = start_record::open();
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[1]);
    char none = 0;
    (void)::read(ends[0], &none, 1); // waits until the record is destroyed
    ::_exit(tell_environment());
  }
  record.name(child);
  record = start_record();
  ::close(ends[0]);
  ::close(ends[1]);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(start_marks, an_inherited_socket_is_found) {
  auto [ours, theirs] = control_socket::make_pair();
  mark_target_socket(ours.fd());
  EXPECT_EQ(find_target_socket(), -1); // this process's own socket, closed on exec
  ASSERT_EQ(::fcntl(theirs.fd(), F_SETFD, 0), 0);
  ASSERT_EQ(::fcntl(ours.fd(), F_SETFD, 0), 0);
  EXPECT_EQ(find_target_socket(), theirs.fd());
  theirs.close();
  EXPECT_EQ(find_target_socket(), -1);
}

TEST(start_marks, an_inherited_socket_is_taken_once) {
  const auto [ours, theirs] = control_socket::make_pair();
  mark_target_socket(ours.fd());
  const int socket = theirs.fd();
  EXPECT_EQ(status_in_child(nullptr, 1, [&] { return claim_target_socket(socket) ? 1 : 0; }), 1);
  EXPECT_EQ(status_in_child(nullptr, 1, [&] { return claim_target_socket(socket) ? 1 : 0; }), 0);
  EXPECT_FALSE(claim_target_socket(socket));
}

TEST(start_marks, a_host_that_starts_targets_has_no_mark) {
  const limit_scope marked(target_program::of_host);
  EXPECT_EQ(find_limit_mark(), limit_mark::none);
  EXPECT_EQ(status_in_child(nullptr, 1, [] { return static_cast<int>(find_limit_mark()); }), 0);
}

} // namespace
} // namespace farcall::test::start_mark_test
