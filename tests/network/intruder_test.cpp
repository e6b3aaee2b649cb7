// SPDX-License-Identifier: Apache-2.0
#include "tests/network/proxied_job.hpp"

#include <farcall/base/version.hpp>
#include <farcall/memory/record.hpp>
#include <farcall/transport/tcp/bulk.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/interfaces.hpp>
#include <farcall/transport/tcp/job_credentials.hpp>
#include <farcall/transport/tcp/relay.hpp>
#include <farcall/transport/tcp/remote_target.hpp>
#include <farcall/transport/tcp/secret.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <list>
#include <random>
#include <span>
#include <utility>

#include <sys/socket.h>

/// Tests intruders: they are refused with a reason in the log, and jobs continue.
namespace farcall::test::intruder_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr seconds at_the_latest{20};

template <class T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

tcp::preamble control_preamble(bool is_encrypted = false) {
  tcp::preamble p;
  p.kind = tcp::connection_kind::control;
  p.is_encrypted = is_encrypted ? 1 : 0;
  p.to = 1;
  return p;
}

/// A server, and a job with one target, which an intruder must not disturb.
class intruder_test : public testing::Test, protected proxied_job {
 protected:
  explicit intruder_test(bool has_key = true, milliseconds handshake_timeout = milliseconds(400))
      : proxied_job(has_key, seconds(2), handshake_timeout) {
    post(target_, mark, folder_.file("alive"));
  }

  void expect_job_undisturbed() {
    EXPECT_EQ(server_->targets(), 1U);
    EXPECT_EQ(sync(target_, ::getpid), pid_);
    // Also check new connections.
    const lane l(target_);
    EXPECT_EQ(sync(l, ::getpid), pid_);
    const auto there = target_.allocate<int>(100'000);
    const std::vector<int> sent(100'000, 7);
    std::vector<int> got(100'000);
    put(sent, there).get();
    get(there, got).get();
    EXPECT_EQ(got, sent);
  }

  /// Sends `bytes` to the server, which must close the connection.
  void expect_refused(const std::string& bytes, const std::string& reason) {
    const std::size_t before = log_.count(reason);
    raw_client c(port_of(*server_));
    c.send(bytes);
    EXPECT_TRUE(c.is_ended_within(at_the_latest)) << reason;
    EXPECT_TRUE(comes_true([&] { return log_.count(reason) > before; }, seconds(5))) << reason;
    EXPECT_EQ(server_->targets(), 1U);
  }

  tcp::preamble own_preamble(tcp::connection_kind kind) {
    tcp::preamble p;
    std::memcpy(&p, between_->recorded().at(0).data(), sizeof p);
    p.kind = kind;
    p.to = target_.id();
    return p;
  }
};

class plain_intruder_test : public intruder_test {
 protected:
  plain_intruder_test() : intruder_test(false) {}

  /// Without encryption the recorded bytes contain the job's key, which tests of the last checks
  /// need.
  tcp::job_credentials own_credentials() {
    tcp::job_credentials job;
    job.name = own_preamble(tcp::connection_kind::lane).job;
    const std::string request = between_->recorded().at(0).substr(sizeof(tcp::preamble));
    job.key = tcp::secret::copy_of(
        std::as_bytes(std::span(request))
            .subspan(sizeof(frame_header) + sizeof(node_id) + sizeof(tcp::job_name),
                     tcp::job_key_bytes));
    return job;
  }

  std::uint64_t serials_ = 1'000'000; ///< of connections that were never given up

  tcp::connect_request own_connect_request(tcp::connection_kind kind) {
    tcp::connect_request o;
    o.serial = ++serials_;
    o.kind = kind;
    o.from = 0;
    o.to = target_.id();
    return o;
  }

  /// Begins a connection, up to the node's reply; the signed request comes next.
  tcp::challenge meet(raw_client& c, tcp::connection_kind kind) {
    tcp::challenge both;
    both.opener = tcp::new_nonce();
    c.send(bytes_of(own_preamble(kind)) + bytes_of(both.opener));
    tcp::acceptor_reply reply;
    EXPECT_EQ(::recv(c.fd(), &reply, sizeof reply, MSG_WAITALL),
              static_cast<ssize_t>(sizeof reply));
    EXPECT_TRUE(tcp::is_reply_of(target_.id(), reply, both.opener, own_credentials()));
    both.acceptor = reply.fresh;
    return both;
  }

  /// Sends a request signed with the job's key.
  void send_request(raw_client& c, tcp::connect_request o, const std::string& more = "") {
    tcp::sign(o, meet(c, o.kind), own_credentials());
    c.send(bytes_of(o) + more);
  }

  void expect_request_refused(const tcp::connect_request& o, const std::string& reason,
                              const std::string& more = "") {
    const std::size_t before = log_.count(reason);
    raw_client c(port_of(*server_));
    send_request(c, o, more);
    EXPECT_TRUE(c.is_ended_within(at_the_latest)) << reason;
    EXPECT_TRUE(comes_true([&] { return log_.count(reason) > before; }, seconds(5))) << reason;
    EXPECT_EQ(server_->targets(), 1U);
  }
};

// ---- intruders without a key, or with another one -----------------------------------------------

std::string start_failure(const job_options& o) {
  return text_thrown_by<start_failed>([&] { const job j(o); });
}

TEST_F(intruder_test, another_key_is_refused) {
  const std::string other = folder_.file("other");
  tcp::write_key_file(other);
  EXPECT_THAT(start_failure(network_job(url_of(*server_), other)), HasSubstr("node 1"));
  EXPECT_TRUE(log_.comes_to_say("refused"));
  expect_job_undisturbed();
}

TEST_F(intruder_test, hosts_without_a_key_learn_the_reason) {
  EXPECT_THAT(start_failure(network_job(url_of(*server_))), HasSubstr("it wants a key"));
  EXPECT_TRUE(log_.comes_to_say("it came without a key or certificate"));
  expect_job_undisturbed();
}

TEST_F(plain_intruder_test, hosts_with_a_key_learn_the_reason) {
  const std::string other = folder_.file("other");
  tcp::write_key_file(other);
  EXPECT_THAT(start_failure(network_job(url_of(*server_), other)),
              HasSubstr("it was started without a key or certificate"));
  EXPECT_TRUE(log_.comes_to_say("it has a key or certificate, and we have none"));
  expect_job_undisturbed();
}

TEST(server_safety, ports_without_a_key_need_explicit_flags) {
  server_options o = local_server();
  o.plain = false;
  const auto refusal = [&] { return text_thrown_by<setting_error>([&] { const server s(o); }); };
  EXPECT_THAT(refusal(), testing::AllOf(HasSubstr("--key"), HasSubstr("--listen /path"),
                                        HasSubstr("--plain"), HasSubstr("127.0.0.1:0")));
  o.plain = true;
  EXPECT_NO_THROW(const server s(o));
  o.listen.host = "0.0.0.0";
  EXPECT_THAT(refusal(), HasSubstr("--i-trust-this-network"));
  o.trusts_network = true;
  EXPECT_NO_THROW(const server s(o));
  o.plain = false;
  EXPECT_THAT(refusal(), HasSubstr("--key"));
  const scratch_folder folder;
  o.access.key = folder.file("key");
  tcp::write_key_file(o.access.key);
  o.trusts_network = false;
  EXPECT_NO_THROW(const server s(o));
  o.plain = true;
  EXPECT_THAT(refusal(), HasSubstr("contradict"));
}

TEST(server_safety, a_host_sends_nothing_unencrypted_beyond_loopback) {
  EXPECT_THAT(start_failure(network_job("tcp://192.0.2.1:9")), HasSubstr("loopback"));
}

TEST_F(intruder_test, the_key_stays_out_of_environment_and_logs) {
  (void)start_failure(network_job(url_of(*server_)));
  const std::string digits = content_of(key_).substr(0, 64);
  ASSERT_EQ(digits.size(), 64U);
  std::string raw;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    raw += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  for (const char* file : {"/environ", "/cmdline"}) {
    const std::string text = content_of("/proc/" + std::to_string(pid_) + file);
    EXPECT_FALSE(text.empty());
    EXPECT_EQ(text.find(digits), std::string::npos) << file;
    EXPECT_EQ(text.find(raw), std::string::npos) << file;
  }
  EXPECT_EQ(log_.text().find(digits), std::string::npos);
  for (const std::string& sent : between_->recorded()) {
    EXPECT_EQ(sent.find(raw), std::string::npos);
    EXPECT_EQ(sent.find(digits), std::string::npos);
  }
}

// ---- connections that are not farcall's ---------------------------------------------------------

TEST_F(intruder_test, a_port_scanner_does_no_harm) {
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 200; ++i)
    const raw_client c(port_of(*server_));
  EXPECT_TRUE(log_.comes_to_say("it ended before it sent a request"));
  EXPECT_TRUE(comes_true([&] { return open_descriptors() <= before; }));
  expect_job_undisturbed();
  // A flood of connections must not flood the log.
  EXPECT_LE(log_.count("\n"), 60U);
}

TEST_F(plain_intruder_test, incomplete_connections_are_not_logged_as_refused) {
  const std::string beginning = bytes_of(own_preamble(tcp::connection_kind::lane));
  for (int i = 0; i < 3; ++i)
    raw_client(port_of(*server_)).send(beginning);
  raw_client c(port_of(*server_));
  (void)meet(c, tcp::connection_kind::lane);
  c.send(bytes_of(own_connect_request(tcp::connection_kind::lane)));
  EXPECT_TRUE(log_.comes_to_say("it does not know the job's key"));
  EXPECT_EQ(log_.count("a connection is refused"), 1U) << log_.text();
  expect_job_undisturbed();
}

TEST_F(intruder_test, another_version_gets_the_reason) {
  tcp::preamble p = control_preamble(true);
  p.version = tcp::connection_version + 1;
  p.release = 0x000200;
  p.wire = 99;
  raw_client c(port_of(*server_));
  c.send(bytes_of(p));
  EXPECT_TRUE(c.is_ended_within(at_the_latest));
  ASSERT_EQ(c.received().size(), sizeof(tcp::admission_message));
  tcp::admission_message said;
  std::memcpy(&said, c.received().data(), sizeof said);
  EXPECT_EQ(said.magic, tcp::preamble_magic);
  EXPECT_EQ(said.word, tcp::admission::other_version);
  EXPECT_EQ(said.release, this_release);
  EXPECT_EQ(said.wire, wire_version);
  EXPECT_TRUE(log_.comes_to_say("farcall " + release_text(this_release) + " (wire version " +
                                std::to_string(wire_version)));
  EXPECT_EQ(log_.count("farcall 0.2.0 (wire version 99"), 1U) << log_.text();
  expect_job_undisturbed();
}

// Connection version 8 has a preamble of 40 bytes, and waits for an admission of 16.
TEST_F(intruder_test, a_client_that_sends_no_release_gets_the_reason) {
  std::string bytes(40, '\0');
  tcp::preamble p = control_preamble(true);
  p.version = 8;
  std::memcpy(bytes.data(), &p, 12);
  raw_client c(port_of(*server_));
  c.send(bytes);
  EXPECT_TRUE(c.is_ended_within(at_the_latest));
  ASSERT_GE(c.received().size(), 16U);
  std::uint32_t version = 0;
  std::memcpy(&version, c.received().data() + 8, sizeof version);
  EXPECT_EQ(version, tcp::connection_version);
  EXPECT_TRUE(log_.comes_to_say("(wire version 16 or less, connection version 8) there"));
  expect_job_undisturbed();
}

TEST_F(intruder_test, unknown_kinds_and_impossible_fields_are_refused) {
  tcp::preamble p = control_preamble(true);
  p.kind = static_cast<tcp::connection_kind>(7);
  expect_refused(bytes_of(p), "it is of an unknown kind");
  p.kind = tcp::connection_kind::join;
  expect_refused(bytes_of(p), "it wants to join a job");
  p.kind = static_cast<tcp::connection_kind>(0);
  expect_refused(bytes_of(p), "it is of an unknown kind");
  p = control_preamble(true);
  p.is_encrypted = 2;
  expect_refused(bytes_of(p), "neither plain nor encrypted");
  expect_refused("GET / HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n\r\n",
                 "it does not begin as a connection of farcall does");
  expect_job_undisturbed();
}

TEST_F(intruder_test, a_node_that_is_not_here_is_refused) {
  tcp::preamble p = own_preamble(tcp::connection_kind::lane);
  p.to = 2;
  expect_refused(bytes_of(p), "it asks for a node that is not here");
  p.to = 1;
  p.job[3] ^= std::byte{1};
  expect_refused(bytes_of(p), "it asks for a node that is not here");
  expect_job_undisturbed();
}

TEST_F(intruder_test, garbage_after_a_valid_prefix_is_refused) {
  const std::string valid = between_->recorded().at(0);
  ASSERT_GT(valid.size(), sizeof(tcp::preamble) + 16);
  std::mt19937 random(7);
  std::list<raw_client> clients;
  for (std::size_t length = 0; length < std::min<std::size_t>(valid.size(), 120); ++length) {
    std::string bytes = valid.substr(0, length);
    for (int i = 0; i < 300; ++i)
      bytes += static_cast<char>(random());
    clients.emplace_back(port_of(*server_)).send(bytes);
    // Keep the server below its limit of connections, which would be another reason to refuse.
    if (clients.size() == 60) clients.pop_front();
  }
  for (raw_client& c : clients)
    EXPECT_TRUE(c.is_ended_within(at_the_latest));
  expect_job_undisturbed();
}

TEST_F(intruder_test, a_recorded_beginning_with_any_bit_flipped_is_refused) {
  const std::string valid = between_->recorded().at(0);
  for (std::size_t at = 0; at < std::min<std::size_t>(valid.size(), 400); ++at) {
    std::string bytes = valid;
    bytes[at] = static_cast<char>(bytes[at] ^ 1 << at % 8);
    raw_client c(port_of(*server_));
    c.send(bytes);
    // Incomplete requests end with the server's handshake timeout.
    if (at % 20 == 0) {
      EXPECT_TRUE(c.is_ended_within(at_the_latest)) << "byte " << at;
    }
    ASSERT_EQ(server_->targets(), 1U) << "byte " << at;
  }
  ::usleep(500'000);
  expect_job_undisturbed();
}

TEST_F(intruder_test, recorded_connections_cannot_be_played_again) {
  (void)lane(target_);
  const auto recorded = between_->recorded();
  ASSERT_GE(recorded.size(), 2U);
  for (const std::string& bytes : recorded) {
    raw_client c(port_of(*server_));
    c.send(bytes);
    EXPECT_TRUE(c.is_ended_within(at_the_latest));
  }
  EXPECT_TRUE(log_.comes_to_say("refused"));
  EXPECT_EQ(
      sync(target_, [](const std::string& f) { return marks(f); }, folder_.file("alive")), 1U);
  expect_job_undisturbed();
}

// ---- slow intruders -----------------------------------------------------------------------------

TEST_F(intruder_test, incomplete_requests_end_with_the_handshake_timeout) {
  const std::string whole = bytes_of(control_preamble(true));
  expect_refused("", "it sent no request within");
  expect_refused(whole.substr(0, 20), "it sent no request within");
  // The rest, the TLS handshake, must arrive in time as well.
  expect_refused(whole, "it sent no request within");
  expect_job_undisturbed();
}

TEST_F(intruder_test, single_bytes_end_with_the_handshake_timeout) {
  raw_client c(port_of(*server_));
  const std::string whole = bytes_of(control_preamble(true));
  std::size_t sent = 0;
  while (sent < whole.size() && !c.is_ended_within(milliseconds(100))) {
    if (!c.send(whole.substr(sent, 1))) break;
    ++sent;
  }
  EXPECT_LT(sent, whole.size());
  EXPECT_TRUE(log_.comes_to_say("it sent no request within"));
  expect_job_undisturbed();
}

TEST_F(intruder_test, connections_to_targets_must_prove_themselves_in_time) {
  raw_client c(port_of(*server_));
  c.send(bytes_of(own_preamble(tcp::connection_kind::lane)));
  EXPECT_TRUE(c.is_ended_within(at_the_latest));
  EXPECT_TRUE(log_.comes_to_say("it sent no request within"));
  expect_job_undisturbed();
}

TEST_F(intruder_test, a_job_continues_during_a_flood_of_connections) {
  expect_job_undisturbed(); // makes the connections that a job keeps
  const std::size_t before = open_descriptors();
  std::list<raw_client> flood;
  for (int i = 0; i < 500; ++i) {
    flood.emplace_back(port_of(*server_));
    EXPECT_EQ(sync(target_, [](int v) { return v; }, i), i);
  }
  // This process's ends, and the ends that the server still reads.
  EXPECT_LE(open_descriptors(), before + 500 + 160);
  expect_job_undisturbed();
  EXPECT_TRUE(log_.comes_to_say("refused"));
  for (raw_client& c : flood)
    EXPECT_TRUE(c.is_ended_within(at_the_latest));
  flood.clear();
  EXPECT_TRUE(comes_true([&] { return open_descriptors() <= before; }, seconds(5)))
      << open_descriptors() << " descriptors, " << before << " before";
  const job another(network_job(url_of(*server_), key_));
  EXPECT_EQ(sync(another.targets()[0], [] { return 3; }), 3);
}

/// A server with a handshake timeout that no test reaches.
class patient_intruder_test : public intruder_test {
 protected:
  patient_intruder_test() : intruder_test(true, seconds(60)) {}

  /// Sends more connections than the limit; returns after some of them were displaced.
  [[nodiscard]] std::list<raw_client> flood_from(const char* address, const std::string& bytes) {
    std::list<raw_client> flood;
    for (int i = 0; i < 300; ++i)
      flood.emplace_back(port_of(*server_), address).send(bytes);
    EXPECT_TRUE(comes_true([&] {
      return std::ranges::any_of(flood,
                                 [](raw_client& c) { return c.is_ended_within(milliseconds(5)); });
    }));
    return flood;
  }
};

TEST_F(patient_intruder_test, a_flood_from_one_address_displaces_nobody_from_another) {
  // The loopback network counts as one source.
  const auto own = tcp::interface_addresses(0);
  const auto beyond = std::ranges::find_if(
      own, [](const tcp::socket_address& a) { return a.family() == AF_INET && !a.is_loopback(); });
  if (beyond == own.end()) GTEST_SKIP() << "this machine has no address but those of loopback";
  raw_client slow(port_of(*server_), beyond->numeric().host.c_str());
  const auto silent = flood_from("127.0.0.2", "");
  slow.send(bytes_of(control_preamble(true)));
  EXPECT_TRUE(comes_true([&] {
    EXPECT_FALSE(slow.is_ended_within(milliseconds(1)));
    return slow.received().size() == sizeof(tcp::admission_message);
  }));
  const auto half = flood_from("127.0.0.2", bytes_of(control_preamble(true)));
  EXPECT_FALSE(slow.is_ended_within(milliseconds(50)));
  expect_job_undisturbed();
}

// ---- unencrypted, where the last checks can be reached -----------------------------------------

TEST_F(plain_intruder_test, a_wrong_proof_is_refused_by_the_target) {
  tcp::connect_request o = own_connect_request(tcp::connection_kind::lane);
  o.ring_bytes = 65536;
  tcp::connect_request stranger = o;
  stranger.from = 7;
  expect_request_refused(stranger, "it comes from a node that is not in the job");
  std::size_t refused = 0;
  for (int round = 0; round < 5; ++round) {
    for (std::size_t at = 0; at < o.proof.size(); ++at) {
      raw_client c(port_of(*server_));
      tcp::connect_request wrong = o;
      tcp::sign(wrong, meet(c, wrong.kind), own_credentials());
      wrong.proof[at] ^= std::byte{0x10};
      c.send(bytes_of(wrong));
      if (c.is_ended_within(at_the_latest)) ++refused;
    }
  }
  EXPECT_EQ(refused, 5 * o.proof.size());
  EXPECT_TRUE(log_.comes_to_say("it does not know the job's key"));
  expect_job_undisturbed();
  // A flood of connections must not flood the log, at a target either.
  EXPECT_LE(log_.count("\n"), 60U);
}

/// A target of a server that has got the place of one that has ended.
class place_intruder_test : few_places, public plain_intruder_test {
 protected:
  place_intruder_test() : few_places(2), former_(target_.id()) {
    const node before = target_;
    ::kill(pid_, SIGKILL);
    EXPECT_TRUE(comes_true([&] { return !before.alive(); }));
    target_ = job_->restart(before);
    pid_ = sync(target_, ::getpid);
    EXPECT_EQ(target_.id(), successor_of(former_));
    EXPECT_TRUE(comes_true([&] { return server_->targets() == 1; }));
  }

  node_id former_;
};

constexpr tcp::connection_kind kinds_of_nodes[] = {
    tcp::connection_kind::lane, tcp::connection_kind::bulk, tcp::connection_kind::lane_back,
    tcp::connection_kind::bulk_back};

TEST_F(place_intruder_test, late_connections_to_the_former_node_are_refused) {
  for (const tcp::connection_kind kind : kinds_of_nodes) {
    tcp::preamble p = own_preamble(kind);
    p.to = former_;
    expect_refused(bytes_of(p), "it asks for a node that is not here");
    // The server passes this connection to the later node, but its request is for the former one.
    tcp::connect_request o = own_connect_request(kind);
    o.ring_bytes = 65536;
    o.to = former_;
    expect_request_refused(o, "it is for another node");
  }
  expect_job_undisturbed();
}

TEST_F(place_intruder_test, late_connections_of_the_former_node_are_refused) {
  for (const tcp::connection_kind kind : kinds_of_nodes) {
    tcp::connect_request o = own_connect_request(kind);
    o.ring_bytes = 65536;
    o.from = former_;
    expect_request_refused(o, "it comes from a node that is not in the job");
  }
  expect_job_undisturbed();
}

/// Adds a second target; a forwarder between the host and the server redirects connections of the
/// first to the second, without a key. The new lane takes another address.
void expect_no_lane_led_elsewhere(job& j, proxy& between) {
  const node first = j.targets().at(0);
  const node second = j.targets().at(1);
  const pid_t own = sync(first, ::getpid);
  (void)sync(second, ::getpid);
  between.lead_to(second.id());
  // Existing lanes continue.
  EXPECT_EQ(sync(first, ::getpid), own);
  const lane led(first);
  EXPECT_EQ(sync(led, ::getpid), own);
  between.lead_to(no_node);
  EXPECT_EQ(sync(second, ::getpid), second.description().pid);
}

TEST_F(intruder_test, a_lane_does_not_lead_to_another_node) {
  job_.reset();
  job j(network_job(between_->url() + "?count=2", key_));
  expect_no_lane_led_elsewhere(j, *between_);
  EXPECT_TRUE(log_.comes_to_say("the other side is not node 1 of this job"));
  EXPECT_TRUE(log_.comes_to_say("it is not for node 2"));
}

TEST_F(plain_intruder_test, a_lane_does_not_lead_to_another_node) {
  job_.reset();
  job j(network_job(between_->url() + "?count=2", key_));
  expect_no_lane_led_elsewhere(j, *between_);
  EXPECT_TRUE(log_.comes_to_say("another node, or none of the job, has replied"));
}

TEST_F(plain_intruder_test, impossible_lanes_are_refused) {
  for (const std::uint32_t bytes : {0U, 1U, 100U, 65537U, 1U << 27, 0xffffffffU}) {
    tcp::connect_request o = own_connect_request(tcp::connection_kind::lane);
    o.ring_bytes = bytes;
    expect_request_refused(o, "a lane of impossible size");
  }
  tcp::connect_request o = own_connect_request(tcp::connection_kind::control);
  raw_client c(port_of(*server_));
  tcp::sign(o, meet(c, tcp::connection_kind::lane), own_credentials());
  c.send(bytes_of(o));
  EXPECT_TRUE(c.is_ended_within(at_the_latest));
  EXPECT_TRUE(log_.comes_to_say("of a kind that nodes do not take"));
  expect_job_undisturbed();
}

/// Returns the numbers of threads and descriptors of the calling process.
std::pair<std::size_t, std::size_t> threads_and_descriptors() {
  const auto count = [](const char* folder) {
    const std::filesystem::directory_iterator all(folder);
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  };
  return {count("/proc/self/task"), count("/proc/self/fd")};
}

TEST_F(plain_intruder_test, lanes_cut_for_invalid_bytes_leave_no_resources) {
  const auto before = sync(target_, threads_and_descriptors);
  // Bytes that are no record, and a complete record that is no request, with more bytes after it.
  const std::string no_record(64, '\xff');
  std::string no_request = bytes_of(record_header{commit_word(16, record_kind::reply), 0});
  no_request.resize(16);
  no_request += no_request + std::string(100'000, 'x');
  // Like a lane of the host with its own worker.
  const std::size_t lanes_before = between_->recorded().size();
  sync(lane(target_), [] {});
  tcp::connect_request o;
  std::memcpy(
      &o, between_->recorded().at(lanes_before).data() + sizeof(tcp::preamble) + sizeof(tcp::nonce),
      sizeof o);
  ASSERT_EQ(o.kind, tcp::connection_kind::lane);
  ASSERT_EQ(o.own_worker, 1U);
  std::list<raw_client> clients;
  for (int i = 0; i < 30; ++i) {
    raw_client& c = clients.emplace_back(port_of(*server_));
    send_request(c, o, i % 2 == 0 ? no_record : no_request);
  }
  // The openers' ends stay open.
  EXPECT_TRUE(comes_true([&] { return sync(target_, threads_and_descriptors) == before; }));
  for (raw_client& c : clients)
    EXPECT_TRUE(c.is_ended_within(at_the_latest));
  EXPECT_TRUE(log_.comes_to_say("sent bytes that are no request"));
  EXPECT_LE(log_.count("sent bytes that are no request"), 21U);
  expect_job_undisturbed();
}

TEST_F(plain_intruder_test, memory_that_is_not_shared_cannot_be_copied) {
  const auto there = target_.allocate<std::uint64_t>(1000);
  const tcp::connect_request copies = own_connect_request(tcp::connection_kind::bulk);
  const std::uint64_t inside = there.span().address();
  const std::array<tcp::bulk_request, 6> bad{{
      {tcp::bulk_operation::get, 0, 0x1000, 8},
      {tcp::bulk_operation::put, 0, 0x1000, 8},
      {tcp::bulk_operation::get, 0, inside, ~std::uint64_t{0}},
      {tcp::bulk_operation::put, 0, inside, ~std::uint64_t{0} - inside + 1},
      {tcp::bulk_operation::get, 0, ~std::uint64_t{0}, 2},
      {static_cast<tcp::bulk_operation>(3), 0, inside, 8},
  }};
  for (const tcp::bulk_request& request : bad)
    expect_request_refused(copies, "memory that is not shared", bytes_of(request));
  // A valid request, to show that the others are not refused for another reason.
  raw_client c(port_of(*server_));
  send_request(c, copies, bytes_of(tcp::bulk_request{tcp::bulk_operation::get, 0, inside, 8}));
  EXPECT_FALSE(c.is_ended_within(milliseconds(300)));
  EXPECT_EQ(c.received().size(), 16U);
  expect_job_undisturbed();
}

TEST_F(plain_intruder_test, a_recorded_beginning_with_flipped_bits_is_harmless) {
  (void)lane(target_);
  const auto recorded = between_->recorded();
  ASSERT_GE(recorded.size(), 2U);
  const std::string valid = recorded[1].substr(0, sizeof(tcp::preamble) + sizeof(tcp::nonce) +
                                                      sizeof(tcp::connect_request) + 32);
  for (std::size_t at = 0; at < valid.size(); ++at) {
    std::string bytes = valid;
    bytes[at] = static_cast<char>(bytes[at] ^ 1 << at % 8);
    raw_client c(port_of(*server_));
    c.send(bytes);
    if (at % 8 == 0) {
      EXPECT_EQ(sync(target_, ::getpid), pid_) << "byte " << at;
    }
  }
  expect_job_undisturbed();
}

TEST_F(plain_intruder_test, running_nodes_cannot_be_requested_again) {
  expect_refused(between_->recorded().at(0).substr(0, sizeof(tcp::preamble) + request_frame_bytes),
                 "node 1 of this job runs here already");
  expect_job_undisturbed();
}

/// The client has its own key, and has seen the name of another client's job.
TEST_F(plain_intruder_test, nodes_are_refused_without_the_job_s_key) {
  target_request request;
  request.credentials = tcp::job_credentials::make(false);
  request.credentials.name = own_preamble(tcp::connection_kind::control).job;
  request.heartbeat_timeout = seconds(5);
  request.node = 2;
  tcp::preamble first = own_preamble(tcp::connection_kind::control);
  first.to = request.node;
  const std::vector<std::byte> body = encode_request(request);
  const frame_header header{static_cast<std::uint32_t>(body.size()),
                            static_cast<std::uint32_t>(control::request)};
  raw_client c(port_of(*server_));
  c.send(bytes_of(first) + bytes_of(header) +
         std::string(reinterpret_cast<const char*>(body.data()), body.size()));
  EXPECT_TRUE(c.is_ended_within(at_the_latest));
  EXPECT_THAT(c.received(), HasSubstr("a job whose key it does not have"));
  // The node's number is still free for the job's owner.
  EXPECT_EQ(job_->add(url_of(*server_)).id(), 2U);
  EXPECT_EQ(sync(target_, ::getpid), pid_);
}

TEST_F(plain_intruder_test, requests_that_make_no_sense_are_refused) {
  const std::string preamble = bytes_of(control_preamble());
  std::string request =
      between_->recorded().at(0).substr(sizeof(tcp::preamble), request_frame_bytes);
  std::string zero_heartbeat_timeout = request;
  std::memset(zero_heartbeat_timeout.data() + request_frame_bytes - 4, 0, 4);
  expect_refused(preamble + zero_heartbeat_timeout, "make no sense");
  std::string long_heartbeat_timeout = request;
  std::memset(long_heartbeat_timeout.data() + request_frame_bytes - 4, 0xff, 4);
  expect_refused(preamble + long_heartbeat_timeout, "make no sense");
  std::string other_kind = request;
  other_kind[4] = static_cast<char>(other_kind[4] + 1);
  expect_refused(preamble + other_kind, "something else than a request for a target");
  std::string other_size = request;
  other_size[0] = static_cast<char>(other_size[0] + 1);
  expect_refused(preamble + other_size, "something else than a request for a target");
  expect_job_undisturbed();
}

} // namespace
} // namespace farcall::test::intruder_test
