// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/version.hpp>
#include <farcall/transport/tcp/handshake.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::tcp::handshake_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

/// The bytes that preambles and admissions of version 9 and of each later version have in common,
/// by docs/wire.md.
struct beginning {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t release;
  std::uint32_t wire;
};
constexpr std::size_t beginning_bytes = 20;

const std::string here = "farcall " + release_text(this_release) + " (wire version " +
                         std::to_string(wire_version) + ", connection version " +
                         std::to_string(connection_version) + ") here";

template <class Message>
Message of_next_release() {
  Message m;
  m.version = connection_version + 1;
  m.release = 0x000200;
  m.wire = wire_version + 1;
  return m;
}
const std::string next_release = "farcall 0.2.0 (wire version " + std::to_string(wire_version + 1) +
                                 ", connection version " + std::to_string(connection_version + 1) +
                                 ") there";

bool is_printable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

template <class Message>
void expect_beginning(const Message& m) {
  beginning first{};
  std::memcpy(&first, &m, beginning_bytes);
  EXPECT_EQ(std::memcmp(&first.magic, "farcall\n", 8), 0);
  EXPECT_EQ(first.version, connection_version);
  EXPECT_EQ(first.release, this_release);
  EXPECT_EQ(first.wire, wire_version);
}

TEST(handshake, begins_with_the_release_at_both_ends) {
  expect_beginning(preamble{});
  expect_beginning(admission_message{});
}

TEST(handshake, accepts_preambles_of_this_version_and_any_release) {
  preamble p;
  p.kind = connection_kind::lane;
  EXPECT_EQ(flaw_of(p), "");
  p.release = 0x7F0203; // a patch release, which has the same format
  EXPECT_EQ(flaw_of(p), "");
}

TEST(handshake, names_both_releases_to_the_accepting_end) {
  EXPECT_THAT(flaw_of(of_next_release<preamble>()),
              AllOf(HasSubstr("another version of farcall"), HasSubstr(here),
                    HasSubstr(next_release), HasSubstr("build both")));
}

TEST(handshake, names_both_releases_to_the_dialling_end) {
  for (const admission word : {admission::come_in, admission::other_version, admission::is_full}) {
    auto said = of_next_release<admission_message>();
    said.word = word;
    EXPECT_THAT([&] { require_admission(said); },
                ThrowsMessage<error>(AllOf(HasSubstr(here), HasSubstr(next_release))));
  }
}

TEST(handshake, names_the_versions_of_ends_that_send_no_release) {
  const auto names_versions =
      AllOf(HasSubstr(here),
            HasSubstr("of an unknown release (wire version 16 or less, connection "
                      "version 8) there"),
            Not(HasSubstr("1.2.3")));
  preamble p;
  p.version = 8;
  p.release = 0x010203; // in that version, this is the kind of the connection
  EXPECT_THAT(flaw_of(p), names_versions);
  admission_message said;
  said.version = 8;
  said.release = 0x010203;
  EXPECT_THAT([&] { require_admission(said); }, ThrowsMessage<error>(names_versions));
}

TEST(handshake, is_decided_by_the_bytes_that_each_version_has) {
  const auto expect_decided_by = [](auto m, std::size_t bytes) {
    for (std::size_t have = 0; have <= sizeof m; ++have)
      EXPECT_EQ(have >= deciding_bytes(m, have), have >= bytes) << have;
  };
  expect_decided_by(preamble{}, sizeof(preamble));
  expect_decided_by(admission_message{}, sizeof(admission_message));
  expect_decided_by(of_next_release<preamble>(), beginning_bytes);
  expect_decided_by(of_next_release<admission_message>(), beginning_bytes);
  // An earlier version's preamble has 40 bytes, and its admission 16.
  preamble earlier;
  earlier.version = 8;
  expect_decided_by(earlier, 12);
  admission_message said;
  said.version = 8;
  expect_decided_by(said, 12);
  // Bytes of another program.
  preamble stranger = of_next_release<preamble>();
  stranger.magic = 0x20544547;
  expect_decided_by(stranger, 8);
}

TEST(handshake, writes_printable_and_short_texts_for_all_numbers) {
  constexpr std::uint32_t most = std::numeric_limits<std::uint32_t>::max();
  for (const std::uint32_t number : {0U, 1U, 8U, 0x00000A0DU, 0x1B5B324AU, most}) {
    preamble p;
    p.version = p.release = p.wire = number;
    const std::string text = flaw_of(p);
    EXPECT_TRUE(is_printable(text)) << text;
    EXPECT_THAT(text, HasSubstr(here));
    EXPECT_LT(text.size(), 300U) << text;
  }
}

} // namespace
} // namespace farcall::tcp::handshake_test
