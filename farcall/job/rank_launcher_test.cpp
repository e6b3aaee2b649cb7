// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/byte_stream.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/version.hpp>
#include <farcall/job/rank_launcher.hpp>
#include <farcall/transport/wire_release.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::test::rank_launcher_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::uint64_t ports_magic = 0x7374726f706c6c61; // from docs/wire.md

/// Returns a function that connects to a host which broadcasts these bytes.
auto connecting_to_host_that_says(const byte_writer& w) {
  process_group group;
  group.name = "a test";
  group.rank = 1;
  group.size = 2;
  const std::vector<std::byte>& bytes = w.bytes();
  group.broadcast = [said = std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())](
                        const std::string&, time_point) { return said; };
  return [group] { (void)connect_to_host(group, {}, no_deadline); };
}

TEST(rank_launcher, names_the_release_of_a_host_of_another_version) {
  byte_writer w;
  w.number(ports_magic);
  w.number(wire_version + 1);
  w.number(std::uint32_t{0x000200}); // the rest may have any form
  EXPECT_THAT(connecting_to_host_that_says(w),
              ThrowsMessage<start_failed>(
                  AllOf(HasSubstr("process 1 of a test"),
                        HasSubstr(release_name(this_release, wire_version) + " here"),
                        HasSubstr(release_name(0x000200, wire_version + 1) + " there"))));
}

TEST(rank_launcher, names_the_version_of_a_host_without_a_release) {
  byte_writer w;
  w.number(ports_magic);
  w.number(std::uint32_t{16});
  EXPECT_THAT(connecting_to_host_that_says(w),
              ThrowsMessage<start_failed>(
                  AllOf(HasSubstr(release_name(this_release, wire_version) + " here"),
                        HasSubstr("(wire version 16) there"))));
}

TEST(rank_launcher, distinguishes_other_programs_from_hosts) {
  byte_writer w;
  w.number(~ports_magic);
  w.number(wire_version);
  w.number(this_release);
  EXPECT_THAT(connecting_to_host_that_says(w),
              ThrowsMessage<start_failed>(HasSubstr("process 0 is no host of farcall")));
}

} // namespace
} // namespace farcall::test::rank_launcher_test
