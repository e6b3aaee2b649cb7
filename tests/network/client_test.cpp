// SPDX-License-Identifier: Apache-2.0
#include "tests/network/proxy.hpp"
#include "tests/network/support.hpp"
#include "tests/sanitizer.hpp"

#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/secret.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include <sched.h>
#include <sys/stat.h>

/// Tests servers whose clients have their own keys: admission, names, revocation and limits.
namespace farcall::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class network_clients : public testing::Test {
 protected:
  network_clients() {
    for (const char* name : {"alice", "bob"})
      tcp::write_key_file(key_of(name), name);
  }
  [[nodiscard]] std::string key_of(const std::string& name) const { return folder_.file(name); }

  /// Returns the line that 'farcall keygen --name' has made.
  [[nodiscard]] std::string line_of(const std::string& name) const {
    std::string line = content_of(key_of(name));
    line.pop_back();
    return line;
  }

  void admit(const std::string& lines) const {
    std::ofstream(clients_, std::ios::trunc) << lines << '\n';
    ASSERT_EQ(::chmod(clients_.c_str(), 0600), 0);
  }

  [[nodiscard]] server_options serving() const {
    server_options o = local_server();
    o.plain = false;
    o.access.clients = clients_;
    return o;
  }

  [[nodiscard]] job_options job_of(const std::string& name, const server& s,
                                   const std::string& more = "") const {
    return network_job(url_of(s) + more, key_of(name));
  }

  static std::string start_failure(const job_options& o) {
    return text_thrown_by<start_failed>([&] { const job j(o); });
  }

  static void expect_served(const job_options& o) {
    const job j(o);
    EXPECT_EQ(sync(j.targets().front(), [] { return 3; }), 3);
  }

  captured_log log_;
  scratch_folder folder_;
  std::string clients_ = folder_.file("clients");
};

TEST_F(network_clients, have_jobs_on_several_servers) {
  admit(line_of("alice") + "\n" + line_of("bob"));
  const server first(serving());
  const server second(serving());
  const job j(network_job(url_of(first) + "," + url_of(second), key_of("bob")));
  const node other = j.targets().at(1);
  EXPECT_EQ(
      sync(j.targets().at(0), [](const node& n) { return sync(n, [] { return 5; }); }, other), 5);
  for (const node& n : j.targets())
    EXPECT_THAT(n.description().route, HasSubstr("encrypted"));
  EXPECT_EQ(first.targets(), 1U);
  EXPECT_EQ(second.targets(), 1U);
}

TEST_F(network_clients, that_are_not_listed_are_refused_with_reasons) {
  admit(line_of("alice"));
  const server s(serving());
  EXPECT_THAT(start_failure(job_of("bob", s)),
              AllOf(HasSubstr("node 1"), HasSubstr("does not take the key of client bob")));
  EXPECT_TRUE(log_.comes_to_say("\"bob/"));
  EXPECT_EQ(s.targets(), 0U);
  expect_served(job_of("alice", s));
}

TEST_F(network_clients, may_have_an_old_key_and_a_new_one) {
  tcp::write_key_file(folder_.file("new"), "alice");
  admit(line_of("alice") + "\n" + line_of("new"));
  const server s(serving());
  expect_served(job_of("alice", s));
  expect_served(job_of("new", s));
  const job running(job_of("alice", s));
  admit(line_of("new"));
  s.reload();
  EXPECT_THAT(start_failure(job_of("alice", s)), HasSubstr("client alice"));
  expect_served(job_of("new", s));
  EXPECT_EQ(sync(running.targets().front(), [] { return 4; }), 4) << "alice is still a client";
}

TEST_F(network_clients, coexist_with_a_group) {
  tcp::write_key_file(folder_.file("group"));
  admit(line_of("alice"));
  server_options o = serving();
  o.access.key = folder_.file("group");
  const server s(o);
  expect_served(job_of("alice", s));
  expect_served(job_of("group", s));
}

TEST_F(network_clients, missing_altogether_cause_a_warning) {
  const std::string warning = clients_ + " has no client, so nobody can come in";
  admit("# none yet");
  {
    const server s(serving());
    EXPECT_EQ(log_.count(warning), 1U) << log_.text();
    admit(line_of("alice"));
    s.reload();
    expect_served(job_of("alice", s));
    EXPECT_EQ(log_.count(warning), 1U) << log_.text();
    admit("");
    s.reload();
    EXPECT_EQ(log_.count(warning), 2U) << log_.text();
  }
  tcp::write_key_file(folder_.file("group"));
  server_options o = serving();
  o.access.key = folder_.file("group");
  const server s(o);
  EXPECT_EQ(log_.count(warning), 2U) << "a group can come";
}

TEST_F(network_clients, are_served_by_a_server_with_one_clients_key) {
  server_options o = local_server(key_of("alice"));
  const server s(o);
  expect_served(job_of("alice", s));
  EXPECT_THAT(start_failure(job_of("bob", s)), HasSubstr("client bob"));
}

/// The server proves itself by the key of the connecting client, so that the owner of another
/// client's key cannot pose as the server.
TEST_F(network_clients, cannot_pose_as_servers_to_each_other) {
  const server bobs(local_server(key_of("bob")));
  const proxy between(port_of(bobs));
  EXPECT_THAT(start_failure(network_job(between.url(), key_of("alice"))),
              HasSubstr("client alice"));
  EXPECT_EQ(bobs.targets(), 0U);
}

// ---- revoked ones -------------------------------------------------------------------------------

TEST_F(network_clients, that_were_revoked_lose_their_targets_and_learn_why) {
  admit(line_of("alice") + "\n" + line_of("bob"));
  const server s(serving());
  const job of_alice(job_of("alice", s, "?count=2"));
  const job of_bob(job_of("bob", s));
  ASSERT_EQ(s.targets(), 3U);
  auto unanswered = async(of_alice.targets().at(0), [] { ::usleep(60'000'000); });
  admit(line_of("bob"));
  s.reload();
  EXPECT_THAT([&] { unanswered.get(); },
              ThrowsMessage<node_failed>(HasSubstr("client alice has been revoked")));
  EXPECT_TRUE(comes_true([&] { return s.targets() == 1; }));
  EXPECT_THAT(start_failure(job_of("alice", s)), HasSubstr("client alice"));
  EXPECT_EQ(sync(of_bob.targets().front(), [] { return 6; }), 6);
  expect_served(job_of("bob", s));
}

TEST_F(network_clients, stay_when_their_file_cannot_be_used) {
  admit(line_of("alice"));
  const server s(serving());
  const job running(job_of("alice", s));
  admit("alice what?");
  EXPECT_THAT([&] { s.reload(); },
              ThrowsMessage<setting_error>(AllOf(HasSubstr(clients_), HasSubstr("line 1"))));
  admit(line_of("bob"));
  ASSERT_EQ(::chmod(clients_.c_str(), 0644), 0);
  EXPECT_THAT([&] { s.reload(); }, ThrowsMessage<setting_error>(HasSubstr("chmod 600")));
  EXPECT_EQ(sync(running.targets().front(), [] { return 4; }), 4);
  expect_served(job_of("alice", s));
  EXPECT_THAT(start_failure(job_of("bob", s)), HasSubstr("client bob"));
}

constexpr const char* clients_variable = "FARCALL_TEST_CLIENTS";

int be_server_of_clients() {
  block_end_signals();
  server_options o = local_server();
  o.plain = false;
  o.access.clients = std::getenv(clients_variable);
  server s(o);
  serve_until_signalled(s);
  return 0;
}
const role clients_role("network_clients_server", be_server_of_clients);

TEST_F(network_clients, are_read_again_on_sighup) {
  admit(line_of("alice"));
  ::setenv(clients_variable, clients_.c_str(), 1);
  role_process serving("network_clients_server");
  ::unsetenv(clients_variable);
  const std::string said = serving.line();
  const std::size_t at = said.find("tcp://");
  ASSERT_NE(at, std::string::npos) << said;
  const std::string url = said.substr(at, said.find(',') - at);
  expect_served(network_job(url, key_of("alice")));
  admit("nonsense");
  serving.kill(SIGHUP);
  EXPECT_TRUE(log_.comes_to_say("keys and certificates stay as they are: client file"));
  expect_served(network_job(url, key_of("alice")));
  admit(line_of("bob"));
  serving.kill(SIGHUP);
  EXPECT_TRUE(comes_true([&] {
    try {
      expect_served(network_job(url, key_of("bob")));
      return true;
    } catch (const start_failed&) {
      return false;
    }
  }));
  EXPECT_THAT(start_failure(network_job(url, key_of("alice"))), HasSubstr("client alice"));
  serving.kill(SIGTERM);
  EXPECT_EQ(serving.wait(), 0);
}

// ---- limits -------------------------------------------------------------------------------------

TEST_F(network_clients, have_a_limit_of_targets) {
  admit(line_of("alice") + " targets=2\n" + line_of("bob"));
  const server s(serving());
  std::optional<job> j(std::in_place, job_of("alice", s, "?count=2"));
  EXPECT_THAT(start_failure(job_of("alice", s)),
              AllOf(HasSubstr("client alice has 2 targets"), HasSubstr("targets=")));
  expect_served(job_of("bob", s, "?count=3"));
  j.reset();
  ASSERT_TRUE(comes_true([&] { return s.targets() == 0; }));
  expect_served(job_of("alice", s));
}

std::vector<unsigned> own_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof set, &set);
  std::vector<unsigned> all;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) all.push_back(cpu);
  }
  return all;
}

TEST_F(network_clients, run_on_their_processors) {
  const std::vector<unsigned> all = own_processors();
  if (all.size() < 2) GTEST_SKIP() << "there is one processor only";
  const std::string last = std::to_string(all.back());
  admit(line_of("alice") + " cpus=" + last + "\n" + line_of("bob"));
  const server s(serving());
  {
    const job of_alice(job_of("alice", s));
    const job of_bob(job_of("bob", s));
    EXPECT_EQ(sync(of_alice.targets().front(), own_processors), std::vector{all.back()});
    EXPECT_EQ(sync(of_bob.targets().front(), own_processors), all);
  }
  expect_served(job_of("alice", s, "?cpu=" + last));
  EXPECT_THAT(start_failure(job_of("alice", s, "?cpu=" + std::to_string(all.front()))),
              AllOf(HasSubstr("processor " + std::to_string(all.front())),
                    HasSubstr("not among the processors that client alice may use")));
}

TEST_F(network_clients, learn_that_their_processors_are_missing) {
  admit(line_of("alice") + " cpus=1022,1023\n" + line_of("bob") + " cpus=0-1023");
  const server s(serving());
  EXPECT_THAT(log_.text(), HasSubstr("client alice names processors that cannot be used here: "
                                     "1022-1023; its targets cannot start"));
  EXPECT_THAT(start_failure(job_of("alice", s)), HasSubstr("cpus="));
  EXPECT_THAT(log_.text(), HasSubstr("-1023; its targets run on the others"));
  const std::vector<unsigned> all = own_processors();
  const job of_bob(job_of("bob", s));
  EXPECT_THAT(sync(of_bob.targets().front(), own_processors), testing::IsSupersetOf(all));
  EXPECT_EQ(own_processors(), all) << "the server's are as before";
  admit(line_of("alice") + " cpus=" + std::to_string(all.front()));
  s.reload();
  EXPECT_EQ(log_.count("cannot be used here"), 2U) << log_.text();
}

bool can_have(std::size_t bytes) {
  const std::unique_ptr<std::byte[]> data(new (std::nothrow) std::byte[bytes]);
  return data != nullptr;
}

TEST_F(network_clients, have_a_limit_of_memory) {
  if (under_sanitizer) GTEST_SKIP() << "a sanitizer needs more memory than any limit";
  admit(line_of("alice") + " memory=256M\n" + line_of("bob"));
  const server s(serving());
  constexpr std::size_t more = std::size_t{300} << 20;
  {
    const job of_alice(job_of("alice", s));
    const job of_bob(job_of("bob", s));
    const node limited = of_alice.targets().front();
    EXPECT_TRUE(sync(limited, can_have, std::size_t{64} << 20));
    EXPECT_FALSE(sync(limited, can_have, more));
    EXPECT_TRUE(sync(of_bob.targets().front(), can_have, more));
    // Shared memory has its own limit.
    EXPECT_THROW((void)limited.allocate<std::byte>(more), out_of_memory);
    EXPECT_NO_THROW((void)limited.allocate<std::byte>(std::size_t{64} << 20));
  }
}

TEST_F(network_clients, have_a_limit_of_connections) {
  admit(line_of("alice") + " lanes=3");
  const server s(serving());
  const job j(job_of("alice", s));
  const node target = j.targets().front();
  EXPECT_EQ(sync(target, [] { return 1; }), 1);
  {
    const lane first(target);
    const lane second(target);
    EXPECT_EQ(sync(first, [] { return 2; }), 2);
    EXPECT_EQ(sync(second, [] { return 2; }), 2);
    const lane beyond(target);
    EXPECT_THROW(sync(beyond, [] { return 3; }), node_failed);
    EXPECT_TRUE(log_.comes_to_say("client alice has 3 connections"));
    EXPECT_TRUE(log_.comes_to_say("this client has as many connections to its targets"));
  }
  // The target releases closed connections a little later.
  for (int round = 0; round < 50; ++round) {
    const lane first(target);
    const lane second(target);
    EXPECT_EQ(sync(first, [] { return 4; }), 4);
    EXPECT_EQ(sync(second, [] { return 4; }), 4);
  }
}

/// The job's name is unencrypted, so that any forwarder can read it.
TEST_F(network_clients, keep_their_connections_despite_intruders) {
  admit(line_of("alice") + " lanes=3");
  const server s(serving());
  const proxy between(port_of(s));
  const job j(network_job(between.url(), key_of("alice")));
  const node target = j.targets().front();
  EXPECT_EQ(sync(target, [] { return 1; }), 1);
  tcp::preamble intruder;
  std::memcpy(&intruder, between.recorded().at(0).data(), sizeof intruder);
  intruder.kind = tcp::connection_kind::lane;
  const std::string bytes(reinterpret_cast<const char*>(&intruder), sizeof intruder);
  std::vector<std::unique_ptr<raw_client>> silent;
  for (int i = 0; i < 10; ++i) {
    silent.push_back(std::make_unique<raw_client>(port_of(s)));
    ASSERT_TRUE(silent.back()->send(bytes));
  }
  const lane second(target);
  const lane third(target);
  EXPECT_EQ(sync(second, [] { return 2; }), 2);
  EXPECT_EQ(sync(third, [] { return 3; }), 3);
}

} // namespace
} // namespace farcall::test
