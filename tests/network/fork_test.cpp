// SPDX-License-Identifier: Apache-2.0
#include "tests/child.hpp"
#include "tests/network/support.hpp"
#include "tests/sanitizer.hpp"

#include <farcall/base/unique_fd.hpp>
#include <tests/jobs.hpp>

#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

/// Tests processes that fork while they have connections: the child keeps and disturbs none of
/// them.
namespace farcall::test {
namespace {

int negated(int v) { return -v; }

template <class F>
bool throws_forked(F&& f) {
  try {
    std::forward<F>(f)();
  } catch (const forked&) {
    return true;
  }
  return false;
}

/// A job whose first target is started by a server in this process. With a key, or plain.
class network_forks : public ::testing::TestWithParam<bool> {
 protected:
  network_forks() {
    key_ = folder_.make_key(GetParam());
    server_.emplace(local_server(key_));
    job_.emplace(network_job(url_of(*server_) + "?count=2,shm", key_));
    target_ = job_->targets()[0];
  }

  void expect_undisturbed() {
    for (int i = 0; i < 100; ++i)
      ASSERT_EQ(sync(target_.within(wait_limit), negated, i), -i);
    std::thread([&] { EXPECT_EQ(sync(target_.within(wait_limit), negated, 1), -1); }).join();
    std::vector<int> sent(1 << 20);
    std::iota(sent.begin(), sent.end(), 0);
    const auto memory = target_.allocate<int>(sent.size());
    put_sync(sent, memory);
    std::vector<int> back(sent.size());
    get_sync(memory, back);
    EXPECT_EQ(back, sent);
    const std::string text(1 << 20, 'x');
    EXPECT_EQ(sync(target_.within(wait_limit), [](std::string s) { return s; }, text), text);
  }

  scratch_folder folder_;
  std::string key_;
  std::optional<server> server_;
  std::optional<job> job_;
  node target_;
};

TEST_P(network_forks, leave_the_parents_connections_alone) {
  (void)sync(target_, negated, 1);
  const lane own(target_);
  const lane used(target_);
  (void)sync(used, negated, 1);
  const auto memory = target_.allocate<int>(10);
  for (int i = 0; i < 5; ++i) {
    future<int> pending = async(used, negated, i);
    forked_child child([&] {
      const std::vector<std::function<void()>> uses{
          [&] { (void)sync(target_, negated, 7); },
          [&] { (void)async(own, negated, 7); },
          [&] { post(used, negated, 7); },
          [&] { (void)target_.allocate<int>(1); },
          [&] { put_sync(std::vector<int>(10), memory); },
      };
      for (std::size_t u = 0; u < uses.size(); ++u) {
        if (!throws_forked(uses[u])) return static_cast<int>(u) + 1;
      }
      const future<int> dropped = std::move(pending);
      job_.reset();
      return 0;
    });
    EXPECT_EQ(child.wait(), 0);
    EXPECT_EQ(pending.get(), -i);
    expect_undisturbed();
  }
}

TEST_P(network_forks, may_happen_in_handlers) {
  for (const bool returns : {false, true}) {
    EXPECT_EQ(sync(
                  target_.within(wait_limit),
                  [](bool comes_back) {
                    const pid_t child = ::fork();
                    if (child == 0) {
                      if (!throws_forked([] { (void)host(); })) ::_exit(1);
                      if (!comes_back) ::_exit(0);
                      return 77;
                    }
                    int status = 0;
                    if (!eventually([&] { return ::waitpid(child, &status, WNOHANG) == child; })) {
                      ::kill(child, SIGKILL);
                      return 98;
                    }
                    return WIFEXITED(status) ? WEXITSTATUS(status) : 97;
                  },
                  returns),
              0);
    expect_undisturbed();
  }
}

TEST_P(network_forks, do_not_keep_connections_open) {
  const auto stays = [] {
    ::sleep(static_cast<unsigned>(2 * wait_limit.count()));
    return 0;
  };
  (void)sync(target_, negated, 1);
  const node second = job_->targets()[1];
  forked_child child(stays);
  // The end of a target whose own child lives on.
  const pid_t grandchild = sync(second, [] {
    const pid_t made = ::fork();
    if (made == 0) {
      ::sleep(static_cast<unsigned>(2 * wait_limit.count()));
      ::_exit(0);
    }
    return made;
  });
  future<void> never = async(second, [] { std::raise(SIGKILL); });
  EXPECT_TRUE(never.wait_for(wait_limit));
  EXPECT_THROW(never.get(), node_failed);
  ::kill(grandchild, SIGKILL);
  // The end of the job and of the server.
  job_.reset();
  EXPECT_TRUE(comes_true([&] { return server_->targets() == 0; }));
  const std::uint16_t port = port_of(*server_);
  server_.reset();
  server_options again = local_server(key_);
  again.listen.port = port;
  EXPECT_NO_THROW(const server next(std::move(again))) << "nobody else listens there";
}

INSTANTIATE_TEST_SUITE_P(all, network_forks, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "with_key" : "plain"; });

/// A host that this process forks before it has threads: a sanitizer's own locks do not survive the
/// fork of a process with threads.
class forked_network_hosts : public ::testing::TestWithParam<bool> {
 protected:
  forked_network_hosts() { key_ = folder_.make_key(GetParam()); }

  scratch_folder folder_;
  std::string key_;
};

TEST_P(forked_network_hosts, may_be_killed_while_their_child_lives) {
  int to_host[2];
  int from_host[2];
  ASSERT_EQ(::pipe2(to_host, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(from_host, O_CLOEXEC), 0);
  forked_child host([&] {
    std::uint16_t port = 0;
    if (::read(to_host[0], &port, sizeof port) != sizeof port) return 1;
    const job own(network_job("tcp://127.0.0.1:" + std::to_string(port) + ",shm", key_));
    (void)sync(own.targets()[0].within(wait_limit), negated, 1);
    const pid_t child = ::fork();
    if (child == 0) {
      ::sleep(static_cast<unsigned>(2 * wait_limit.count()));
      ::_exit(0);
    }
    if (::write(from_host[1], &child, sizeof child) != sizeof child) return 2;
    for (;;)
      ::pause();
  });
  const unique_fd reads(from_host[0]);
  const unique_fd tells(to_host[1]);
  // This process's copy of the pipe's end would keep read() from ending if the host fails.
  ::close(from_host[1]);
  ::close(to_host[0]);

  std::optional<server> s(local_server(key_));
  const std::uint16_t port = port_of(*s);
  ASSERT_EQ(::write(tells.get(), &port, sizeof port), static_cast<ssize_t>(sizeof port));
  pid_t child = 0;
  ASSERT_EQ(::read(reads.get(), &child, sizeof child), static_cast<ssize_t>(sizeof child))
      << "the host ended with " << host.wait();
  EXPECT_EQ(s->targets(), 1U);
  host.kill();
  EXPECT_TRUE(comes_true([&] { return s->targets() == 0; }));
  ::kill(child, SIGKILL);
  const job next(network_job(url_of(*s), key_));
  EXPECT_EQ(sync(next.targets()[0].within(wait_limit), negated, 5), -5);
}

INSTANTIATE_TEST_SUITE_P(all, forked_network_hosts, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "with_key" : "plain"; });

} // namespace
} // namespace farcall::test
