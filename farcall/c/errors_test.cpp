// SPDX-License-Identifier: Apache-2.0
#include <farcall/c/errors.hpp>

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <thread>

namespace farcall::c::errors_test {
namespace {

template <class E>
fc_status status_of(const E& thrown) {
  return guarded([&] { throw thrown; });
}

TEST(c_errors, have_a_status_for_each_class) {
  EXPECT_EQ(status_of(remote_error(1, "std::out_of_range", "no 7")), FC_REMOTE_ERROR);
  EXPECT_EQ(status_of(node_failed("x", 1)), FC_NODE_FAILED);
  EXPECT_EQ(status_of(timeout("x", 1)), FC_TIMEOUT);
  EXPECT_EQ(status_of(out_of_memory("x", 1)), FC_OUT_OF_MEMORY);
  EXPECT_EQ(status_of(unknown_function("x", 1)), FC_UNKNOWN_FUNCTION);
  EXPECT_EQ(status_of(wrong_node("x", 1)), FC_WRONG_NODE);
  EXPECT_EQ(status_of(start_failed("x", 1)), FC_START_FAILED);
  EXPECT_EQ(status_of(setting_error("x")), FC_SETTING_ERROR);
  EXPECT_EQ(status_of(malformed_message("x")), FC_MALFORMED);
  EXPECT_EQ(status_of(forked()), FC_FORKED);
  EXPECT_EQ(status_of(nested_too_deep("x")), FC_NESTED_TOO_DEEP);
  EXPECT_EQ(status_of(cancelled("x")), FC_CANCELLED);
  EXPECT_EQ(status_of(am::interrupted("x")), FC_INTERRUPTED);
  EXPECT_EQ(status_of(invalid_argument("x")), FC_INVALID_ARGUMENT);
  EXPECT_EQ(status_of(error("x")), FC_ERROR);
  EXPECT_EQ(status_of(std::bad_alloc()), FC_OUT_OF_MEMORY);
  EXPECT_EQ(status_of(std::runtime_error("x")), FC_ERROR);
  EXPECT_EQ(status_of(7), FC_ERROR);
}

TEST(c_errors, keep_text_type_and_node) {
  (void)status_of(remote_error(3, "std::out_of_range", "no 7"));
  EXPECT_EQ(fc_error_status(), FC_REMOTE_ERROR);
  EXPECT_STREQ(fc_error_text(), "node 3 threw std::out_of_range: no 7");
  EXPECT_STREQ(fc_error_type(), "std::out_of_range");
  EXPECT_EQ(fc_error_node(), 3U);

  (void)status_of(error("another"));
  EXPECT_STREQ(fc_error_text(), "another");
  EXPECT_STREQ(fc_error_type(), "");
  EXPECT_EQ(fc_error_node(), FC_NO_NODE);
}

TEST(c_errors, are_left_alone_by_success) {
  (void)status_of(error("before"));
  EXPECT_EQ(guarded([] {}), FC_OK);
  EXPECT_EQ(guarded([] { return FC_OK; }), FC_OK);
  EXPECT_STREQ(fc_error_text(), "before");
}

TEST(c_errors, are_each_threads_own) {
  (void)status_of(error("of this thread"));
  std::jthread([] {
    EXPECT_EQ(fc_error_status(), FC_OK);
    EXPECT_STREQ(fc_error_text(), "");
    (void)status_of(error("of the other"));
  }).join();
  EXPECT_STREQ(fc_error_text(), "of this thread");
}

TEST(c_errors, have_names) {
  for (int s = FC_OK; s <= FC_ENDED; ++s) {
    EXPECT_EQ(std::string(fc_status_name(static_cast<fc_status>(s))).substr(0, 3), "FC_") << s;
  }
  EXPECT_STREQ(fc_status_name(FC_TIMEOUT), "FC_TIMEOUT");
  EXPECT_STREQ(fc_status_name(FC_WOULD_BLOCK), "FC_WOULD_BLOCK");
  EXPECT_STREQ(fc_status_name(FC_INTERRUPTED), "FC_INTERRUPTED");
  EXPECT_STRNE(fc_status_name(static_cast<fc_status>(FC_ENDED + 1)), "");
}

TEST(c_errors, come_with_the_version_of_the_header) {
  EXPECT_EQ(std::string(fc_version()), std::to_string(FC_VERSION_MAJOR) + "." +
                                           std::to_string(FC_VERSION_MINOR) + "." +
                                           std::to_string(FC_VERSION_PATCH));
}

} // namespace
} // namespace farcall::c::errors_test
