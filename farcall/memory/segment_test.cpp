// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/memory/segment.hpp>
#include <tests/child.hpp>
#include <tests/refused_calls.hpp>
#include <tests/support.hpp>
#include <tests/vm_flags.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace farcall::segment_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::size_t mib = std::size_t{1} << 20;

bool all_are(const std::byte* from, std::size_t bytes, std::byte value) {
  return std::all_of(from, from + bytes, [&](std::byte b) { return b == value; });
}

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

std::string mappings() {
  std::ifstream file("/proc/self/maps");
  return {std::istreambuf_iterator<char>(file), {}};
}

unique_fd duplicate(const segment& s) { return unique_fd(::fcntl(s.fd(), F_DUPFD_CLOEXEC, 0)); }

TEST(segment, stays_out_of_core_dumps) {
  const segment s = segment::create("farcall-test", mib);
  const std::string flags = test::vm_flags(s.data());
  if (flags.empty()) GTEST_SKIP() << "the system tells nothing about its mappings";
  EXPECT_THAT(flags, HasSubstr(" dd")) << "do not dump";
}

TEST(segment, is_aligned_in_every_process) {
  std::vector<segment> all;
  for (std::size_t bytes = 1; bytes < std::size_t{1} << 22; bytes = bytes * 3 + 1000) {
    all.push_back(segment::create("farcall-test", bytes));
    all.push_back(segment::map(unique_fd(::fcntl(all.back().fd(), F_DUPFD_CLOEXEC, 0)), bytes));
  }
  for (const segment& s : all) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(s.data()) % segment_alignment, 0U) << s.size();
    s.data()[s.size() - 1] = std::byte{1};
  }
}

TEST(segment, is_empty_before_it_is_made) {
  const segment none;
  EXPECT_FALSE(none);
  EXPECT_EQ(none.data(), nullptr);
  EXPECT_EQ(none.size(), 0U);
  EXPECT_EQ(none.fd(), -1);
}

TEST(segment, is_made_of_zeros_and_can_be_written) {
  const segment s = segment::create("farcall-test", mib);
  ASSERT_TRUE(s);
  EXPECT_EQ(s.size(), mib);
  EXPECT_TRUE(all_are(s.data(), mib, std::byte{0}));
  std::memset(s.data(), 0xAB, mib);
  EXPECT_TRUE(all_are(s.data(), mib, std::byte{0xAB}));
}

TEST(segment, takes_any_size) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4095}, std::size_t{4097}}) {
    const segment s = segment::create("farcall-test", bytes);
    EXPECT_EQ(s.size(), bytes);
    s.data()[bytes - 1] = std::byte{1};
  }
}

TEST(segment, belongs_to_its_owner_alone) {
  const segment s = segment::create("farcall-test", mib);
  struct stat status{};
  ASSERT_EQ(::fstat(s.fd(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
  EXPECT_EQ(status.st_uid, ::geteuid());
}

TEST(segment, does_not_reach_programs_that_we_start) {
  const segment s = segment::create("farcall-test", mib);
  EXPECT_EQ(::fcntl(s.fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(segment, has_no_name_in_any_file_system) {
  const segment s = segment::create("farcall-test", mib);
  struct stat status{};
  ASSERT_EQ(::fstat(s.fd(), &status), 0);
  EXPECT_EQ(status.st_nlink, 0U);
}

TEST(segment, shows_its_label_in_the_map_of_the_process) {
  const segment s = segment::create("farcall-a-label", mib);
  EXPECT_THAT(mappings(), HasSubstr("farcall-a-label"));
}

// A peer that shortens the file would kill us with SIGBUS.
TEST(segment, cannot_be_resized_by_its_receivers) {
  const segment s = segment::create("farcall-test", mib);
  const unique_fd theirs = duplicate(s);
  EXPECT_NE(::ftruncate(theirs.get(), 4096), 0);
  EXPECT_NE(::ftruncate(theirs.get(), static_cast<off_t>(2 * mib)), 0);
  EXPECT_TRUE(all_are(s.data(), mib, std::byte{0}));
}

TEST(segment, is_the_same_memory_on_both_sides) {
  const segment one = segment::create("farcall-test", mib);
  const segment other = segment::map(duplicate(one), mib);
  ASSERT_NE(one.data(), other.data());
  one.data()[5] = std::byte{1};
  other.data()[mib - 1] = std::byte{2};
  EXPECT_EQ(other.data()[5], std::byte{1});
  EXPECT_EQ(one.data()[mib - 1], std::byte{2});
}

TEST(segment, is_the_same_memory_in_two_processes) {
  const segment s = segment::create("farcall-test", mib);
  s.data()[0] = std::byte{1};
  test::forked_child child([&] {
    if (s.data()[0] != std::byte{1}) return 1;
    s.data()[mib - 1] = std::byte{2};
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(s.data()[mib - 1], std::byte{2});
}

TEST(segment, a_part_can_be_mapped) {
  const segment whole = segment::create("farcall-test", mib);
  const segment part = segment::map(duplicate(whole), 4096);
  EXPECT_EQ(part.size(), 4096U);
  part.data()[4095] = std::byte{3};
  EXPECT_EQ(whole.data()[4095], std::byte{3});
}

TEST(segment, a_file_shorter_than_announced_is_refused) {
  const segment s = segment::create("farcall-test", mib);
  for (const std::size_t announced : {mib + 1, 2 * mib, std::numeric_limits<std::size_t>::max()}) {
    EXPECT_THAT([&] { (void)segment::map(duplicate(s), announced); },
                ThrowsMessage<error>(
                    AllOf(HasSubstr(std::to_string(mib)), HasSubstr(std::to_string(announced)))));
  }
}

TEST(segment, a_descriptor_without_a_file_is_refused) {
  EXPECT_THROW((void)segment::map(unique_fd{}, 4096), error);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const unique_fd writing(ends[1]);
  EXPECT_THROW((void)segment::map(unique_fd(ends[0]), 4096), error);
}

TEST(segment, mapping_takes_the_descriptor_even_when_it_fails) {
  const segment s = segment::create("farcall-test", mib);
  unique_fd good = duplicate(s);
  const int number = good.get();
  {
    const segment mapped = segment::map(std::move(good), mib);
    EXPECT_EQ(mapped.fd(), number);
  }
  EXPECT_FALSE(is_open(number));
  unique_fd bad = duplicate(s);
  const int bad_number = bad.get();
  EXPECT_THROW((void)segment::map(std::move(bad), 2 * mib), error);
  EXPECT_FALSE(is_open(bad_number));
}

TEST(segment, goes_away_with_its_owner) {
  int number = -1;
  {
    const segment s = segment::create("farcall-short-lived", mib);
    number = s.fd();
    EXPECT_THAT(mappings(), HasSubstr("farcall-short-lived"));
  }
  EXPECT_FALSE(is_open(number));
  EXPECT_THAT(mappings(), ::testing::Not(HasSubstr("farcall-short-lived")));
}

TEST(segment, can_be_moved) {
  segment first = segment::create("farcall-moved-one", mib);
  std::byte* const data = first.data();
  segment second(std::move(first));
  EXPECT_FALSE(first); // NOLINT(bugprone-use-after-move): empty, as documented
  EXPECT_EQ(second.data(), data);
  segment third = segment::create("farcall-moved-two", mib);
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.size(), mib);
  data[mib - 1] = std::byte{1};
}

TEST(segment, lives_on_without_its_descriptor) {
  segment s = segment::create("farcall-test", mib);
  const int number = s.fd();
  s.close_file();
  EXPECT_EQ(s.fd(), -1);
  EXPECT_FALSE(is_open(number));
  s.data()[mib - 1] = std::byte{1};
  EXPECT_EQ(s.data()[mib - 1], std::byte{1});
}

// ---- pages --------------------------------------------------------------------------------------

TEST(segment, takes_no_memory_before_it_is_touched) {
  const segment s = segment::create("farcall-test", 64 * mib);
  struct stat status{};
  ASSERT_EQ(::fstat(s.fd(), &status), 0);
  EXPECT_EQ(status.st_blocks, 0);
}

TEST(segment, reserving_takes_the_pages_and_keeps_the_contents) {
  segment s = segment::create("farcall-test", 4 * mib);
  s.data()[mib] = std::byte{7};
  ASSERT_EQ(s.reserve(mib, mib), 0);
  struct stat status{};
  ASSERT_EQ(::fstat(s.fd(), &status), 0);
  EXPECT_GE(status.st_blocks * 512, static_cast<off_t>(mib));
  EXPECT_EQ(s.data()[mib], std::byte{7});
}

TEST(segment, reserving_fails_where_there_is_nothing_to_reserve) {
  segment s = segment::create("farcall-test", mib);
  EXPECT_EQ(s.reserve(0, 0), EINVAL);
  EXPECT_EQ(s.reserve(mib, mib), EINVAL) << "beyond its end";
  struct stat status{};
  ASSERT_EQ(::fstat(s.fd(), &status), 0);
  EXPECT_EQ(static_cast<std::size_t>(status.st_size), mib);
}

/// Bytes of memory that the file occupies.
std::size_t bytes_taken(const unique_fd& file) {
  struct stat status{};
  EXPECT_EQ(::fstat(file.get(), &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

void expect_pages_are_taken_and_given_back(segment& s, const unique_fd& same) {
  ASSERT_EQ(s.reserve(mib, mib), 0);
  EXPECT_GE(bytes_taken(same), mib);
  s.discard(mib, mib);
  EXPECT_EQ(bytes_taken(same), 0U);
}

TEST(segment, needs_no_fallocate_to_take_and_discard_pages) {
  segment s = segment::create("farcall-test", 4 * mib);
  const unique_fd same = duplicate(s);
  std::thread([&] {
    test::refuse_system_call(SYS_fallocate);
    expect_pages_are_taken_and_given_back(s, same);
  }).join();
}

// A handler may close all descriptors and open a file of its own, which gets the segment's number.
TEST(segment, changes_no_other_file_under_its_number) {
  segment s = segment::create("farcall-test", 4 * mib);
  const unique_fd same = duplicate(s);
  const unique_fd others(::memfd_create("farcall-others", MFD_CLOEXEC));
  ASSERT_EQ(::write(others.get(), "others", 6), 6);
  ASSERT_EQ(::dup2(others.get(), s.fd()), s.fd());
  expect_pages_are_taken_and_given_back(s, same);
  struct stat status{};
  ASSERT_EQ(::fstat(others.get(), &status), 0);
  EXPECT_EQ(status.st_size, 6);
}

TEST(segment, discarded_pages_read_as_zero_on_both_sides) {
  segment one = segment::create("farcall-test", 4 * mib);
  const segment other = segment::map(duplicate(one), 4 * mib);
  std::memset(one.data(), 0xFF, 4 * mib);
  one.discard(mib, 2 * mib);
  for (const segment* s : {&std::as_const(one), &other}) {
    EXPECT_TRUE(all_are(s->data(), mib, std::byte{0xFF}));
    EXPECT_TRUE(all_are(s->data() + mib, 2 * mib, std::byte{0}));
    EXPECT_TRUE(all_are(s->data() + 3 * mib, mib, std::byte{0xFF}));
  }
}

TEST(segment, discarding_gives_the_memory_back) {
  segment s = segment::create("farcall-test", 4 * mib);
  std::memset(s.data(), 0xFF, 4 * mib);
  s.discard(0, 4 * mib);
  struct stat status{};
  ASSERT_EQ(::fstat(s.fd(), &status), 0);
  EXPECT_EQ(status.st_blocks, 0);
  EXPECT_EQ(static_cast<std::size_t>(status.st_size), 4 * mib);
}

TEST(segment, a_detached_one_is_zeroed_and_no_longer_shared) {
  const segment one = segment::create("farcall-test", mib);
  segment other = segment::map(duplicate(one), mib);
  const std::byte* const address = other.data();
  std::memset(one.data(), 0xFF, mib);
  other.close_file();
  other.detach();
  EXPECT_EQ(other.data(), address);
  EXPECT_TRUE(all_are(other.data(), mib, std::byte{0}));
  std::memset(other.data(), 1, mib);
  EXPECT_TRUE(all_are(one.data(), mib, std::byte{0xFF}));
}

TEST(segment, detaching_an_empty_one_has_no_effect) {
  segment none;
  none.detach();
  EXPECT_FALSE(none);
}

TEST(segment, a_mapping_moves_over_a_detached_one) {
  const segment one = segment::create("farcall-test", mib);
  segment former = segment::map(duplicate(one), mib);
  const std::byte* const address = former.data();
  former.detach();
  segment later = segment::create("farcall-test", mib);
  std::memset(later.data(), 7, mib);
  const std::byte* const before = later.data();
  ASSERT_TRUE(later.move_over(former));
  EXPECT_EQ(later.data(), address);
  EXPECT_EQ(later.size(), mib);
  EXPECT_FALSE(former);
  EXPECT_TRUE(all_are(later.data(), mib, std::byte{7}));
  const segment again = segment::map(duplicate(later), mib);
  std::memset(later.data(), 8, mib);
  EXPECT_TRUE(all_are(again.data(), mib, std::byte{8})) << "still shared";
  unsigned char is_resident = 0;
  EXPECT_TRUE(again.data() == before ||
              ::mincore(const_cast<std::byte*>(before), 1, &is_resident) != 0)
      << "the addresses before are free";
}

TEST(segment, a_mapping_moves_only_over_one_of_its_size) {
  segment small = segment::create("farcall-test", mib);
  segment large = segment::create("farcall-test", 2 * mib);
  segment none;
  const std::byte* const address = large.data();
  EXPECT_FALSE(large.move_over(small));
  EXPECT_FALSE(large.move_over(none));
  EXPECT_FALSE(none.move_over(small));
  EXPECT_EQ(large.data(), address);
  EXPECT_TRUE(small);
}

TEST(segment, only_whole_pages_are_discarded) {
  segment s = segment::create("farcall-test", mib);
  const std::size_t page = page_bytes();
  std::memset(s.data(), 0xFF, mib);
  s.discard(1, page - 1);
  s.discard(page + 1, 2 * page - 2);
  s.discard(5 * page, 0);
  EXPECT_TRUE(all_are(s.data(), mib, std::byte{0xFF}));
  s.discard(page - 1, page + 2);
  EXPECT_TRUE(all_are(s.data(), page, std::byte{0xFF}));
  EXPECT_TRUE(all_are(s.data() + page, page, std::byte{0}));
  EXPECT_TRUE(all_are(s.data() + 2 * page, mib - 2 * page, std::byte{0xFF}));
}

TEST(segment, prefaulting_keeps_the_contents) {
  const segment s = segment::create("farcall-test", mib);
  s.data()[4096] = std::byte{9};
  prefault(s.data(), mib);
  EXPECT_EQ(s.data()[4096], std::byte{9});
  EXPECT_EQ(s.data()[0], std::byte{0});
  prefault(s.data() + 1, 1); // a hint: it cannot fail
}

// ---- limits -------------------------------------------------------------------------------------

TEST(segment, impossible_sizes_are_refused_with_the_size) {
  for (const std::size_t bytes :
       {std::size_t{1} << 62, std::size_t{1} << 63, std::numeric_limits<std::size_t>::max()}) {
    EXPECT_THAT([&] { (void)segment::create("farcall-test", bytes); },
                ThrowsMessage<error>(HasSubstr(std::to_string(bytes))));
  }
}

TEST(segment, a_lack_of_descriptors_is_named_with_the_remedy) {
  test::show_to_sanitizer<error>();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  std::string what;
  try {
    (void)segment::create("farcall-test", mib);
  } catch (const error& e) {
    what = e.what();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(what, AllOf(HasSubstr("farcall-test"), HasSubstr("ulimit -n")));
}

TEST(segment, cannot_be_executed) {
  // Systems with vm.memfd_noexec=2 refuse executable memory files. Linux before 6.3 has no others.
  constexpr unsigned no_execution = 8;
  const unique_fd probe(::memfd_create("probe", MFD_CLOEXEC | no_execution));
  constexpr int sealed_mode = 0x20; // F_SEAL_EXEC
  const segment s = segment::create("farcall-test", mib);
  EXPECT_EQ((::fcntl(s.fd(), F_GET_SEALS) & sealed_mode) != 0, static_cast<bool>(probe));
}

TEST(segment, a_label_that_is_too_long_is_refused) {
  EXPECT_THROW((void)segment::create(std::string(300, 'x'), mib), error);
}

} // namespace
} // namespace farcall::segment_test
