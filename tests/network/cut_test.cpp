// SPDX-License-Identifier: Apache-2.0
#include "tests/network/proxy.hpp"
#include "tests/network/support.hpp"

#include <farcall/transport/tcp/socket.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>

#include <linux/filter.h>
#include <sys/socket.h>

/// Tests connections that end although both nodes live. Node 1 is reached through a proxy, node 2
/// directly.
namespace farcall::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::chrono::seconds at_the_latest{20};

enum class cut : std::uint8_t { reset, finish, silence };

struct how {
  const char* name;
  cut by;
  bool has_key;
};

void PrintTo(const how& h, std::ostream* out) { *out << h.name; }

class network_cut_test : public testing::TestWithParam<how> {
 protected:
  network_cut_test() {
    key_ = folder_.make_key(GetParam().has_key);
    server_.emplace(local_server(key_));
    between_.emplace(port_of(*server_));
    job_options o = network_job(between_->url() + "," + url_of(*server_), key_);
    o.heartbeat_timeout = std::chrono::milliseconds(500);
    job_.emplace(o);
    victim_ = job_->targets()[0];
    other_ = job_->targets()[1];
    pid_ = sync(victim_, ::getpid);
    other_pid_ = sync(other_, ::getpid);
  }

  void cut_it(std::size_t from = 0) {
    switch (GetParam().by) {
    case cut::reset:
      between_->reset(from);
      return;
    case cut::finish:
      between_->finish(from);
      return;
    case cut::silence:
      between_->fall_silent();
      return;
    }
  }

  void expect_only_the_victim_is_gone() {
    EXPECT_THROW(sync(victim_, [] {}), node_failed);
    EXPECT_FALSE(victim_.alive());
    EXPECT_TRUE(other_.alive());
    EXPECT_EQ(sync(other_, [] { return 5; }), 5);
    // A process that has lost its host must end.
    EXPECT_TRUE(all_end_within({pid_}, at_the_latest));
    EXPECT_TRUE(comes_true([&] { return server_->targets() == 1; }));
  }

  scratch_folder folder_;
  std::string key_;
  std::optional<server> server_;
  std::optional<proxy> between_;
  std::optional<job> job_;
  node victim_;
  node other_;
  pid_t pid_ = 0;
  pid_t other_pid_ = 0;
};

INSTANTIATE_TEST_SUITE_P(
    all, network_cut_test,
    testing::Values(how{"reset", cut::reset, false}, how{"reset_key", cut::reset, true},
                    how{"finish", cut::finish, false}, how{"finish_key", cut::finish, true},
                    how{"silence", cut::silence, false}, how{"silence_key", cut::silence, true}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(network_cut_test, pending_calls_fail_with_the_nodes_name) {
  const captured_log log;
  std::vector<future<void>> all;
  for (int i = 0; i < 20; ++i)
    all.push_back(async(victim_, [] { ::usleep(20'000'000); }));
  future<int> slow = async(other_, [] {
    ::usleep(800'000);
    return 3;
  });
  cut_it();
  for (auto& f : all) {
    const auto e = thrown_by<node_failed>([&] { f.get(); });
    ASSERT_TRUE(e);
    EXPECT_EQ(e->node(), victim_.id());
    EXPECT_THAT(e->what(), testing::AllOf(HasSubstr("node 1"), HasSubstr(between_->url())));
  }
  EXPECT_EQ(slow.get(), 3);
  expect_only_the_victim_is_gone();
}

TEST_P(network_cut_test, calls_run_at_most_once) {
  const captured_log log;
  constexpr std::size_t calls = 2000;
  std::vector<future<std::size_t>> all;
  const auto work = [](const std::string& file, std::size_t v) {
    mark(file);
    return v;
  };
  for (std::size_t i = 0; i < calls; ++i) {
    try {
      all.push_back(async(victim_, work, folder_.file(std::to_string(i)), i));
    } catch (const node_failed&) {
      break;
    }
    if (i == calls / 2) cut_it();
  }
  std::size_t values = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    try {
      EXPECT_EQ(all[i].get(), i);
      EXPECT_EQ(marks(folder_.file(std::to_string(i))), 1U);
      ++values;
    } catch (const node_failed&) {
      EXPECT_LE(marks(folder_.file(std::to_string(i))), 1U);
    }
  }
  EXPECT_LE(values, calls);
  expect_only_the_victim_is_gone();
}

TEST_P(network_cut_test, targets_learn_that_another_is_lost) {
  const captured_log log;
  future<void> f =
      async(other_, [](const node& n) { sync(n, [] { ::usleep(20'000'000); }); }, victim_);
  future<void> back =
      async(victim_, [](const node& n) { sync(n, [] { ::usleep(300'000); }); }, job_->host());
  ::usleep(50'000);
  cut_it();
  const auto e = thrown_by<remote_error>([&] { f.get(); });
  ASSERT_TRUE(e);
  EXPECT_EQ(e->type_name(), "farcall::node_failed");
  EXPECT_THAT(e->what(), HasSubstr("node 1"));
  EXPECT_THROW(back.get(), node_failed);
}

TEST_P(network_cut_test, copies_fail_too) {
  const captured_log log;
  const auto there = victim_.allocate<char>(50'000'000);
  const std::vector<char> sent(50'000'000, 'x');
  future<void> f = put(sent, there);
  cut_it();
  try {
    f.get();
  } catch (const node_failed&) {
  }
  // Until the server counts as silent, the node is reached at another address.
  EXPECT_TRUE(comes_true([&] {
    try {
      put(sent, there).get();
      return false;
    } catch (const node_failed&) {
      return true;
    }
  }));
  expect_only_the_victim_is_gone();
}

TEST_P(network_cut_test, the_job_ends_soon_afterwards) {
  const captured_log log;
  post(victim_, [] { ::usleep(20'000'000); });
  cut_it();
  job_.reset();
  EXPECT_TRUE(all_end_within({pid_, other_pid_}, at_the_latest));
  EXPECT_TRUE(comes_true([&] { return server_->targets() == 0; }));
}

/// The connection to the server survives, the others do not: a call on one of them must not wait
/// for ever.
TEST_P(network_cut_test, calls_on_a_lane_that_is_lost_fail) {
  if (GetParam().by == cut::silence) return;
  const captured_log log;
  future<void> f = async(victim_, [] { ::usleep(1'000'000); });
  ::usleep(50'000);
  cut_it(1);
  const auto e = thrown_by<node_failed>([&] { f.get(); });
  ASSERT_TRUE(e);
  EXPECT_THAT(e->what(), HasSubstr("node 1"));
  EXPECT_EQ(sync(other_, [] { return 5; }), 5);
  // The node lives, and new lanes reach it.
  EXPECT_TRUE(victim_.alive());
  const lane l(victim_);
  EXPECT_EQ(sync(l, ::getpid), pid_);
  EXPECT_EQ(sync(victim_, ::getpid), pid_);
}

/// Makes the system drop connections to this process's listener at that port.
void have_nobody_come_to(std::uint16_t port) {
  sock_filter drop_all{BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog filter{1, &drop_all};
  int done = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    int listens = 0;
    socklen_t size = sizeof listens;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0 ||
        tcp::local_address(fd).port != port) {
      continue;
    }
    done += ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0 ? 1 : 0;
  }
  EXPECT_EQ(done, 1);
}

/// A target asks the host to connect, and the connection ends on its way: no call may wait for it
/// for ever.
TEST(network_connections_back, that_are_not_made_time_out) {
  const captured_log log;
  const server s(local_server());
  proxy between(port_of(s));
  job_options o = network_job(between.url());
  o.heartbeat_timeout = std::chrono::milliseconds(300);
  const job j(o);
  const node& target = j.targets().front();
  const pid_t pid = sync(target, ::getpid);
  between.turn_away();
  have_nobody_come_to(port_of(s));
  future<int> call = async(target, [] { return sync(host(), [] { return 1; }); });
  EXPECT_TRUE(call.wait_for(at_the_latest));
  const std::vector<char> large(1'000'000, 'x');
  future<std::size_t> copy =
      async(target, [](const std::vector<char>& v) { return v.size(); }, large);
  EXPECT_TRUE(copy.wait_for(at_the_latest));
  if (testing::Test::HasFailure()) ::kill(pid, SIGKILL);
  EXPECT_THROW((void)call.get(), error);
  EXPECT_THAT(text_thrown_by<remote_error>([&] { (void)copy.get(); }),
              AllOf(HasSubstr("1000008 bytes"), HasSubstr("fetched from the host"),
                    HasSubstr("was asked to connect, and could not")));
  EXPECT_EQ(sync(target, ::getpid), pid);
}

/// A forwarder has dropped a connection that was idle for a while.
TEST(network_idle_connections, that_have_ended_are_replaced) {
  const captured_log log;
  const server s(local_server());
  proxy between(port_of(s));
  const job j(network_job(between.url()));
  const std::vector<int> sent(100'000, 7);
  std::vector<int> got(sent.size());
  const auto there = j.targets().front().allocate<int>(sent.size());
  put(sent, there).get();
  const std::size_t last = between.recorded().size() - 1;
  between.reset(last);
  put(sent, there).get();
  between.reset(last + 1);
  get(there, got).get();
  EXPECT_EQ(got, sent);
}

/// A silence shorter than the heartbeat timeout has no effect.
TEST_P(network_cut_test, a_short_silence_does_no_harm) {
  if (GetParam().by != cut::silence) return;
  future<int> f = async(victim_, [] { return 4; });
  between_->fall_silent();
  ::usleep(150'000);
  between_->speak_again();
  EXPECT_EQ(f.get(), 4);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(sync(victim_, [](int v) { return v; }, i), i);
}

} // namespace
} // namespace farcall::test
