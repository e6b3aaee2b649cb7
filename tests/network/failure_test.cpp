// SPDX-License-Identifier: Apache-2.0
#include "tests/network/proxy.hpp"
#include "tests/network/support.hpp"

#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/relay.hpp>
#include <farcall/transport/tcp/remote_target.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <sys/socket.h>

/// Tests the ends of targets, servers and hosts that farcall takes for different machines.
namespace farcall::test::failure_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

/// Long, as the machine may be busy.
constexpr seconds at_the_latest{20};

class network_failure_test : public testing::TestWithParam<bool> {
 protected:
  network_failure_test() {
    key_ = folder_.make_key(GetParam());
    server_.emplace(local_server(key_));
    job_.emplace(network_job(url_of(*server_) + "?count=2,shm", key_));
    victim_ = job_->targets()[0];
    others_ = {job_->targets()[1], job_->targets()[2]};
    for (const node& n : job_->targets())
      pids_.push_back(sync(n, ::getpid));
  }

  /// Ends the victim by `act`; returns the error that the host gets.
  template <class F>
  std::string end_of(F act) {
    const auto e = thrown_by<node_failed>([&] { sync(victim_, act); });
    if (!e) return "";
    EXPECT_EQ(e->node(), victim_.id());
    expect_only_the_victim_is_gone();
    return e->what();
  }

  void expect_only_the_victim_is_gone() {
    EXPECT_FALSE(victim_.alive());
    EXPECT_THROW(sync(victim_, [] {}), node_failed);
    EXPECT_THROW((void)victim_.allocate<int>(1), node_failed);
    for (const node& other : others_) {
      EXPECT_TRUE(other.alive());
      EXPECT_EQ(sync(other, [] { return 5; }), 5);
      const auto e = thrown_by<remote_error>(
          [&] { sync(other, [](const node& n) { sync(n, [] {}); }, victim_); });
      ASSERT_TRUE(e);
      EXPECT_EQ(e->type_name(), "farcall::node_failed");
    }
    EXPECT_TRUE(all_end_within({pids_[0]}, at_the_latest));
  }

  scratch_folder folder_;
  std::string key_;
  std::optional<server> server_;
  std::optional<job> job_;
  node victim_;
  std::vector<node> others_;
  std::vector<pid_t> pids_;
};

INSTANTIATE_TEST_SUITE_P(plain_and_key, network_failure_test, testing::Bool(),
                         [](const auto& info) { return info.param ? "key" : "plain"; });

void crash_quietly() {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
}

TEST_P(network_failure_test, exit_in_a_handler) {
  const std::string why = end_of([] { std::exit(3); });
  EXPECT_THAT(why, HasSubstr("node 1"));
  EXPECT_THAT(why, HasSubstr(url_of(*server_)));
  EXPECT_THAT(why, HasSubstr("exited with status 3"));
}

TEST_P(network_failure_test, abort_in_a_handler) {
  EXPECT_THAT(end_of([] {
                crash_quietly();
                std::abort();
              }),
              testing::AnyOf(HasSubstr("SIGABRT"), HasSubstr("exited with status")));
}

TEST_P(network_failure_test, kill_while_it_works) {
  future<void> f = async(victim_, [] { ::usleep(20'000'000); });
  future<int> other = async(others_[0], [] {
    ::usleep(300'000);
    return 4;
  });
  ::kill(pids_[0], SIGKILL);
  EXPECT_THAT(text_thrown_by<node_failed>([&] { f.get(); }),
              testing::AllOf(HasSubstr("node 1"), HasSubstr("SIGKILL")));
  EXPECT_EQ(other.get(), 4);
  expect_only_the_victim_is_gone();
}

TEST_P(network_failure_test, a_stopped_target_fails_despite_a_working_server) {
  job_options o = network_job(url_of(*server_), key_);
  o.peer_timeout = milliseconds(200);
  const job asking(o);
  const node victim = asking.targets()[0];
  // A call for the number would fail on a busy machine, where the target may be silent for as long.
  const int pid = static_cast<int>(victim.description().pid);
  EXPECT_THAT(text_thrown_by<node_failed>([&] { sync(victim, [] { std::raise(SIGSTOP); }); }),
              testing::AllOf(HasSubstr("node 1"), HasSubstr("did not reply for 200 ms")));
  EXPECT_TRUE(all_end_within({pid}, at_the_latest));
  EXPECT_EQ(sync(victim_, [] { return 4; }), 4);
}

TEST_P(network_failure_test, every_call_ends_once_with_value_or_failure) {
  constexpr std::size_t calls = 300;
  std::vector<future<std::size_t>> all;
  for (std::size_t i = 0; i < calls; ++i) {
    all.push_back(async(
        victim_,
        [](const std::string& file, std::size_t v) {
          mark(file);
          if (v == 150) ::_exit(1);
          return v;
        },
        folder_.file(std::to_string(i)), i));
  }
  std::size_t values = 0;
  std::size_t failures = 0;
  for (std::size_t i = 0; i < calls; ++i) {
    try {
      EXPECT_EQ(all[i].get(), i);
      EXPECT_EQ(marks(folder_.file(std::to_string(i))), 1U);
      ++values;
    } catch (const node_failed&) {
      EXPECT_LE(marks(folder_.file(std::to_string(i))), 1U);
      ++failures;
    }
  }
  EXPECT_LE(values, 150U);
  EXPECT_EQ(values + failures, calls);
}

TEST_P(network_failure_test, copies_with_a_dead_target_fail) {
  const auto there = victim_.allocate<char>(30'000'000);
  const std::vector<char> sent(30'000'000, 'x');
  future<void> f = put(sent, there);
  ::kill(pids_[0], SIGKILL);
  try {
    f.get(); // The copy may have finished before.
  } catch (const node_failed&) {
  }
  EXPECT_THROW(sync(victim_, [] {}), node_failed);
  EXPECT_THROW(put(sent, there).get(), node_failed);
  EXPECT_THROW(copy(there, others_[0].allocate<char>(30'000'000)).get(), error);
}

// A put to a stopped target has ended at its deadline, and other copies wait until the target
// refuses the rest of the put. A long reply is read by such a copy, with the guard of its lane
// held.
TEST_P(network_failure_test, copies_behind_a_late_put_end_with_the_target) {
  const std::vector<char> sent(30'000'000, 'x');
  const auto there = victim_.allocate<char>(sent.size());
  const lane stream(victim_);
  future<std::vector<char>> reply = async(stream, [] { return std::vector<char>(1'000'000, 'y'); });
  const std::string file = folder_.file("next");
  post(stream, [](const std::string& f) { mark(f); }, file);
  ASSERT_TRUE(comes_true([&] { return marks(file) == 1; })) << "the reply was sent before";
  ::kill(pids_[0], SIGSTOP);
  EXPECT_THROW(put_sync(sent, there.within(milliseconds(100))), timeout);
  ::kill(pids_[0], SIGKILL);
  EXPECT_TRUE(comes_true([&] { return !victim_.alive(); }));
  EXPECT_THROW((void)reply.get(), node_failed);
  expect_only_the_victim_is_gone();
}

TEST_P(network_failure_test, long_replies_end_with_the_target) {
  const lane stream(victim_);
  future<std::vector<char>> reply = async(stream, [] { return std::vector<char>(1'000'000, 'y'); });
  const std::string file = folder_.file("next");
  post(stream, [](const std::string& f) { mark(f); }, file);
  ASSERT_TRUE(comes_true([&] { return marks(file) == 1; })) << "the reply was sent before";
  ::kill(pids_[0], SIGSTOP);
  std::thread killer([&] {
    std::this_thread::sleep_for(milliseconds(50)); // reply.get() reads the bytes by now
    ::kill(pids_[0], SIGKILL);
  });
  EXPECT_THROW((void)reply.get(), node_failed);
  killer.join();
  expect_only_the_victim_is_gone();
}

TEST_P(network_failure_test, a_server_that_ends_takes_its_targets_along) {
  future<void> f = async(victim_, [] { ::usleep(20'000'000); });
  server_.reset();
  EXPECT_THAT(text_thrown_by<node_failed>([&] { f.get(); }), HasSubstr("node 1"));
  EXPECT_TRUE(all_end_within({pids_[0], pids_[1]}, at_the_latest));
  EXPECT_THROW(sync(others_[0], [] {}), node_failed);
  EXPECT_EQ(sync(others_[1], [] { return 6; }), 6);
}

TEST_P(network_failure_test, targets_that_hang_are_killed_when_the_job_ends) {
  job_.reset();
  job_options o = network_job(url_of(*server_), key_);
  o.stop_timeout = milliseconds(300);
  pid_t pid = 0;
  {
    const job j(o);
    pid = sync(j.targets()[0], ::getpid);
    ::kill(pid, SIGSTOP);
  }
  EXPECT_TRUE(all_end_within({pid}, at_the_latest));
  EXPECT_TRUE(comes_true([&] { return server_->targets() == 0; }));
}

TEST_P(network_failure_test, jobs_whose_targets_die_leave_nothing_behind) {
  job_.reset();
  ASSERT_TRUE(comes_true([&] { return server_->targets() == 0; }));
  const holdings before = settled_holdings();
  for (int i = 0; i < 20; ++i) {
    const job j(network_job(url_of(*server_) + "?count=2", key_));
    EXPECT_THROW(sync(j.targets()[0], [] { ::_exit(1); }), node_failed);
    EXPECT_EQ(sync(j.targets()[1], [] { return 2; }), 2);
  }
  ASSERT_TRUE(comes_true([&] { return server_->targets() == 0; }));
  EXPECT_TRUE(nothing_left_since(before));
}

// ---- processes of their own ---------------------------------------------------------------------

constexpr const char* url_variable = "FARCALL_TEST_URL";

int be_host() {
  job_options o = network_job(std::getenv(url_variable));
  o.heartbeat_timeout = milliseconds(500);
  const job j(o);
  for (const node& n : j.targets())
    say(std::to_string(sync(n, ::getpid)));
  // One target is in a call, the other one is idle.
  post(j.targets()[0], [] { ::usleep(30'000'000); });
  say("ready");
  ::pause();
  return 0;
}
const role host_role("network_host", be_host);

int be_server() {
  block_end_signals();
  server s(local_server());
  serve_until_signalled(s);
  return 0;
}
const role server_role("network_server", be_server);

class network_host_end_test : public testing::Test {
 protected:
  network_host_end_test() : url_(url_variable, (url_of(server_) + "?count=2").c_str()) {
    for (int i = 0; i < 2; ++i)
      pids_.push_back(std::stoi(host_.line()));
    EXPECT_EQ(host_.line(), "ready");
  }

  void expect_targets_gone() {
    EXPECT_TRUE(all_end_within(pids_, at_the_latest));
    EXPECT_TRUE(comes_true([&] { return server_.targets() == 0; }));
  }

  server server_{local_server()};
  scoped_variable url_;
  role_process host_{"network_host"};
  std::vector<pid_t> pids_;
};

TEST_F(network_host_end_test, targets_go_with_a_host_that_is_killed) {
  host_.kill(SIGKILL);
  expect_targets_gone();
}

TEST_F(network_host_end_test, targets_go_when_the_host_is_silent) {
  const captured_log log;
  host_.kill(SIGSTOP);
  expect_targets_gone();
  EXPECT_TRUE(log.comes_to_say("it was silent for 500 ms"));
}

TEST(network_server_end, hosts_notice_a_killed_server) {
  role_process serving("network_server");
  const std::string line = serving.line();
  ASSERT_THAT(line, HasSubstr("farcall: serving at tcp://127.0.0.1:"));
  const std::string url = line.substr(20, line.find(',') - 20);
  const job j(network_job(url + "?count=2,shm"));
  std::vector<pid_t> pids;
  for (const node& n : j.targets())
    pids.push_back(sync(n, ::getpid));
  pids.pop_back();
  future<void> f = async(j.targets()[0], [] { ::usleep(30'000'000); });
  serving.kill(SIGKILL);
  EXPECT_THAT(text_thrown_by<node_failed>([&] { f.get(); }),
              testing::AllOf(HasSubstr("node 1"), HasSubstr(url)));
  EXPECT_TRUE(all_end_within(pids, at_the_latest));
  EXPECT_EQ(sync(j.targets()[2], [] { return 7; }), 7);
}

/// A server process, and a job with targets there.
class network_drain_test : public testing::Test {
 protected:
  static std::string url_in(const std::string& line) {
    const std::string before = "farcall: serving at ";
    return line.substr(before.size(), line.find(',') - before.size());
  }

  /// Returns why a job cannot start; empty if it starts, as it may before the signal has arrived.
  std::string refusal() const {
    try {
      const job other(network_job(url_));
    } catch (const start_failed& e) {
      return e.what();
    }
    return {};
  }

  role_process serving_{"network_server"};
  std::string url_{url_in(serving_.line())};
};

TEST_F(network_drain_test, a_server_without_targets_ends_by_the_first_signal) {
  serving_.kill(SIGTERM);
  EXPECT_EQ(serving_.wait(), 0);
}

TEST_F(network_drain_test, targets_continue_and_the_last_ends_the_server) {
  std::optional<job> j(network_job(url_ + "?count=2"));
  const pid_t pid = sync(j->targets()[0], ::getpid);
  serving_.kill(SIGINT);
  EXPECT_TRUE(comes_true([&] { return refusal().find("it is draining") != std::string::npos; }));
  EXPECT_THAT(refusal(), testing::AllOf(HasSubstr("node 1"), HasSubstr(url_)));
  EXPECT_THROW((void)j->add(url_), start_failed);
  // Running targets also accept new connections.
  const lane l(j->targets()[0]);
  EXPECT_EQ(sync(l, ::getpid), pid);
  EXPECT_EQ(sync(j->targets()[1], [] { return 7; }), 7);
  j->remove(j->targets()[1]);
  EXPECT_EQ(sync(j->targets()[0], ::getpid), pid);
  j.reset();
  EXPECT_EQ(serving_.wait(), 0);
}

TEST_F(network_drain_test, a_second_signal_ends_it_and_tells_hosts_why) {
  const job j(network_job(url_));
  const pid_t pid = sync(j.targets()[0], ::getpid);
  future<void> f = async(j.targets()[0], [] { ::usleep(30'000'000); });
  serving_.kill(SIGTERM);
  ASSERT_TRUE(comes_true([&] { return !refusal().empty(); }));
  serving_.kill(SIGTERM);
  EXPECT_EQ(serving_.wait(), 0);
  EXPECT_TRUE(all_end_within({pid}, at_the_latest));
  EXPECT_THAT(text_thrown_by<node_failed>([&] { f.get(); }),
              testing::AllOf(HasSubstr("node 1"), HasSubstr(url_),
                             HasSubstr("its server has ended"),
                             testing::Not(HasSubstr("interferes"))));
}

TEST(network_server_end, stopped_hosts_do_not_delay_it) {
  std::optional<server> s(local_server());
  const scoped_variable url(url_variable, (url_of(*s) + "?count=2").c_str());
  role_process host("network_host");
  std::vector<pid_t> pids{std::stoi(host.line()), std::stoi(host.line())};
  EXPECT_EQ(host.line(), "ready");
  host.kill(SIGSTOP);
  s.reset();
  EXPECT_TRUE(all_end_within(pids, at_the_latest));
}

TEST(network_server_status, counts_targets_hosts_and_refusals) {
  server s(local_server());
  const auto now = [&] { return s.status(seconds(10)).value(); };
  EXPECT_EQ(now().connections, 0U);
  {
    const job j(network_job(url_of(s) + "?count=3"));
    EXPECT_EQ(now().targets, 3U);
    EXPECT_EQ(now().hosts, 1U);
    EXPECT_EQ(now().targets_started, 3U);
    const job other(network_job(url_of(s)));
    EXPECT_EQ(now().targets, 4U);
    EXPECT_EQ(now().hosts, 2U);
  }
  EXPECT_TRUE(comes_true([&] { return now().targets == 0 && now().hosts == 0; }));
  raw_client(port_of(s)).send(std::string(40, 'x'));
  const auto refused = [&](tcp::refusal_cause cause) {
    return now().refused.at(static_cast<std::size_t>(cause));
  };
  EXPECT_TRUE(comes_true([&] { return refused(tcp::refusal_cause::protocol) == 1; }));
  const raw_client silent(port_of(s));
  EXPECT_TRUE(comes_true([&] { return now().unproved == 1; }));
  EXPECT_FALSE(now().is_draining);
  s.drain();
  EXPECT_TRUE(comes_true([&] { return now().is_draining; }));
  EXPECT_THAT(text_thrown_by<start_failed>([&] { const job j(network_job(url_of(s))); }),
              HasSubstr("draining"));
  EXPECT_EQ(refused(tcp::refusal_cause::draining), 1U);
  EXPECT_EQ(now().targets_started, 4U);
}

TEST(network_server_status, hosts_admitted_before_draining_are_told) {
  server s(local_server());
  raw_client host(port_of(s));
  tcp::preamble first;
  first.kind = tcp::connection_kind::control;
  first.to = 1;
  target_request request;
  request.credentials = tcp::job_credentials::make(false);
  request.heartbeat_timeout = seconds(5);
  first.job = request.credentials.name;
  ASSERT_TRUE(host.send({reinterpret_cast<const char*>(&first), sizeof first}));
  // The host's connection was accepted, and may have been admitted.
  ASSERT_TRUE(comes_true([&] { return s.status(seconds(10)).value().unproved == 1; }));
  std::array<char, sizeof(tcp::admission_message)> admission;
  ASSERT_EQ(::recv(host.fd(), admission.data(), admission.size(), MSG_PEEK | MSG_WAITALL),
            static_cast<ssize_t>(admission.size()));
  s.drain();
  request.node = first.to;
  const std::vector<std::byte> body = encode_request(request);
  const frame_header header{static_cast<std::uint32_t>(body.size()),
                            static_cast<std::uint32_t>(control::request)};
  const captured_log log;
  ASSERT_TRUE(host.send({reinterpret_cast<const char*>(&header), sizeof header}));
  ASSERT_TRUE(host.send({reinterpret_cast<const char*>(body.data()), body.size()}));
  EXPECT_TRUE(host.is_ended_within(at_the_latest));
  EXPECT_THAT(host.received(), HasSubstr("it is draining"));
  EXPECT_EQ(s.targets(), 0U);
}

// ---- jobs that cannot start ---------------------------------------------------------------------

std::string start_failure(const job_options& o) {
  return text_thrown_by<start_failed>([&] { const job j(o); });
}

TEST(network_start, without_a_listener_fails_with_advice) {
  std::string url;
  {
    const server s(local_server());
    url = url_of(s);
  }
  EXPECT_THAT(start_failure(network_job(url)),
              testing::AllOf(HasSubstr("node 1"), HasSubstr(url), HasSubstr("nothing listens")));
}

TEST(network_start, the_servers_program_does_not_use_farcall) {
  server_options o = local_server();
  o.program = "/bin/true";
  const server s(o);
  const std::string why = start_failure(network_job(url_of(s)));
  EXPECT_THAT(why, testing::AllOf(HasSubstr("node 1"), HasSubstr("exited with status 0"),
                                  HasSubstr("makes a farcall::job")));
  EXPECT_TRUE(comes_true([&] { return s.targets() == 0; }));
}

TEST(network_start, the_program_of_the_server_does_not_exist) {
  server_options o = local_server();
  o.program = "/does/not/exist";
  const server s(o);
  const captured_log log;
  const std::string why = start_failure(network_job(url_of(s)));
  EXPECT_THAT(why, testing::AllOf(HasSubstr("node 1"), HasSubstr("/does/not/exist")));
  EXPECT_THAT(why, testing::Not(HasSubstr("farcall::job"))) << "that is not what it lacks";
  const auto status = s.status(std::chrono::seconds(20));
  ASSERT_TRUE(status);
  EXPECT_EQ(status->targets_not_started, 1U);
  EXPECT_EQ(status->targets_started, 0U);
  EXPECT_EQ(s.targets(), 0U);
}

TEST(network_start, a_program_that_never_joins_is_given_up) {
  server_options o = local_server();
  o.program = "/bin/sleep";
  o.arguments = {"sleep", "100"};
  const server s(o);
  job_options j = network_job(url_of(s));
  j.start_timeout = milliseconds(500);
  EXPECT_THAT(start_failure(j), testing::AllOf(HasSubstr("node 1"), HasSubstr("in time")));
  EXPECT_TRUE(comes_true([&] { return s.targets() == 0; }));
}

TEST(network_start, a_full_server_says_so_and_keeps_the_others) {
  server_options o = local_server();
  o.max_targets = 2;
  const server s(o);
  const job j(network_job(url_of(s) + "?count=2"));
  const captured_log log;
  EXPECT_THAT(start_failure(network_job(url_of(s))),
              testing::AllOf(HasSubstr("node 1"), HasSubstr("as many targets as it may have")));
  EXPECT_EQ(sync(j.targets()[1], [] { return 8; }), 8);
}

TEST(network_start, a_server_limits_how_long_hosts_may_be_silent) {
  server_options o = local_server();
  o.max_heartbeat_timeout = seconds(20);
  const server s(o);
  job_options j = network_job(url_of(s));
  j.heartbeat_timeout = milliseconds(20'001);
  EXPECT_THAT(start_failure(j), testing::AllOf(HasSubstr("node 1"), HasSubstr("20001 ms"),
                                               HasSubstr("allows 20000 ms"),
                                               HasSubstr("--longest-heartbeat-timeout-ms")));
  EXPECT_EQ(s.targets(), 0U);
  j.heartbeat_timeout = seconds(20);
  const job allowed(j);
  EXPECT_EQ(sync(allowed.targets()[0], [] { return 8; }), 8);
}

TEST(network_start, started_targets_end_when_another_cannot_start) {
  const server s(local_server());
  server_options o = local_server();
  o.program = "/bin/true";
  const server broken(o);
  EXPECT_THAT(start_failure(network_job(url_of(s) + "?count=2," + url_of(broken))),
              HasSubstr("node 3"));
  EXPECT_TRUE(comes_true([&] { return s.targets() == 0; }));
}

} // namespace
} // namespace farcall::test::failure_test
