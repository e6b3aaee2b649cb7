// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/admission_request.hpp>
#include <farcall/transport/tcp/stream_test_support.hpp>
#include <farcall/transport/tcp/unix_socket_test_support.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

namespace farcall::tcp::admission_request_test {
namespace {

using namespace test_support;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class admission_request_test : public testing::Test {
 protected:
  [[nodiscard]] static socket_address where(const unique_fd& listener) {
    return resolve(local_address(listener.get())).front();
  }
  [[nodiscard]] static unique_fd listener() {
    return std::move(listen_on({"127.0.0.1", 0}).front());
  }

  /// Waits for the request's events and continues it, like its owner.
  static bool advance_once(admission_request& request) {
    std::vector<pollfd> all;
    request.watch(all);
    const auto until = std::min(request.next_poll(), clock::now() + std::chrono::milliseconds(10));
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - clock::now());
    ::poll(all.data(), all.size(), std::max(0, static_cast<int>(left.count())));
    return request.advance(clock::now());
  }
  static bool advance_to_end(admission_request& request) {
    return test::eventually([&] { return advance_once(request); });
  }

  /// Returns the server's end of a connection, and checks the preamble it received.
  unique_fd taken_from(const unique_fd& at, admission_request& request) {
    std::optional<unique_fd> come;
    EXPECT_TRUE(test::eventually([&] {
      EXPECT_FALSE(advance_once(request));
      return (come = accept_from(at.get())).has_value();
    }));
    preamble received;
    EXPECT_TRUE(test::eventually([&] {
      EXPECT_FALSE(advance_once(request));
      return ::recv(come->get(), &received, sizeof received, MSG_DONTWAIT) ==
             static_cast<ssize_t>(sizeof received);
    }));
    EXPECT_EQ(std::memcmp(&received, &first_, sizeof received), 0);
    return std::move(*come);
  }

  template <class Message>
  static void say(const unique_fd& to, const Message& m) {
    EXPECT_EQ(::send(to.get(), &m, sizeof m, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof m));
  }

  static auto to_end_of(admission_request& request) {
    return [&request] { (void)advance_to_end(request); };
  }

  const preamble first_{.kind = connection_kind::control, .to = 5};
  unique_fd listener_ = listener();
  admission_request request_{{where(listener_)}, "that server", first_};
};

TEST_F(admission_request_test, returns_the_connection_once_admitted) {
  const unique_fd server = taken_from(listener_, request_);
  admission_message word;
  word.word = admission::come_in;
  // In two parts.
  const auto* const bytes = reinterpret_cast<const char*>(&word);
  ASSERT_EQ(::send(server.get(), bytes, 10, MSG_NOSIGNAL), 10);
  EXPECT_FALSE(advance_once(request_));
  ASSERT_EQ(::send(server.get(), bytes + 10, sizeof word - 10, MSG_NOSIGNAL),
            static_cast<ssize_t>(sizeof word - 10));
  // The bytes after it are for the connection's next reader.
  ASSERT_EQ(::send(server.get(), "more", 4, MSG_NOSIGNAL), 4);
  ASSERT_TRUE(advance_to_end(request_));
  const unique_fd connection = request_.take();
  char received[8];
  EXPECT_EQ(::recv(connection.get(), received, sizeof received, 0), 4);
}

TEST_F(admission_request_test, reports_the_servers_reason) {
  for (const admission word :
       {admission::other_version, admission::needs_key, admission::has_no_key, admission::is_full,
        admission::is_draining, admission::is_of_another_user}) {
    admission_request request({where(listener_)}, "that server", first_);
    const unique_fd server = taken_from(listener_, request);
    admission_message said;
    said.word = word;
    say(server, said);
    EXPECT_THAT(to_end_of(request), ThrowsMessage<error>(refusal_text(word)));
  }
}

TEST_F(admission_request_test, names_the_release_of_a_server_of_another_version) {
  const unique_fd server = taken_from(listener_, request_);
  admission_message said;
  said.word = admission::come_in;
  said.version = connection_version + 1;
  said.release = 0x000200;
  // The rest of a later admission may be of any length: only its first bytes are read.
  const auto* const bytes = reinterpret_cast<const char*>(&said);
  ASSERT_EQ(::send(server.get(), bytes, 13, MSG_NOSIGNAL), 13);
  EXPECT_FALSE(advance_once(request_));
  ASSERT_EQ(::send(server.get(), bytes + 13, 7, MSG_NOSIGNAL), 7);
  EXPECT_THAT(to_end_of(request_),
              ThrowsMessage<error>(AllOf(HasSubstr("another version of farcall"),
                                         HasSubstr("farcall " + release_text(this_release)),
                                         HasSubstr("farcall 0.2.0"))));
}

TEST_F(admission_request_test, names_the_versions_of_servers_without_a_release) {
  const unique_fd server = taken_from(listener_, request_);
  // The admission of connection version 8: magic, version, and the word for another version.
  struct {
    std::uint64_t magic = preamble_magic;
    std::uint32_t version = 8;
    admission word = admission::other_version;
  } const said;
  static_assert(sizeof said == 16);
  say(server, said);
  EXPECT_THAT(to_end_of(request_),
              ThrowsMessage<error>(AllOf(HasSubstr("connection version 8) there"),
                                         HasSubstr("wire version " + std::to_string(wire_version)),
                                         HasSubstr("wire version 16 or less"))));
}

TEST_F(admission_request_test, distinguishes_other_programs_from_servers) {
  admission_request other({where(listener_)}, "that server", first_);
  const unique_fd stranger = taken_from(listener_, other);
  const std::string greeting = "220 mail.example ESMTP";
  ASSERT_GT(::send(stranger.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL), 0);
  EXPECT_THAT(to_end_of(other), ThrowsMessage<error>("it is no server of farcall"));
}

TEST_F(admission_request_test, reports_the_connections_end) {
  (void)taken_from(listener_, request_);
  EXPECT_THAT(to_end_of(request_), ThrowsMessage<error>(HasSubstr("it ended the connection")));
}

TEST_F(admission_request_test, tries_the_next_address) {
  const silent_address silent;
  const socket_address dead = where(listener());
  admission_request request({dead, silent.where(), where(listener_)}, "that server", first_);
  const unique_fd server = taken_from(listener_, request);
  admission_message word;
  word.word = admission::come_in;
  say(server, word);
  EXPECT_TRUE(advance_to_end(request));
}

TEST_F(admission_request_test, skips_addresses_of_other_programs) {
  const unique_fd elsewhere = listener();
  const unique_fd silent = listener();
  admission_request request({where(elsewhere), where(silent), where(listener_)}, "that server",
                            first_);
  {
    const unique_fd stranger = taken_from(elsewhere, request);
    const std::string greeting = "HTTP/1.1 400 Bad Request\r\n";
    ASSERT_GT(::send(stranger.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL), 0);
  }
  const unique_fd one_who_waits = taken_from(silent, request);
  const unique_fd server = taken_from(listener_, request);
  admission_message word;
  word.word = admission::come_in;
  say(server, word);
  ASSERT_TRUE(advance_to_end(request));
  EXPECT_EQ(peer_text(request.take().get()), where(listener_).text());
}

TEST_F(admission_request_test, reports_the_failure_of_each_address) {
  const unique_fd silent = listener();
  const socket_address dead = where(listener());
  admission_request request({where(listener_), dead, where(silent)}, "that server", first_);
  const unique_fd server = taken_from(listener_, request);
  admission_message said;
  said.word = admission::is_full;
  say(server, said);
  const unique_fd one_who_waits = taken_from(silent, request);
  EXPECT_THAT([&] { request.throw_overdue(); },
              ThrowsMessage<timeout>(
                  AllOf(HasSubstr(where(listener_).text() + ": it has as many targets"),
                        HasSubstr(dead.text() + ": Connection refused"),
                        HasSubstr(where(silent).text() + ": it takes connections and does not"))));
}

TEST_F(admission_request_test, reports_a_refusal_despite_silent_addresses) {
  const unique_fd mute = listener();
  const silent_address silent;
  admission_request request({where(mute), silent.where(), where(listener_)}, "that server", first_);
  const unique_fd one_who_waits = taken_from(mute, request);
  const unique_fd server = taken_from(listener_, request);
  admission_message said;
  said.word = admission::is_draining;
  say(server, said);
  EXPECT_FALSE(advance_once(request)) << "others may reply";
  EXPECT_THAT(to_end_of(request),
              ThrowsMessage<error>(
                  AllOf(HasSubstr(where(listener_).text() + ": it is draining"),
                        HasSubstr(silent.where().text() + ": no "),
                        HasSubstr(where(mute).text() + ": it takes connections and does not"))));
}

TEST_F(admission_request_test, fails_where_no_address_replies) {
  const socket_address dead = where(listener());
  admission_request request({dead}, "that server", first_);
  EXPECT_THAT(to_end_of(request), ThrowsMessage<error>(AllOf(HasSubstr("to that server"),
                                                             HasSubstr("Connection refused"))));
}

TEST_F(admission_request_test, without_a_key_avoids_another_users_process) {
  const listener_of_nobody other;
  if (!other.is_there()) GTEST_SKIP() << "only root can be another user";
  admission_request request({resolve({other.path()}).front()}, "that server", first_);
  EXPECT_THAT(to_end_of(request), ThrowsMessage<error>(another_users_server));
}

TEST_F(admission_request_test, reports_the_overdue_step) {
  const silent_address silent;
  admission_request request({silent.where()}, "that server", first_);
  EXPECT_FALSE(advance_once(request));
  EXPECT_THAT(
      [&] { request.throw_overdue(); },
      ThrowsMessage<timeout>(AllOf(HasSubstr("to that server"), HasSubstr("no reply in time"))));
  const unique_fd server = taken_from(listener_, request_);
  EXPECT_THAT([&] { request_.throw_overdue(); },
              ThrowsMessage<error>("it takes connections and does not reply"));
}

} // namespace
} // namespace farcall::tcp::admission_request_test
