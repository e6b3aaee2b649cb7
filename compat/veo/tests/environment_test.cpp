// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <tests/faults/support.hpp>

#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <string>

#include <sched.h>

namespace veo_test {
namespace {

TEST(openmp, kernels_have_threads) {
  process p;
  EXPECT_EQ(call(p.main(), p.symbol("threads_seen", "openmp"), std::int32_t{4}), ok(4));
}

TEST(openmp, number_of_threads_comes_from_the_environment) {
  VEO_TEST_LOCAL_ONLY("helpers elsewhere have an environment of their own");
  {
    const environment_variable usual("OMP_NUM_THREADS", "5");
    const environment_variable own("VE_OMP_NUM_THREADS", nullptr);
    process p;
    EXPECT_EQ(call(p.main(), p.symbol("max_threads", "openmp")), ok(5));
    EXPECT_EQ(call(p.open(), p.symbol("max_threads", "openmp")), ok(5));
  }
  const environment_variable usual("OMP_NUM_THREADS", "5");
  const environment_variable own("VE_OMP_NUM_THREADS", "3");
  process p;
  EXPECT_EQ(call(p.main(), p.symbol("max_threads", "openmp")), ok(3));
  EXPECT_EQ(call(p.open(), p.symbol("max_threads", "openmp")), ok(3));
}

TEST(openmp, number_of_threads_ignores_an_empty_variable) {
  VEO_TEST_LOCAL_ONLY("helpers elsewhere have an environment of their own");
  const environment_variable usual("OMP_NUM_THREADS", "5");
  const environment_variable own("VE_OMP_NUM_THREADS", "");
  process p;
  EXPECT_EQ(call(p.main(), p.symbol("max_threads", "openmp")), ok(5));
}

/// Returns the error of veo_proc_create(), which must fail.
std::string refusal() {
  const bounded b("veo_proc_create with a setting that cannot be");
  veo_proc_handle* const proc = veo_proc_create(0);
  if (proc == nullptr) return last_error();
  veo_proc_destroy(proc);
  return "it was created";
}

TEST(settings, that_cannot_be_are_refused) {
  const environment_variable list("_VENODELIST", nullptr);
  const environment_variable number("VE_NODE_NUMBER", nullptr);
  {
    const environment_variable device("FARCALL_VEO_NODES", "cuda-emulated:0");
    EXPECT_NE(refusal().find("cuda-emulated in FARCALL_VEO_NODES"), std::string::npos)
        << last_error();
  }
  {
    const environment_variable errors("FARCALL_VEO_ERRORS", "nonsense");
    EXPECT_NE(refusal().find("FARCALL_VEO_ERRORS"), std::string::npos) << last_error();
  }
  const environment_variable threads("VE_OMP_NUM_THREADS", "0");
  EXPECT_NE(refusal().find("VE_OMP_NUM_THREADS"), std::string::npos) << last_error();
}

std::string environment_of(process& p, const std::string& name) {
  std::array<char, 64> value{};
  const std::uint64_t length = p.call("environment", in(name.c_str(), name.size() + 1),
                                      out(value.data(), value.size()), std::uint64_t{value.size()});
  return length == 0 ? "" : std::string(value.data(), length - 1);
}

TEST(openmp, threads_sleep_where_processors_are_few) {
  VEO_TEST_LOCAL_ONLY("helpers elsewhere have other processors");
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (std::size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i) {
    if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
  }
  const environment_variable spins("GOMP_SPINCOUNT", nullptr);
  for (const char* const said : {static_cast<const char*>(nullptr), "active"}) {
    const environment_variable policy("OMP_WAIT_POLICY", said);
    // The helper inherits the affinity.
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    process p;
    ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
    EXPECT_EQ(environment_of(p, "OMP_WAIT_POLICY"), said == nullptr ? "passive" : said);
  }
}

TEST(openmp, kernels_of_several_contexts_at_once) {
  process p;
  const std::uint64_t sum = p.symbol("sum_often", "openmp");
  veo_thr_ctxt* const contexts[] = {p.main(), p.open(), p.open()};
  std::uint64_t requests[3][5];
  for (auto& row : requests) {
    for (std::uint64_t& r : row)
      r = submit(contexts[&row - requests], sum, std::int64_t{10000}, std::int32_t{20},
                 std::int32_t{3});
  }
  for (const auto& row : requests) {
    for (const std::uint64_t r : row)
      EXPECT_EQ(collect(contexts[&row - requests], r), ok(50005000));
  }
}

TEST(pinning, gives_each_context_one_processor) {
  VEO_TEST_LOCAL_ONLY("helpers elsewhere have other processors");
  {
    const environment_variable core("VE_CORE_NUMBER", nullptr);
    process p;
    cpu_set_t set;
    ASSERT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
    EXPECT_EQ(p.call("processors"), static_cast<unsigned>(CPU_COUNT(&set)));
  }
  const environment_variable core("VE_CORE_NUMBER", "0");
  process p;
  EXPECT_EQ(p.call("processors"), 1U);
  EXPECT_EQ(call(p.open(), p.symbol("processors")), ok(1));
}

TEST(floating_point, goes_on_unless_exceptions_are_asked_for) {
  {
    const environment_variable none("VE_FPE_ENABLE", nullptr);
    process p;
    EXPECT_EQ(p.call("divide_double_by_zero"), 1U);
  }
  {
    const environment_variable others("VE_FPE_ENABLE", "INV,no such,FOF");
    process p;
    EXPECT_EQ(p.call("divide_double_by_zero"), 1U);
  }
#if defined(__x86_64__)
  VEO_TEST_LOCAL_ONLY("other processors may not have them");
  const environment_variable division("VE_FPE_ENABLE", "INV,DIV");
  for (const bool on_main : {true, false}) {
    process p;
    veo_thr_ctxt* const context = on_main ? p.main() : p.open();
    EXPECT_EQ(call(context, p.symbol("divide_double_by_zero")), exception(SIGFPE));
  }
#endif
}

TEST(debugging, with_a_way_that_is_none_is_ignored) {
  const environment_variable way("VEO_DEBUG", "no such way");
  process p;
  EXPECT_EQ(p.call("same", std::uint64_t{1}), 1U);
}

int host_that_calls() {
  process p;
  const bool right = p.call("same", std::uint64_t{1}) == 1;
  farcall::test::say("done");
  return right ? 0 : 1;
}
const farcall::test::role calls_role("veo host that calls", &host_that_calls);

/// Returns the first line that such a program prints. A separate program, because a process sets up
/// its log once.
std::string first_line_of_a_program() {
  farcall::test::role_process host("veo host that calls");
  std::string line = host.line();
  EXPECT_EQ(host.wait(), 0);
  return line;
}

TEST(debugging, log_goes_to_standard_output_when_asked_for) {
  {
    const environment_variable log("VEO_LOG_DEBUG", nullptr);
    EXPECT_EQ(first_line_of_a_program(), "done");
  }
  const environment_variable log("VEO_LOG_DEBUG", "");
  EXPECT_NE(first_line_of_a_program(), "done");
}

int host_that_waits_for_a_kernel() {
  process p;
  gate g(p);
  const std::uint64_t running = submit(p.main(), p.symbol("wait_at"), g.address());
  (void)p.read<std::uint64_t>(g.address());
  return collect(p.main(), running) == ok(0) ? 0 : 1;
}
const farcall::test::role waits_role("veo host that waits for a kernel",
                                     &host_that_waits_for_a_kernel);

TEST(debugging, log_tells_of_copies_that_wait_for_kernels) {
  const environment_variable log("VEO_LOG_DEBUG", "1");
  farcall::test::role_process host("veo host that waits for a kernel");
  std::string line = host.line();
  while (!line.empty() && line.find("FARCALL_VEO_ORDER") == std::string::npos)
    line = host.line();
  EXPECT_NE(line, "") << "it ended without saying so";
  host.kill(SIGKILL);
  (void)host.wait();
}

} // namespace
} // namespace veo_test
