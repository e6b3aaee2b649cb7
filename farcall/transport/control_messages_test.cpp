// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/byte_stream.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/text.hpp>
#include <farcall/base/version.hpp>
#include <farcall/transport/card.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/wire_release.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace farcall::messages::control_messages_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

hello full_hello() {
  hello m;
  m.node = 3;
  m.nodes = 7;
  m.capacity = 1024;
  m.lane_bytes = 65536;
  m.heap_bytes = std::uint64_t{1} << 40;
  m.workers = 4;
  m.cpu = 11;
  m.name = "solver";
  m.scheme = "shm";
  m.settings = {std::byte{1}, std::byte{2}};
  return m;
}

/// Bodies of all messages with fields.
std::vector<std::pair<control, std::vector<std::byte>>> all_bodies() {
  card c;
  c.workers = 1;
  return {{present::kind, present{}.encode()},
          {memory::kind, memory{2, 4096, {65536, 8192}}.encode()},
          {hello::kind, full_hello().encode()},
          {joined::kind, joined{c}.encode()},
          {member::kind, member{c}.encode()},
          {node_failed::kind, node_failed{5, "it was killed"}.encode()},
          {introduce::kind, introduce{4}.encode()},
          {introduced::kind, introduced{4}.encode()},
          {absent::kind, absent{9, 7}.encode()},
          {refused::kind, refused{"no memory"}.encode()},
          {faulted::kind, faulted{11, true, "in f()"}.encode()},
          {ended::kind, ended{"exit 3", 3}.encode()},
          {quiet::kind, quiet{2, true}.encode()},
          {round::kind, round{3}.encode()},
          {file::kind, file{5}.encode()},
          {output::kind, output{output_stream::error, "a line\n"}.encode()},
          {written::kind, written{70'000}.encode()},
          {setup::kind, setup{"tcp", {std::byte{1}}}.encode()},
          {transport::kind, transport{2, "tcp", {std::byte{1}}}.encode()}};
}

void decode_any(control kind, std::span<const std::byte> body) {
  switch (kind) {
  case control::present:
    (void)present::decode(body);
    break;
  case control::memory:
    (void)memory::decode(body);
    break;
  case control::hello:
    (void)hello::decode(body);
    break;
  case control::joined:
    (void)joined::decode(body);
    break;
  case control::member:
    (void)member::decode(body);
    break;
  case control::node_failed:
    (void)node_failed::decode(body);
    break;
  case control::introduce:
    (void)introduce::decode(body);
    break;
  case control::introduced:
    (void)introduced::decode(body);
    break;
  case control::absent:
    (void)absent::decode(body);
    break;
  case control::refused:
    (void)refused::decode(body);
    break;
  case control::faulted:
    (void)faulted::decode(body);
    break;
  case control::ended:
    (void)ended::decode(body);
    break;
  case control::quiet:
    (void)quiet::decode(body);
    break;
  case control::round:
    (void)round::decode(body);
    break;
  case control::file:
    (void)file::decode(body);
    break;
  case control::output:
    (void)output::decode(body);
    break;
  case control::written:
    (void)written::decode(body);
    break;
  case control::setup:
    (void)setup::decode(body);
    break;
  case control::transport:
    (void)transport::decode(body);
    break;
  default:
    ADD_FAILURE() << "no such message here";
  }
}

TEST(control_messages, are_read_as_they_were_written) {
  const memory m = memory::decode(memory{2, 4096, {65536, 8192}}.encode());
  EXPECT_EQ(m.node, 2U);
  EXPECT_EQ(m.receive_segment_bytes, 4096U);
  EXPECT_EQ(m.window_bytes, (std::vector<std::uint64_t>{65536, 8192}));

  const hello h = hello::decode(full_hello().encode());
  EXPECT_EQ(h.node, 3U);
  EXPECT_EQ(h.nodes, 7U);
  EXPECT_EQ(h.capacity, 1024U);
  EXPECT_EQ(h.lane_bytes, 65536U);
  EXPECT_EQ(h.heap_bytes, std::uint64_t{1} << 40);
  EXPECT_EQ(h.workers, 4U);
  EXPECT_EQ(h.cpu, 11U);
  EXPECT_EQ(h.name, "solver");
  EXPECT_EQ(h.scheme, "shm");
  EXPECT_EQ(h.settings.size(), 2U);

  const node_failed f = node_failed::decode(node_failed{5, "it was killed"}.encode());
  EXPECT_EQ(f.node, 5U);
  EXPECT_EQ(f.why, "it was killed");
  EXPECT_EQ(introduce::decode(introduce{4}.encode()).node, 4U);
  EXPECT_EQ(introduced::decode(introduced{4}.encode()).node, 4U);
  EXPECT_EQ(absent::decode(absent{9, 7}.encode()).node, 9U);
  EXPECT_EQ(absent::decode(absent{9, 7}.encode()).nodes, 7U);
  EXPECT_EQ(refused::decode(refused{"no memory"}.encode()).why, "no memory");
  const auto fault = faulted::decode(faulted{11, true, "in f()"}.encode());
  EXPECT_EQ(fault.signal, 11);
  EXPECT_TRUE(fault.has_names);
  EXPECT_EQ(fault.where, "in f()");
  EXPECT_FALSE(faulted::decode(faulted{11, false, ""}.encode()).has_names);
  EXPECT_EQ(ended::decode(ended{"exit 3"}.encode()).how, "exit 3");
  EXPECT_EQ(ended::decode(ended{"exit 3"}.encode()).code, -1);
  for (const std::int32_t signal : {-1, 0, 65, 99'999})
    EXPECT_THROW((void)faulted::decode(faulted{signal, true, ""}.encode()), malformed_message);
  // Texts for people must not contain control characters.
  for (const std::string& text : {refused::decode(refused{"\x1b[2J"}.encode()).why,
                                  faulted::decode(faulted{11, true, "\x1b[2J"}.encode()).where,
                                  ended::decode(ended{"\x1b[2J"}.encode()).how,
                                  node_failed::decode(node_failed{1, "\x1b[2J"}.encode()).why}) {
    EXPECT_EQ(text, std::string(replacement_character) + "[2J");
  }
  EXPECT_EQ(ended::decode(ended{"exit 3", 3}.encode()).code, 3);
  EXPECT_EQ(quiet::decode(quiet{2, true}.encode()).round, 2U);
  EXPECT_TRUE(quiet::decode(quiet{2, true}.encode()).was_active);
  EXPECT_FALSE(quiet::decode(quiet{2, false}.encode()).was_active);
  EXPECT_EQ(round::decode(round{3}.encode()).number, 3U);

  const std::vector<std::byte> bytes{std::byte{7}, std::byte{0}};
  const setup s = setup::decode(setup{"tcp", bytes}.encode());
  EXPECT_EQ(s.scheme, "tcp");
  EXPECT_EQ(s.bytes, bytes);
  const transport t = transport::decode(transport{6, "pipe", bytes}.encode());
  EXPECT_EQ(t.peer, 6U);
  EXPECT_EQ(t.scheme, "pipe");
  EXPECT_EQ(t.bytes, bytes);
}

TEST(control_messages, greeting_with_impossible_lanes_is_refused) {
  for (const std::uint32_t bytes : {0U, 2048U, 65535U, 1U << 27}) {
    hello m = full_hello();
    m.lane_bytes = bytes;
    EXPECT_THROW((void)hello::decode(m.encode()), malformed_message) << bytes;
  }
}

TEST(control_messages, an_absent_processor_stays_absent) {
  hello m = full_hello();
  m.cpu.reset();
  EXPECT_EQ(hello::decode(m.encode()).cpu, std::nullopt);
}

TEST(control_messages, cut_anywhere_are_refused) {
  for (const auto& [kind, body] : all_bodies()) {
    for (std::size_t size = 0; size < body.size(); ++size) {
      EXPECT_THROW(decode_any(kind, std::span(body).first(size)), error)
          << "kind " << static_cast<int>(kind) << ", " << size << " bytes";
    }
  }
}

TEST(control_messages, followed_by_anything_are_refused) {
  for (auto& [kind, body] : all_bodies()) {
    if (kind == control::present) continue; // later versions may append fields to it
    body.push_back(std::byte{0});
    EXPECT_THROW(decode_any(kind, body), malformed_message) << static_cast<int>(kind);
  }
  const std::vector<std::byte> something(1);
  EXPECT_THROW((void)start::decode(something), malformed_message);
  EXPECT_THROW((void)shut_down::decode(something), malformed_message);
  EXPECT_THROW((void)heartbeat::decode(something), malformed_message);
}

TEST(control_messages, the_sender_truncates_long_texts) {
  const std::string endless(100'000, 'x');
  EXPECT_EQ(refused::decode(refused{endless}.encode()).why.size(), byte_reader::max_text);
  EXPECT_EQ(ended::decode(ended{endless}.encode()).how.size(), byte_reader::max_text);
  EXPECT_EQ(node_failed::decode(node_failed{1, endless}.encode()).why.size(),
            byte_reader::max_text);
}

TEST(control_messages, memory_without_windows_or_with_too_many_is_refused) {
  EXPECT_THROW((void)memory::decode(memory{1, 4096, {}}.encode()), malformed_message);
  EXPECT_THROW((void)memory::decode(memory{1, 4096, std::vector<std::uint64_t>(8, 4096)}.encode()),
               malformed_message);
  // Also a count with too few bytes behind it.
  auto body = memory{1, 4096, {4096}}.encode();
  const std::uint32_t many = 0xFFFFFFFF;
  std::memcpy(body.data() + 12, &many, sizeof many);
  EXPECT_THROW((void)memory::decode(body), malformed_message);
}

TEST(control_messages, greeting_that_is_inconsistent_is_refused) {
  hello m = full_hello();
  m.node = host_id;
  EXPECT_THROW((void)hello::decode(m.encode()), malformed_message);
  m = full_hello();
  m.node = m.nodes;
  EXPECT_THROW((void)hello::decode(m.encode()), malformed_message);
  m = full_hello();
  m.capacity = m.nodes - 1;
  EXPECT_THROW((void)hello::decode(m.encode()), malformed_message);
  for (const std::uint32_t workers : {0U, 257U, 0xFFFFFFFFU}) {
    m = full_hello();
    m.workers = workers;
    EXPECT_THROW((void)hello::decode(m.encode()), malformed_message) << workers;
  }
}

TEST(control_messages, greeting_of_a_later_node_is_accepted) {
  hello m = full_hello();
  m.node = successor_of(m.nodes - 1);
  EXPECT_EQ(hello::decode(m.encode()).node, m.node);
  m.node = m.nodes - 1 + last_node_epoch * max_node_places;
  EXPECT_EQ(hello::decode(m.encode()).node, m.node);
  for (const node_id impossible :
       {successor_of(host_id), successor_of(m.nodes), successor_of(m.node), no_node}) {
    m.node = impossible;
    EXPECT_THROW((void)hello::decode(m.encode()), malformed_message) << impossible;
  }
}

TEST(control_messages, greeting_of_another_version_is_refused) {
  auto body = full_hello().encode();
  const std::array<std::uint32_t, 2> next{wire_version + 1, 0x000200};
  std::memcpy(body.data(), next.data(), sizeof next);
  body.resize(sizeof next); // the rest may have any form
  EXPECT_THAT([&] { (void)hello::decode(body); },
              ThrowsMessage<error>(AllOf(HasSubstr("another version"),
                                         HasSubstr(release_name(this_release, wire_version)),
                                         HasSubstr(release_name(0x000200, wire_version + 1)))));
}

TEST(control_messages, greeting_without_a_release_is_refused_with_both_versions) {
  // Version 16 has the receiver's node behind the version.
  std::vector<std::byte> body(4);
  const std::uint32_t earlier = 16;
  std::memcpy(body.data(), &earlier, sizeof earlier);
  EXPECT_THAT([&] { (void)hello::decode(body); },
              ThrowsMessage<error>(AllOf(HasSubstr(release_name(this_release, wire_version)),
                                         HasSubstr(release_name(0, 16)))));
}

TEST(control_messages, are_sent_over_a_socket) {
  auto [here, there] = control_socket::make_pair();
  ASSERT_TRUE(send(here, node_failed{4, "gone"}));
  ASSERT_TRUE(try_send(here, shut_down{}));
  const auto first = there.receive(clock::now());
  ASSERT_TRUE(first);
  EXPECT_EQ(first->kind, control::node_failed);
  EXPECT_EQ(node_failed::decode(first->body).node, 4U);
  const auto second = there.receive(clock::now());
  ASSERT_TRUE(second);
  EXPECT_EQ(second->kind, control::shut_down);
}

} // namespace
} // namespace farcall::messages::control_messages_test
