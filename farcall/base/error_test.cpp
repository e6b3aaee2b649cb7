// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <exception>
#include <ios>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <vector>

namespace farcall::error_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(error, keeps_its_text_and_its_node) {
  const error e("node 3 is gone", 3);
  EXPECT_STREQ(e.what(), "node 3 is gone");
  EXPECT_EQ(e.node(), 3U);
}

TEST(error, concerns_no_node_by_default) { EXPECT_EQ(error("x").node(), no_node); }

template <class Error>
class every_error : public ::testing::Test {};

using all_errors = ::testing::Types<node_failed, timeout, out_of_memory, unknown_function,
                                    wrong_node, start_failed, setting_error, malformed_message>;
TYPED_TEST_SUITE(every_error, all_errors);

TYPED_TEST(every_error, is_caught_as_error_and_keeps_everything) {
  static_assert(std::is_base_of_v<std::runtime_error, TypeParam>);
  try {
    throw TypeParam("what happened", 5);
  } catch (const error& e) {
    EXPECT_EQ(typeid(e), typeid(TypeParam));
    EXPECT_STREQ(e.what(), "what happened");
    EXPECT_EQ(e.node(), 5U);
  }
  EXPECT_EQ(TypeParam("x").node(), no_node);
}

TEST(remote_error, names_the_node_the_type_and_the_text) {
  const remote_error e(2, "std::out_of_range", "index 7 of 5");
  EXPECT_THAT(e.what(), AllOf(HasSubstr("node 2"), HasSubstr("std::out_of_range"),
                              HasSubstr("index 7 of 5")));
  EXPECT_EQ(e.type_name(), "std::out_of_range");
  EXPECT_EQ(e.text(), "index 7 of 5");
  EXPECT_EQ(e.node(), 2U);
}

TEST(remote_error, works_without_a_type) {
  EXPECT_STREQ(remote_error(2, "", "the text").what(),
               "node 2 threw an error without a type: the text");
  EXPECT_STREQ(remote_error(2, "", "").what(), "node 2 threw an error without a type or a text");
}

struct without_text : std::exception {
  [[nodiscard]] const char* what() const noexcept override { return nullptr; }
};

TEST(exception_text, is_empty_without_one) {
  EXPECT_STREQ(exception_text(without_text()), "");
  EXPECT_STREQ(exception_text(error("some text")), "some text");
}

TEST(missing_nodes, are_named_by_their_numbers) {
  EXPECT_EQ(missing_node_text(4, 3), "there is no node 4: the job has 3 nodes");
  EXPECT_THAT(missing_node_text(no_node, 3), AllOf(HasSubstr("empty"), Not(HasSubstr("42949"))));
}

TEST(remote_error, works_without_a_text) {
  const remote_error e(2, "int", "");
  EXPECT_THAT(e.what(), AllOf(HasSubstr("int"), Not(HasSubstr(":"))));
  EXPECT_EQ(e.text(), "");
}

TEST(remote_error, survives_in_an_exception_pointer) {
  std::exception_ptr kept;
  {
    const std::string type_name = "a_type_name_too_long_for_the_small_string_buffer";
    kept = std::make_exception_ptr(remote_error(1, type_name, "a text that is long enough, too"));
  }
  try {
    std::rethrow_exception(kept);
  } catch (const remote_error& e) {
    EXPECT_EQ(e.type_name(), "a_type_name_too_long_for_the_small_string_buffer");
    EXPECT_EQ(e.text(), "a text that is long enough, too");
  }
}

TEST(throw_system_error, appends_what_the_system_says) {
  try {
    throw_system_error("opening \"x\"", ENOENT, 4);
    FAIL() << "it returned";
  } catch (const error& e) {
    EXPECT_STREQ(e.what(), "opening \"x\": No such file or directory");
    EXPECT_EQ(e.node(), 4U);
  }
}

struct a_type {};

TEST(demangle, makes_names_readable) {
  EXPECT_EQ(demangle(typeid(a_type).name()), "farcall::error_test::(anonymous namespace)::a_type");
  EXPECT_EQ(demangle(typeid(std::runtime_error).name()), "std::runtime_error");
  EXPECT_EQ(demangle("_ZN7farcall8demangleEPKc"), "farcall::demangle(char const*)");
}

TEST(demangle, writes_the_standard_types_as_programs_do) {
  EXPECT_EQ(demangle(typeid(std::string).name()), "std::string");
  EXPECT_EQ(demangle(typeid(std::vector<std::string>*).name()),
            "std::vector<std::string, std::allocator<std::string > >*");
  EXPECT_EQ(demangle(typeid(std::ios_base::failure).name()), "std::ios_base::failure");
  EXPECT_EQ(demangle("NSt3__112basic_stringIcNS_11char_traitsIcEENS_9allocatorIcEEEE"),
            "std::string");
}

TEST(demangle, leaves_other_names_alone) {
  for (const char* name : {"", "main", "inner_product", "_Z", "_ZN7farcall"}) {
    EXPECT_EQ(demangle(name), name);
  }
}

TEST(node_text, names_nodes_the_way_people_do) {
  EXPECT_EQ(node_text(0), "the host (node 0)");
  EXPECT_EQ(node_text(1), "node 1");
  EXPECT_EQ(node_text(250), "node 250");
  EXPECT_EQ(node_text(no_node), "no node");
}

} // namespace
} // namespace farcall::error_test
