// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <tests/stop_process.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <thread>

#include <unistd.h>

namespace veo_test {
namespace {

using ::testing::HasSubstr;

/// Makes a call fail with an error that names this file.
void fail_with(process& p, const std::string& file) {
  const bounded b("veo_load_library");
  EXPECT_EQ(veo_load_library(p.get(), file.c_str()), 0U);
}

TEST(last_error_text, is_empty_until_a_call_fails) {
  std::thread([] {
    ASSERT_NE(farcall_veo_last_error(), nullptr);
    EXPECT_STREQ(farcall_veo_last_error(), "");
    process p;
    EXPECT_EQ(p.call("same", std::uint64_t{1}), 1U);
    EXPECT_STREQ(farcall_veo_last_error(), "");
  }).join();
}

TEST(last_error_text, describes_the_last_failure) {
  process p;
  fail_with(p, "/no/such/first.so");
  EXPECT_THAT(last_error(), HasSubstr("/no/such/first.so"));
  fail_with(p, "/no/such/second.so");
  EXPECT_THAT(last_error(), HasSubstr("/no/such/second.so"));
  EXPECT_EQ(last_error().find("first"), std::string::npos);
  // Successful calls do not change it.
  EXPECT_EQ(p.call("same", std::uint64_t{1}), 1U);
  EXPECT_THAT(last_error(), HasSubstr("/no/such/second.so"));
}

TEST(last_error_text, is_one_for_each_thread) {
  process p;
  fail_with(p, "/no/such/here.so");
  std::thread([&] {
    EXPECT_EQ(last_error(), "");
    fail_with(p, "/no/such/there.so");
    EXPECT_THAT(last_error(), HasSubstr("/no/such/there.so"));
  }).join();
  EXPECT_THAT(last_error(), HasSubstr("/no/such/here.so"));
}

TEST(last_error_text, is_on_standard_error_too) {
  process p;
  captured_output errors(STDERR_FILENO);
  fail_with(p, "/no/such/one.so");
  fail_with(p, "/no/such/one.so");
  fail_with(p, "/no/such/other.so");
  {
    const environment_variable quiet("FARCALL_VEO_ERRORS", "quiet");
    fail_with(p, "/no/such/third.so");
  }
  const std::string text = errors.end();
  EXPECT_THAT(text, HasSubstr("[VH] ERROR: /no/such/one.so"));
  EXPECT_EQ(text.find("one.so cannot"), text.rfind("one.so cannot")) << text;
  EXPECT_THAT(text, HasSubstr("[VH] ERROR: /no/such/other.so"));
  EXPECT_EQ(text.find("third"), std::string::npos) << text;
  EXPECT_THAT(last_error(), HasSubstr("/no/such/third.so"));
}

TEST(last_error_text, is_not_printed_for_collected_results) {
  process p;
  captured_output errors(STDERR_FILENO);
  const std::uint64_t request = submit(p.main(), p.symbol("same"), std::uint64_t{1});
  EXPECT_EQ(collect(p.main(), request), ok(1));
  EXPECT_EQ(collect(p.main(), request), error);
  EXPECT_EQ(errors.end(), "");
}

TEST(last_error_text, names_an_unknown_mode_of_the_debugger) {
  VEO_TEST_LOCAL_ONLY("helpers elsewhere are started there");
  const environment_variable mode("VEO_DEBUG", "moon");
  captured_output errors(STDERR_FILENO);
  {
    process p;
  }
  EXPECT_THAT(errors.end(), HasSubstr("VEO_DEBUG=moon"));
}

TEST(last_error_text, names_the_signal_that_ended_the_helper) {
  VEO_TEST_LOCAL_ONLY("the helper is killed by its number");
  process p;
  const auto pid = static_cast<pid_t>(p.call("process_id"));
  ASSERT_EQ(::kill(pid, SIGTERM), 0);
  ASSERT_TRUE(eventually([&] { return veo_get_context_state(p.main()) == VEO_STATE_EXIT; }));
  const bounded b("veo_alloc_mem of a process that has ended");
  std::uint64_t address = 0;
  EXPECT_LT(veo_alloc_mem(p.get(), &address, 8), 0);
  EXPECT_LT(veo_call_sync(p.get(), 4096, nullptr, nullptr), 0);
  EXPECT_THAT(last_error(), HasSubstr("the helper process"));
  EXPECT_THAT(last_error(), HasSubstr("SIGTERM"));
  EXPECT_EQ(last_error().find("node 1"), std::string::npos) << last_error();
  const std::uint64_t request = submit(p.main(), 4096);
  EXPECT_EQ(request, VEO_REQUEST_ID_INVALID);
  EXPECT_EQ(last_error().find("node 1"), std::string::npos) << last_error();
}

TEST(last_error_text, names_no_node_for_stuck_helpers) {
  VEO_TEST_LOCAL_ONLY("the helper is stopped by its number");
  captured_output errors(STDERR_FILENO);
  {
    process p;
    farcall::test::stop_process(static_cast<pid_t>(p.call("process_id")));
  }
  const std::string text = errors.end();
  EXPECT_THAT(text, HasSubstr("the helper process did not finish"));
  EXPECT_EQ(text.find("node 1"), std::string::npos) << text;
}

TEST(last_error_text, names_contexts_if_there_are_too_many) {
  VEO_TEST_LOCAL_ONLY("more contexts than that lead to other machines");
  process p;
  const bounded b("more contexts than there can be");
  veo_thr_ctxt* context = p.main();
  for (int i = 0; i < 1000 && context != nullptr; ++i)
    context = veo_context_open(p.get());
  ASSERT_EQ(context, nullptr);
  EXPECT_THAT(last_error(), HasSubstr("context"));
  EXPECT_EQ(last_error().find("fc::"), std::string::npos) << last_error();
  EXPECT_EQ(p.call("same", std::uint64_t{2}), 2U);
}

TEST(last_error_text, names_what_the_call_was_about) {
  process p;
  const bounded b("calls that fail");
  const std::uint64_t library = p.library("basic");
  EXPECT_EQ(veo_get_sym(p.get(), library, "no_such_symbol"), 0U);
  EXPECT_THAT(last_error(), HasSubstr("no_such_symbol"));
  EXPECT_EQ(veo_proc_create(12345), nullptr);
  EXPECT_THAT(last_error(), HasSubstr("12345"));
  arguments a;
  a.set(2, 1.0);
  EXPECT_EQ(veo_call_async(p.main(), p.symbol("nothing"), a.get()), VEO_REQUEST_ID_INVALID);
  EXPECT_THAT(last_error(), HasSubstr("0"));
  veo_thr_ctxt_attr* const attributes = veo_alloc_thr_ctxt_attr();
  EXPECT_EQ(veo_set_thr_ctxt_stacksize(attributes, 1000), -1);
  EXPECT_THAT(last_error(), HasSubstr("1000"));
  EXPECT_EQ(veo_free_thr_ctxt_attr(attributes), 0);
  int here = 0;
  EXPECT_EQ(veo_get_venum_from_hmem(&here), -1);
}

TEST(last_error_text, names_a_result_that_was_collected_before) {
  process p;
  const std::uint64_t request = submit(p.main(), p.symbol("same"), std::uint64_t{1});
  EXPECT_EQ(collect(p.main(), request), ok(1));
  EXPECT_EQ(collect(p.main(), request), error);
  EXPECT_THAT(last_error(), HasSubstr(std::to_string(request)));
}

TEST(last_error_text, names_the_signal_of_a_failed_kernel) {
  process p;
  EXPECT_EQ(call(p.main(), p.symbol("divide_by_zero")), exception(SIGFPE));
  EXPECT_THAT(last_error(), HasSubstr("SIGFPE"));
}

} // namespace
} // namespace veo_test
