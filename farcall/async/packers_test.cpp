// SPDX-License-Identifier: Apache-2.0

// Packers that do not read what they write: the call ends with an error that names the type, and
// the lane goes on.

#include <farcall/async/call.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace farcall::test {

/// Reads one of the two numbers that it writes.
struct reads_less {
  int a = 0;
  int b = 0;
};
/// Reads a number that it does not write.
struct reads_more {
  int a = 0;
};
/// Reads a text, but writes a number.
struct reads_other {
  std::int64_t a = 0;
};
/// Has a correct packer, but a member with a wrong one.
struct holder {
  std::string name;
  std::vector<reads_less> all;
};

} // namespace farcall::test

template <>
struct farcall::packer<farcall::test::reads_less> {
  static void pack(writer& w, const test::reads_less& v) { w(v.a, v.b); }
  static test::reads_less unpack(reader& r) { return {r.read<int>(), 0}; }
};

template <>
struct farcall::packer<farcall::test::reads_more> {
  static void pack(writer& w, const test::reads_more& v) { w(v.a); }
  static test::reads_more unpack(reader& r) {
    const int first = r.read<int>();
    return {first + r.read<int>()};
  }
};

template <>
struct farcall::packer<farcall::test::reads_other> {
  static void pack(writer& w, const test::reads_other& v) { w(v.a); }
  static test::reads_other unpack(reader& r) {
    return {static_cast<std::int64_t>(r.read<std::string>().size())};
  }
};

template <>
struct farcall::packer<farcall::test::holder> {
  static void pack(writer& w, const test::holder& v) { w(v.name, v.all); }
  static test::holder unpack(reader& r) {
    auto name = r.read<std::string>();
    return {std::move(name), r.read<std::vector<test::reads_less>>()};
  }
};

namespace farcall::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class packers_that_do_not_fit : public job_test {
 protected:
  template <class F, class... A>
  std::string error_of(F f, const A&... args) {
    const auto e = thrown_by<error>([&] { (void)sync(target_, f, args...); });
    EXPECT_EQ(sync(target_, [](int x) { return x + 1; }, 1), 2) << "the lane goes on";
    return e ? e->what() : "nothing";
  }
};

TEST_F(packers_that_do_not_fit, are_named_when_they_read_less) {
  EXPECT_THAT(error_of([](const reads_less& v, int x) { return v.a + x; }, reads_less{1, 2}, 3),
              AllOf(HasSubstr("packer<farcall::test::reads_less>"), HasSubstr("read 4 bytes"),
                    HasSubstr("writes 8")));
  EXPECT_THAT(error_of([](const reads_less& v) { return v.a; }, reads_less{1, 2}),
              HasSubstr("packer<farcall::test::reads_less>"));
}

TEST_F(packers_that_do_not_fit, are_named_when_they_read_more) {
  EXPECT_THAT(error_of([](const reads_more& v, int x) { return v.a + x; }, reads_more{1}, 3),
              HasSubstr("packer<farcall::test::reads_more>"));
  EXPECT_THAT(error_of([](const reads_more& v) { return v.a; }, reads_more{1}),
              HasSubstr("packer<farcall::test::reads_more>"));
}

TEST_F(packers_that_do_not_fit, are_named_when_they_read_other_types) {
  EXPECT_THAT(
      error_of([](const std::string& s,
                  const reads_other& v) { return static_cast<std::int64_t>(s.size()) + v.a; },
               std::string("text"), reads_other{1'000'000}),
      HasSubstr("packer<farcall::test::reads_other>"));
}

TEST_F(packers_that_do_not_fit, are_named_inside_others) {
  EXPECT_THAT(
      error_of([](const holder& v) { return v.all.size(); }, holder{"x", {{1, 2}, {3, 4}}}),
      AllOf(HasSubstr("packer<farcall::test::reads_less>"), ::testing::Not(HasSubstr("holder"))));
}

TEST_F(packers_that_do_not_fit, are_named_in_results) {
  EXPECT_THAT(error_of([] { return reads_less{1, 2}; }),
              HasSubstr("packer<farcall::test::reads_less>"));
  EXPECT_THAT(error_of([] { return std::vector<reads_more>(1); }),
              HasSubstr("packer<farcall::test::reads_more>"));
}

TEST_F(packers_that_do_not_fit, are_named_in_messages_too_long_for_a_ring) {
  EXPECT_THAT(error_of([](const std::vector<reads_less>& v) { return v.size(); },
                       std::vector<reads_less>(1'000'000)),
              HasSubstr("packer<farcall::test::reads_less>"));
}

} // namespace
} // namespace farcall::test
