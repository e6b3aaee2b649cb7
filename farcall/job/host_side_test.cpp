// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/job/existing_launcher.hpp>
#include <farcall/job/host_side.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/self/entry.hpp>
#include <farcall/transport/shm/entry.hpp>
#include <farcall/transport/transport_entry.hpp>
#include <tests/support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace farcall::host_side_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

/// Options whose targets run this program; its main() serves them.
membership_options options(const std::string& targets) {
  membership_options o;
  o.transports = transports();
  if (!targets.empty()) o.targets = parse_targets(targets);
  o.arguments = own_arguments();
  o.start_timeout = std::chrono::seconds(10);
  o.stop_timeout = std::chrono::seconds(2);
  o.lane_bytes = 64 << 10;
  o.heap_bytes = std::uint64_t{64} << 20;
  o.heartbeat_timeout = std::chrono::seconds(5);
  // Zeros turn off spinning, waits in destructors, and equals.
  o.settings.resize(7 * sizeof(std::int64_t));
  const std::int64_t start_timeout = 10'000;
  std::memcpy(o.settings.data() + 3 * sizeof start_timeout, &start_timeout, sizeof start_timeout);
  return o;
}

/// Records the ends of nodes that the failure detector reports.
class ends {
 public:
  membership_events events() {
    return {.node_failed =
                [this](node_id node, const std::string& why) {
                  const std::lock_guard guard(mutex_);
                  all_.emplace_back(node, why);
                },
            .shut_down = {}};
  }
  std::vector<std::pair<node_id, std::string>> all() {
    const std::lock_guard guard(mutex_);
    return all_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<node_id, std::string>> all_;
};

pid_t pid_of(const host_side& h, node_id node) {
  return static_cast<pid_t>(h.members().card_of(node).pid);
}

bool is_running(pid_t pid) { return ::kill(pid, 0) == 0; }

TEST(membership, targets_join_with_their_cards_and_routes) {
  const auto h = host_side::launch(options("shm:2?name=worker"), {"a build", 7});
  ASSERT_EQ(h->members().nodes(), 3U);
  EXPECT_EQ(h->members().self(), host_id);
  EXPECT_EQ(h->members().card_of(host_id).build, "a build");
  EXPECT_EQ(h->members().card_of(1).name, "worker-1");
  EXPECT_EQ(h->members().card_of(2).name, "worker-2");
  for (node_id node : {1U, 2U}) {
    EXPECT_NE(pid_of(*h, node), ::getpid());
    ASSERT_NE(h->members().route_to(node).via, nullptr);
    EXPECT_EQ(h->members().route_to(node).via->scheme(), "shm");
    EXPECT_EQ(h->members().hosted(node), nullptr);
  }
  EXPECT_EQ(h->members().route_to(host_id).via->scheme(), "self");
}

TEST(membership, targets_have_ended_after_it_was_shut_down) {
  const auto h = host_side::launch(options("shm:2"), {});
  const pid_t first = pid_of(*h, 1);
  const pid_t second = pid_of(*h, 2);
  EXPECT_TRUE(is_running(first));
  h->watch({});
  unsigned turns = 0;
  h->shut_down([&turns] { ++turns; });
  EXPECT_GT(turns, 0U);
  EXPECT_FALSE(is_running(first));
  EXPECT_FALSE(is_running(second));
}

TEST(membership, a_killed_target_is_reported_once_with_its_signal) {
  ends received;
  const auto h = host_side::launch(options("shm:2"), {});
  h->watch(received.events());
  ::kill(pid_of(*h, 1), SIGKILL);
  ASSERT_TRUE(test::eventually([&] { return !received.all().empty(); }));
  h->shut_down([] {});
  EXPECT_THAT(received.all(),
              ElementsAre(Pair(1U, AllOf(HasSubstr("node 1 (process "), HasSubstr("kill"))),
                          Pair(2U, AllOf(HasSubstr("status 0"), HasSubstr("was ending")))));
}

TEST(membership, a_program_that_cannot_start_names_the_node) {
  EXPECT_THAT([] { (void)host_side::launch(options("shm,shm?program=/nowhere/app"), {}); },
              ThrowsMessage<start_failed>(AllOf(HasSubstr("node 2"), HasSubstr("/nowhere/app"))));
}

TEST(membership, a_failed_start_does_not_wait_for_unjoined_targets) {
  membership_options o = options("shm?program=/bin/false,shm?program=/bin/sleep");
  o.arguments = {"sleep", "1000"};
  o.stop_timeout = std::chrono::seconds(30);
  const time_point begun = clock::now();
  EXPECT_THAT([&] { (void)host_side::launch(std::move(o), {}); },
              ThrowsMessage<start_failed>(HasSubstr("node 1")));
  EXPECT_LT(clock::now() - begun, std::chrono::seconds(20));
}

TEST(membership, nodes_join_until_all_numbers_were_given) {
  membership_options o = options("shm");
  o.node_places = 3;
  const auto h = host_side::launch(std::move(o), {});
  h->watch({});
  const time_point deadline = deadline_after(std::chrono::seconds(10));
  EXPECT_THAT(h->add(parse_targets("shm"), deadline), ElementsAre(2U));
  EXPECT_THAT([&] { (void)h->add(parse_targets("shm"), deadline); },
              ThrowsMessage<start_failed>(
                  AllOf(HasSubstr("no place for another node"), HasSubstr("3 of its 3"))));
  h->shut_down([] {});
}

TEST(membership, the_place_of_an_ended_node_is_given_again) {
  ends received;
  membership_options o = options("shm:2");
  o.node_places = 3;
  const auto h = host_side::launch(std::move(o), {});
  h->watch(received.events());
  const time_point deadline = deadline_after(std::chrono::seconds(60));
  node_id node = 2;
  for (unsigned i = 0; i < 5; ++i) {
    h->remove(node, deadline, [] {});
    const pid_t before = pid_of(*h, node);
    // The place is free at the latest when the process has been reaped, for which add() waits.
    ASSERT_THAT(h->add(parse_targets("shm"), deadline), ElementsAre(successor_of(node)));
    EXPECT_EQ(pid_of(*h, node), before) << "the former node keeps its card";
    node = successor_of(node);
    EXPECT_EQ(h->members().card_of(node).name, "node " + std::to_string(node));
    EXPECT_TRUE(is_running(pid_of(*h, node)));
  }
  EXPECT_EQ(h->members().nodes(), 3U);
  EXPECT_THAT(h->members().known_nodes(), ElementsAre(0, 1, node));
  EXPECT_THAT(received.all(), SizeIs(5));
  EXPECT_THAT(received.all(), Contains(Pair(successor_of(2), HasSubstr("was removed"))));
  h->shut_down([] {});
  EXPECT_FALSE(is_running(pid_of(*h, node)));
}

TEST(membership, the_number_of_a_failed_start_is_given_again) {
  membership_options o = options("shm");
  o.node_places = 3;
  const auto h = host_side::launch(std::move(o), {});
  h->watch({});
  const time_point deadline = deadline_after(std::chrono::seconds(60));
  for (unsigned i = 0; i < 3; ++i) {
    EXPECT_THROW((void)h->add(parse_targets("shm?program=/nowhere/app"), deadline), start_failed);
  }
  EXPECT_THAT(h->add(parse_targets("shm"), deadline), ElementsAre(2U));
  h->shut_down([] {});
}

TEST(membership, an_impossible_lane_is_refused) {
  membership_options o = options("shm");
  o.lane_bytes = 5000;
  EXPECT_THAT([&] { (void)host_side::launch(std::move(o), {}); },
              ThrowsMessage<setting_error>(HasSubstr("5000")));
}

// ---- processes that exist already ---------------------------------------------------------------

/// A process that something else has started, such as a launcher's rank.
struct rank {
  explicit rank(bool can_be_feigned = false) {
    auto [ours, theirs] = control_socket::make_pair();
    process = child_process::start(running_program, own_arguments(), bootstrap_variable,
                                   std::to_string(theirs.fd()), theirs.fd());
    socket = unique_fd(::dup(ours.fd()));
    if (can_be_feigned) other_end = control_socket(unique_fd(::dup(theirs.fd())));
  }
  child_process process;
  unique_fd socket;
  control_socket other_end; ///< for forged messages
};

TEST(membership, processes_that_exist_become_the_last_targets) {
  rank first;
  rank second;
  membership_options o = options("shm");
  o.existing.push_back(std::move(first.socket));
  o.existing.push_back(std::move(second.socket));
  const auto h = host_side::launch(std::move(o), {});
  ASSERT_EQ(h->members().nodes(), 4U);
  EXPECT_EQ(pid_of(*h, 2), first.process.pid());
  EXPECT_EQ(pid_of(*h, 3), second.process.pid());
  EXPECT_EQ(h->members().route_to(3).via->scheme(), "shm");
  h->watch({});
  h->shut_down([] {});
  EXPECT_TRUE(first.process.wait(clock::now() + test::wait_limit));
  EXPECT_TRUE(second.process.wait(clock::now() + test::wait_limit));
}

TEST(membership, the_end_of_a_process_that_existed_is_reported) {
  rank only;
  membership_options o = options("");
  o.existing.push_back(std::move(only.socket));
  ends received;
  const auto h = host_side::launch(std::move(o), {});
  h->watch(received.events());
  only.process.kill();
  ASSERT_TRUE(test::eventually([&] { return !received.all().empty(); }));
  EXPECT_EQ(received.all()[0].first, 1U);
  EXPECT_THAT(received.all()[0].second, HasSubstr("closed its control socket"));
}

TEST(membership, a_process_that_sends_malformed_messages_has_failed) {
  rank only(true);
  membership_options o = options("");
  o.existing.push_back(std::move(only.socket));
  ends received;
  const auto h = host_side::launch(std::move(o), {});
  h->watch(received.events());
  const char half_a_header = 'x';
  ASSERT_EQ(::send(only.other_end.fd(), &half_a_header, 1, 0), 1);
  ASSERT_TRUE(test::eventually([&] { return !received.all().empty(); }));
  EXPECT_THAT(received.all()[0].second, HasSubstr("cannot be read"));
}

TEST(membership, only_servers_may_report_ends) {
  rank only(true);
  membership_options o = options("");
  o.existing.push_back(std::move(only.socket));
  ends told;
  const auto h = host_side::launch(std::move(o), {});
  h->watch(told.events());
  ASSERT_TRUE(messages::send(only.other_end, messages::ended{"exit 0", 0}, clock::now()));
  ASSERT_TRUE(test::eventually([&] { return !told.all().empty(); }));
  EXPECT_THAT(told.all()[0].second, HasSubstr("only servers"));
}

TEST(membership, an_endless_sender_does_not_delay_reports_of_others) {
  rank busy(true);
  membership_options o = options("shm");
  o.existing.push_back(std::move(busy.socket));
  ends received;
  const auto h = host_side::launch(std::move(o), {});
  h->watch(received.events());
  std::atomic<bool> has_ended{false};
  std::vector<std::jthread> senders;
  for (int i = 0; i < 8; ++i) {
    senders.emplace_back([&] {
      while (!has_ended)
        (void)messages::try_send(busy.other_end, messages::heartbeat{});
    });
  }
  ASSERT_EQ(::kill(pid_of(*h, 1), SIGKILL), 0);
  EXPECT_TRUE(test::eventually([&] { return !received.all().empty(); }));
  has_ended = true;
}

TEST(existing_launcher, a_stream_socket_is_refused) {
  int stream[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, stream), 0);
  const unique_fd other(stream[1]);
  std::vector<unique_fd> sockets;
  sockets.emplace_back(stream[0]);
  EXPECT_THAT([&] { (void)existing_launcher(std::move(sockets)); },
              ThrowsMessage<setting_error>(HasSubstr("SOCK_SEQPACKET")));
}

TEST(existing_launcher, has_as_many_processes_as_it_was_given) {
  auto [ours, theirs] = control_socket::make_pair();
  std::vector<unique_fd> sockets;
  sockets.emplace_back(::dup(ours.fd()));
  existing_launcher all(std::move(sockets));
  EXPECT_TRUE(all.start(1, {}, no_deadline)->is_near());
  EXPECT_THROW((void)all.start(2, {}, no_deadline), start_failed);
}

// ---- nodes without a process --------------------------------------------------------------------

/// Strings of a hosted node: a test's orders to it, and what it records.
struct puppet {
  unique_fd failure{::eventfd(0, EFD_CLOEXEC)};
  std::atomic<unsigned> stops{0};
  void fail() const {
    const std::uint64_t one = 1;
    ASSERT_EQ(::write(failure.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }
};

class hosted_puppet final : public hosted_node {
 public:
  hosted_puppet(puppet& strings, node_id node) : strings_(strings), node_(node) {}

  void describe_node(card& its) const override { its.architecture = "wood"; }
  int failure_fd() const noexcept override { return strings_.failure.get(); }
  std::string failure() const override { return "a string tore"; }
  bool stop(time_point /*deadline*/) noexcept override {
    ++strings_.stops;
    return true;
  }

  std::string_view scheme() const noexcept override { return "puppet"; }
  transport_traits traits() const noexcept override { return {}; }
  void describe(card& /*mine*/) const override {}
  reachability reachability_of(const card& peer) const override {
    return {peer.id == node_, 1, peer.id == node_ ? "on strings" : "no puppet"};
  }
  endpoint open(node_id /*peer*/, const lane_shape& /*shape*/) override { return {}; }
  const std::atomic<std::uint32_t>& arrivals() const noexcept override { return arrivals_; }
  std::optional<endpoint> accept() override { return std::nullopt; }
  bool is_closed(const endpoint& /*accepted*/) const noexcept override { return true; }
  void close(const endpoint& /*end*/) noexcept override {}
  void forget(node_id /*peer*/) noexcept override {}

 private:
  puppet& strings_;
  node_id node_;
  std::atomic<std::uint32_t> arrivals_{0};
};

/// Returns the table with a row for puppets.
std::vector<transport_entry> table_with(puppet& strings) {
  transport_entry row;
  row.scheme = "puppet";
  row.example = "puppet";
  row.host = [&strings](const target_url& /*url*/, const hosting_site& site) {
    return std::make_unique<hosted_puppet>(strings, site.node);
  };
  return {self::entry(), shm::entry(), row};
}

TEST(membership, a_node_can_live_in_the_hosts_process) {
  puppet strings;
  const std::vector<transport_entry> table = table_with(strings);
  membership_options o = options("");
  o.transports = table;
  o.targets = parse_targets("shm,puppet?name=Pinocchio", table);
  const auto h = host_side::launch(std::move(o), {"a build", 7});
  EXPECT_NE(h->members().hosted(2), nullptr);
  EXPECT_EQ(h->members().hosted(1), nullptr);
  const card& c = h->members().card_of(2);
  EXPECT_EQ(c.owner, host_id);
  EXPECT_EQ(c.name, "Pinocchio");
  EXPECT_EQ(c.architecture, "wood");
  EXPECT_EQ(c.transport, "puppet");
  EXPECT_EQ(c.key_digest, 7U);
  EXPECT_EQ(h->members().route_to(2).via, h->members().hosted(2));
  ends received;
  h->watch(received.events());
  h->shut_down([] {});
  EXPECT_EQ(strings.stops, 1U);
  EXPECT_THAT(received.all(), Contains(Pair(2U, HasSubstr("has ended with the job"))));
}

TEST(membership, the_failure_of_a_hosted_node_is_reported) {
  puppet strings;
  const std::vector<transport_entry> table = table_with(strings);
  membership_options o = options("");
  o.transports = table;
  o.targets = parse_targets("puppet", table);
  ends received;
  const auto h = host_side::launch(std::move(o), {});
  h->watch(received.events());
  strings.fail();
  ASSERT_TRUE(test::eventually([&] { return !received.all().empty(); }));
  h->shut_down([] {});
  ASSERT_THAT(received.all(), SizeIs(1));
  EXPECT_THAT(received.all()[0].second,
              AllOf(HasSubstr("node 1 (puppet)"), HasSubstr("a string tore")));
}

TEST(membership, a_hosted_node_that_cannot_be_made_is_named) {
  puppet strings;
  std::vector<transport_entry> table = table_with(strings);
  table.back().host = [](const target_url&, const hosting_site&) -> std::unique_ptr<hosted_node> {
    throw error("no wood");
  };
  membership_options o = options("");
  o.transports = table;
  o.targets = parse_targets("puppet", table);
  EXPECT_THAT([&] { (void)host_side::launch(std::move(o), {}); },
              ThrowsMessage<start_failed>(AllOf(HasSubstr("node 1"), HasSubstr("no wood"))));
}

} // namespace
} // namespace farcall::host_side_test
