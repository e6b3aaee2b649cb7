// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/version.hpp>
#include <farcall/transport/card.hpp>
#include <tests/support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace farcall {

static bool operator==(const memory_window& a, const memory_window& b) {
  return a.address == b.address && a.bytes == b.bytes;
}

} // namespace farcall

namespace farcall::card_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

card full_card() {
  card c;
  c.id = 3;
  c.name = "solver";
  c.host = "node17.cluster";
  c.machine = "6b1d/1000";
  c.architecture = "x86_64";
  c.transport = "shm";
  c.pid = 4711;
  c.cores = 96;
  c.workers = 4;
  c.build = "a-build-id";
  c.key_digest = 0x0123456789ABCDEF;
  c.lane_bytes = 65536;
  c.windows = {{0x7F0000000000, 1 << 30}, {0x7E0000000000, 4096}};
  c.owner = 1;
  c.transports["tcp"] = {std::byte{1}, std::byte{2}};
  c.transports["pipe"] = {std::byte{3}};
  return c;
}

void expect_equal(const card& a, const card& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.host, b.host);
  EXPECT_EQ(a.machine, b.machine);
  EXPECT_EQ(a.architecture, b.architecture);
  EXPECT_EQ(a.transport, b.transport);
  EXPECT_EQ(a.pid, b.pid);
  EXPECT_EQ(a.cores, b.cores);
  EXPECT_EQ(a.workers, b.workers);
  EXPECT_EQ(a.build, b.build);
  EXPECT_EQ(a.key_digest, b.key_digest);
  EXPECT_EQ(a.lane_bytes, b.lane_bytes);
  EXPECT_EQ(a.windows, b.windows);
  EXPECT_EQ(a.owner, b.owner);
  EXPECT_EQ(a.transports, b.transports);
}

template <class Number>
void overwrite(std::vector<std::byte>& bytes, std::size_t at, Number value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

// Offsets of the preamble's fields, from docs/wire.md.
constexpr std::size_t magic_at = 0;
constexpr std::size_t version_at = 4;
constexpr std::size_t release_at = 12;
constexpr std::size_t pointer_at = 8;

TEST(card, is_read_as_it_was_written) {
  expect_equal(decode_card(encode(full_card())), full_card());
}

TEST(card, empty_texts_and_no_windows_are_fine) {
  card c;
  c.workers = 1;
  expect_equal(decode_card(encode(c)), c);
}

TEST(card, extreme_numbers_and_texts_are_fine) {
  card c = full_card();
  c.id = no_node;
  c.pid = std::numeric_limits<std::uint64_t>::max();
  c.cores = std::numeric_limits<std::uint32_t>::max();
  c.key_digest = std::numeric_limits<std::uint64_t>::max();
  c.name = std::string(4096, 'x');
  c.host = std::string("a\0b", 3);
  c.windows.assign(16, {0, std::numeric_limits<std::uint64_t>::max()});
  expect_equal(decode_card(encode(c)), c);
}

// Every version, past and future, must be able to read the first 16 bytes.
TEST(card, begins_with_the_preamble_of_the_wire_format) {
  const auto bytes = encode(full_card());
  std::array<std::uint32_t, 4> preamble{};
  std::memcpy(preamble.data(), bytes.data(), sizeof preamble);
  EXPECT_EQ(preamble[0], 0x66617263U);
  EXPECT_EQ(preamble[1], wire_version);
  EXPECT_EQ(preamble[2], sizeof(void*));
  EXPECT_EQ(preamble[3], this_release);
}

// ---- cards of incompatible nodes ----------------------------------------------------------------

TEST(card, another_version_is_refused_with_both_versions) {
  for (const std::uint32_t version : {wire_version + 1, wire_version - 1, 0xFFFFFFFFU}) {
    auto bytes = encode(full_card());
    overwrite(bytes, version_at, version);
    EXPECT_THAT([&] { (void)decode_card(bytes); },
                ThrowsMessage<error>(AllOf(HasSubstr("version " + std::to_string(version)),
                                           HasSubstr("version " + std::to_string(wire_version)),
                                           HasSubstr("build both"))));
  }
}

TEST(card, another_release_is_named_beside_this_one) {
  for (const auto& [release, name] :
       {std::pair{0x010203U, "farcall 1.2.3"}, {0U, "farcall of an unknown release"}}) {
    auto bytes = encode(full_card());
    overwrite(bytes, version_at, wire_version + 1);
    overwrite(bytes, release_at, release);
    EXPECT_THAT(
        [&] { (void)decode_card(bytes); },
        ThrowsMessage<error>(
            AllOf(HasSubstr(name), HasSubstr(release_name(this_release, wire_version) + " here"))));
  }
}

TEST(card, another_version_is_refused_before_the_rest_is_read) {
  auto bytes = encode(full_card());
  overwrite(bytes, version_at, wire_version + 1);
  bytes.resize(16);
  EXPECT_THAT([&] { (void)decode_card(bytes); }, ThrowsMessage<error>(HasSubstr("version")));
}

TEST(card, another_byte_order_is_refused) {
  auto bytes = encode(full_card());
  std::reverse(bytes.begin() + magic_at, bytes.begin() + magic_at + 4);
  EXPECT_THAT([&] { (void)decode_card(bytes); }, ThrowsMessage<error>(HasSubstr("byte order")));
}

TEST(card, another_pointer_size_is_refused_with_both_sizes) {
  auto bytes = encode(full_card());
  overwrite(bytes, pointer_at, std::uint32_t{4});
  EXPECT_THAT([&] { (void)decode_card(bytes); },
              ThrowsMessage<error>(AllOf(HasSubstr("4 bytes"), HasSubstr("of 8"))));
}

TEST(card, format_alone_is_checked_in_the_same_way) {
  EXPECT_NO_THROW(check_format(encode_format()));
  auto swapped = encode_format();
  std::reverse(swapped.begin() + magic_at, swapped.begin() + magic_at + 4);
  EXPECT_THAT([&] { check_format(swapped); }, ThrowsMessage<error>(HasSubstr("byte order")));
  auto narrow = encode_format();
  overwrite(narrow, pointer_at, std::uint32_t{4});
  EXPECT_THAT([&] { check_format(narrow); }, ThrowsMessage<error>(HasSubstr("4 bytes")));
  EXPECT_THROW(check_format({}), malformed_message);
}

// ---- invalid cards ------------------------------------------------------------------------------

TEST(card, other_bytes_are_refused) {
  for (const char* text : {"", "x", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"}) {
    const auto* from = reinterpret_cast<const std::byte*>(text);
    const std::vector<std::byte> bytes(from, from + std::strlen(text));
    EXPECT_THROW((void)decode_card(bytes), malformed_message) << text;
  }
  EXPECT_THROW((void)decode_card(std::vector<std::byte>(1000)), malformed_message);
}

TEST(card, cut_anywhere_is_refused) {
  const auto whole = encode(full_card());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::vector<std::byte> cut(whole.begin(),
                                     whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THROW((void)decode_card(cut), malformed_message) << size;
  }
}

TEST(card, followed_by_anything_is_refused) {
  auto bytes = encode(full_card());
  bytes.push_back(std::byte{0});
  EXPECT_THROW((void)decode_card(bytes), malformed_message);
}

TEST(card, too_many_windows_are_refused) {
  card c = full_card();
  c.windows.assign(17, {4096, 4096});
  EXPECT_THROW((void)decode_card(encode(c)), malformed_message);
  // Also a count with too few bytes behind it.
  c.windows = {{4096, 4096}, {8192, 4096}};
  c.transports.clear();
  auto bytes = encode(c);
  constexpr std::size_t behind = sizeof(node_id) + sizeof(std::uint32_t);
  overwrite(bytes, bytes.size() - behind - 2 * sizeof(memory_window) - 4, 0xFFFFFFFFU);
  EXPECT_THROW((void)decode_card(bytes), malformed_message);
}

TEST(card, windows_that_wrap_around_are_refused) {
  constexpr std::uint64_t top = std::numeric_limits<std::uint64_t>::max();
  for (const memory_window window :
       {memory_window{top, 2}, memory_window{4096, top}, memory_window{top - 4095, top}}) {
    card c = full_card();
    c.windows = {window};
    EXPECT_THROW((void)decode_card(encode(c)), malformed_message) << window.address;
  }
}

TEST(card, transports_read_only_their_own_data) {
  const card c = decode_card(encode(full_card()));
  EXPECT_EQ(bytes_for(c, "tcp").size(), 2U);
  EXPECT_EQ(bytes_for(c, "pipe").size(), 1U);
  EXPECT_TRUE(bytes_for(c, "shm").empty());
}

TEST(card, nodes_without_an_owner_are_processes) {
  card c = full_card();
  EXPECT_TRUE(is_hosted(c));
  c.owner = no_node;
  EXPECT_FALSE(is_hosted(decode_card(encode(c))));
}

TEST(card, too_much_transport_data_is_refused) {
  card many = full_card();
  for (int i = 0; i < 17; ++i)
    many.transports["t" + std::to_string(i)] = {};
  EXPECT_THROW((void)decode_card(encode(many)), malformed_message);
  card large = full_card();
  large.transports["tcp"].resize(4097);
  EXPECT_THROW((void)decode_card(encode(large)), malformed_message);
}

TEST(card, texts_that_are_too_long_are_refused) {
  card c = full_card();
  c.build = std::string(4097, 'x');
  EXPECT_THROW((void)decode_card(encode(c)), malformed_message);
}

TEST(card, impossible_numbers_of_workers_are_refused) {
  for (const std::uint32_t workers : {0U, 1000U, 0xFFFFFFFFU}) {
    card c = full_card();
    c.workers = workers;
    EXPECT_THROW((void)decode_card(encode(c)), malformed_message) << workers;
  }
}

// A changed byte must give another card, or an error that says why.
TEST(card, any_changed_byte_is_survived) {
  const auto whole = encode(full_card());
  std::size_t refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const unsigned change : {0x01U, 0x80U, 0xFFU}) {
      auto bytes = whole;
      bytes[at] ^= static_cast<std::byte>(change);
      try {
        const card c = decode_card(bytes);
        EXPECT_EQ(encode(c).size(), bytes.size());
      } catch (const error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 0U);
}

} // namespace
} // namespace farcall::card_test
