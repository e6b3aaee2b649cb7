// SPDX-License-Identifier: Apache-2.0
#include "tests/network/support.hpp"

#include <farcall/transport/tcp/secret.hpp>
#include <farcall/transport/tcp/socket.hpp>
#include <farcall/transport/tcp/unix_socket.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/// Tests servers at Unix sockets: they rely on file permissions, and need no key.
namespace farcall::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uid_t nobody = 65534;

class unix_server : public testing::Test {
 protected:
  [[nodiscard]] server_options at_path() const {
    server_options o = local_server();
    o.plain = false;
    o.listen = {path_};
    return o;
  }

  scratch_folder folder_;
  std::string path_ = folder_.file("socket");
  std::string url_ = "unix://" + path_;
};

TEST_F(unix_server, needs_no_key_and_no_flag_and_leaves_nothing) {
  {
    const server s(at_path());
    EXPECT_EQ(url_of(s), url_);
    EXPECT_THAT(s.protection_at({path_}), HasSubstr("for its own user"));
    const job j(network_job(url_ + "?count=2,shm"));
    for (const node& n : j.targets())
      EXPECT_EQ(sync(n, [] { return 7; }), 7);
    EXPECT_THAT(j.targets().front().description().route, HasSubstr("Unix socket"));
    // Also from target to target.
    const node first = j.targets()[0];
    for (const node& to : {j.targets()[1], j.targets()[2]})
      EXPECT_EQ(sync(first, [](node other) { return sync(other, [] { return 8; }); }, to), 8);
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(unix_server, may_have_a_key_too) {
  server_options o = at_path();
  o.access.key = folder_.file("key");
  tcp::write_key_file(o.access.key);
  const server s(o);
  EXPECT_THAT(text_thrown_by<start_failed>([&] { const job j(network_job(url_)); }),
              HasSubstr("it wants a key"));
  const job j(network_job(url_, o.access.key));
  EXPECT_EQ(sync(j.targets().front(), [] { return 7; }), 7);
}

TEST_F(unix_server, that_is_not_there_is_told_by_its_path) {
  EXPECT_THAT(text_thrown_by<start_failed>([&] { const job j(network_job(url_)); }),
              AllOf(HasSubstr(path_), HasSubstr("nothing listens there")));
}

TEST_F(unix_server, is_named_by_an_absolute_path) {
  for (const char* url : {"unix://socket", "unix:socket", "unix", "unix://localhost:9",
                          "tcp:///tmp/socket", "unix://"})
    EXPECT_THAT(text_thrown_by<setting_error>([&] { const job j(network_job(url)); }),
                HasSubstr(url));
}

/// A socket with a full backlog.
class full_socket {
 public:
  explicit full_socket(const std::string& path) : listener_(tcp::listen_at(path)) {
    ::listen(listener_.get(), 0);
    try {
      for (;;)
        waiting_.push_back(tcp::start_connect(tcp::socket_address::of_path(path)));
    } catch (const tcp::listener_busy&) {
      // The backlog is full.
    }
  }

 private:
  unique_fd listener_;
  std::vector<unique_fd> waiting_;
};

TEST_F(unix_server, with_a_full_backlog_is_waited_for) {
  const full_socket full(path_);
  job_options o = network_job(url_);
  o.start_timeout = std::chrono::milliseconds(300);
  EXPECT_THAT(
      text_thrown_by<start_failed>([&] { const job j(o); }),
      AllOf(HasSubstr(path_), HasSubstr("more connections wait there"), HasSubstr("stopped")));
}

// ---- other users --------------------------------------------------------------------------------

constexpr const char* path_variable = "FARCALL_TEST_UNIX_PATH";

/// Becomes user nobody, before this process has a second thread; returns the path from the
/// environment.
std::string path_for_nobody() {
  const char* const told = std::getenv(path_variable);
  if (told == nullptr || ::setgid(nobody) != 0 || ::setuid(nobody) != 0) std::exit(90);
  return told;
}

int be_host_of_nobody() {
  const std::string path = path_for_nobody();
  try {
    const job j(network_job("unix://" + path));
    say("came in");
  } catch (const error& e) {
    say(e.what());
  }
  return 0;
}
const role host_role("unix_host_of_nobody", be_host_of_nobody);

int be_server_of_nobody() {
  const std::string path = path_for_nobody();
  block_end_signals();
  server_options o = local_server();
  o.plain = false;
  o.listen = {path};
  server s(o);
  serve_until_signalled(s);
  return 0;
}
const role server_role("unix_server_of_nobody", be_server_of_nobody);

class unix_server_of_users : public unix_server {
 protected:
  void SetUp() override {
    allow(folder_.file(""), 0755);
    if (!is_open_to_nobody(folder_.file(""))) GTEST_SKIP() << "only root can be another user";
  }
  /// Also false if this process cannot become that user.
  static bool is_open_to_nobody(const std::string& folder) {
    const pid_t child = ::fork();
    if (child == 0) {
      const bool is_nobody = ::setgid(nobody) == 0 && ::setuid(nobody) == 0;
      ::_exit(is_nobody && ::access(folder.c_str(), X_OK) == 0 ? 0 : 1);
    }
    int status = -1;
    return ::waitpid(child, &status, 0) == child && status == 0;
  }
  void allow(const std::string& path, mode_t mode) const {
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
  }

  scoped_variable variable_{path_variable, path_.c_str()};
};

TEST_F(unix_server_of_users, keeps_others_out_by_its_rights) {
  captured_log log;
  const server s(at_path());
  EXPECT_THAT(role_process("unix_host_of_nobody").line(),
              AllOf(HasSubstr(path_), HasSubstr("Permission denied")));
  EXPECT_EQ(log.count("refused"), 0U) << "the system has done it";
}

TEST_F(unix_server_of_users, keeps_others_out_where_somebody_has_changed_the_rights) {
  captured_log log;
  const server s(at_path());
  allow(path_, 0666);
  EXPECT_THAT(role_process("unix_host_of_nobody").line(),
              AllOf(HasSubstr(url_), HasSubstr("own user only")));
  EXPECT_TRUE(log.comes_to_say("only our own user has targets here"));
  EXPECT_EQ(s.targets(), 0U);
}

TEST_F(unix_server_of_users, is_trusted_by_its_own_user_only) {
  allow(folder_.file(""), 0777);
  role_process serving("unix_server_of_nobody");
  ASSERT_THAT(serving.line(), HasSubstr(url_));
  EXPECT_THAT(text_thrown_by<start_failed>([&] { const job j(network_job(url_)); }),
              AllOf(HasSubstr(url_), HasSubstr("another user's")));
}

/// The server would be refused anyway if it accepted.
TEST_F(unix_server_of_users, run_by_another_user_is_not_waited_for) {
  const full_socket full(path_);
  ASSERT_EQ(::chown(path_.c_str(), nobody, nobody), 0);
  const time_point begun = clock::now();
  job_options o = network_job(url_);
  o.start_timeout = std::chrono::seconds(60);
  EXPECT_THAT(text_thrown_by<start_failed>([&] { const job j(o); }),
              AllOf(HasSubstr(url_), HasSubstr("another user's"), HasSubstr("FARCALL_KEY")));
  EXPECT_LT(clock::now() - begun, std::chrono::seconds(30));
}

} // namespace
} // namespace farcall::test
