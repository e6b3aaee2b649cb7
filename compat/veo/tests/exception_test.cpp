// SPDX-License-Identifier: Apache-2.0
#include "exception_support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <ostream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <unistd.h>

namespace veo_test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

// --- each way to fail ----------------------------------------------------------------------------

struct way_to_fail {
  const char* name;
  const char* library;
  const char* kernel;
  std::int32_t argument;
  int signal;
};

std::ostream& operator<<(std::ostream& out, const way_to_fail& way) { return out << way.name; }

class exception_in : public ::testing::TestWithParam<std::tuple<way_to_fail, bool>> {};

INSTANTIATE_TEST_SUITE_P(
    veo, exception_in,
    ::testing::Combine(
        ::testing::Values(
            way_to_fail{"segv", "basic", "write_nowhere", 0, SIGSEGV},
            way_to_fail{"fpe", "basic", "divide_by_zero", 0, SIGFPE},
            way_to_fail{"abort", "basic", "call_abort", 0, SIGABRT},
            way_to_fail{"ill", "basic", "raise_signal", SIGILL, SIGILL},
            way_to_fail{"bus", "basic", "raise_signal", SIGBUS, SIGBUS},
            way_to_fail{"stack_overflow", "basic", "use_all_stack", 0, SIGSEGV},
            way_to_fail{"uncaught", "cxx", "throw_exception", 0, SIGABRT},
            way_to_fail{"thread_segv", "basic", "write_nowhere_in_a_thread", 0, SIGSEGV},
            way_to_fail{"thread_abort", "basic", "call_abort_in_a_thread", 0, SIGABRT},
            way_to_fail{"stripped", "basic_stripped", "write_nowhere", 0, SIGSEGV}),
        ::testing::Bool()),
    [](const auto& i) {
      return std::string(std::get<0>(i.param).name) + (std::get<1>(i.param) ? "_main" : "_other");
    });

TEST_P(exception_in, a_context) {
  const auto& [way, on_main] = GetParam();
  process other(1);
  process p;
  veo_thr_ctxt* const context = on_main ? p.main() : p.open();
  const std::uint64_t kernel = p.symbol(way.kernel, way.library);
  ASSERT_EQ(call(context, p.symbol("same"), std::uint64_t{3}), ok(3));
  EXPECT_EQ(call(context, kernel, way.argument), exception(way.signal));
  expect_ended(p, {p.main(), context});
  EXPECT_EQ(p.destroy(), 0);
  EXPECT_EQ(other.call("same", std::uint64_t{4}), 4U);
}

TEST(exception_of, a_synchronous_call) {
  process p;
  const arguments none;
  std::uint64_t result = 0;
  {
    const bounded b("veo_call_sync of a kernel that fails");
    EXPECT_LT(veo_call_sync(p.get(), p.symbol("write_nowhere"), none.get(), &result), 0);
  }
  EXPECT_THAT(last_error(), HasSubstr("SIGSEGV"));
  expect_ended(p, {p.main()});
  EXPECT_EQ(p.destroy(), 0);
}

TEST(exception_of, a_kernel_that_exits) {
  // There is no signal then; AVEO returns ERROR, and the last error may name the request.
  for (const char* kernel : {"call_exit", "call_exit_at_once"}) {
    process p;
    veo_thr_ctxt* const context = p.open();
    const std::uint64_t same = p.symbol("same");
    gate g(p);
    (void)submit(context, p.symbol("wait_at"), g.address());
    const std::uint64_t request = submit(context, p.symbol(kernel), std::int32_t{3});
    const std::uint64_t behind = submit(context, same, std::uint64_t{1});
    g.open();
    EXPECT_THAT(collect(context, request).state, AnyOf(VEO_COMMAND_ERROR, VEO_COMMAND_EXCEPTION));
    EXPECT_EQ(collect(context, behind), error);
    expect_ended(p, {p.main(), context});
    EXPECT_EQ(p.destroy(), 0);
  }
}

TEST(exception_of, a_kernel_that_exits_is_told_with_its_status) {
  VEO_TEST_LOCAL_ONLY("servers do not tell how their helpers end");
  for (const char* kernel : {"call_exit", "call_exit_at_once"}) {
    process p;
    EXPECT_EQ(call(p.open(), p.symbol(kernel), std::int32_t{3}), error);
    EXPECT_THAT(last_error(), HasSubstr("exited with status 3"));
  }
}

TEST(exception_of, a_kernel_that_exits_has_its_exit_reason) {
  VEO_TEST_LOCAL_ONLY("helpers elsewhere write to files of their own");
  // Some kernels hold the lock of their stream, or of another one.
  struct last_kernel {
    const char* library;
    const char* name;
    const char* status;
  };
  constexpr last_kernel kernels[] = {{"basic", "print_and_exit", "3"},
                                     {"basic", "print_and_exit_with_lock", "3"},
                                     {"basic", "print_and_exit_beside_a_reader", "3"},
                                     {"fortran", "print_and_stop", "3"},
                                     {"fortran", "print_and_read_nothing", "2"}};
  for (const auto& [library, kernel, status] : kernels) {
    captured_output words(STDOUT_FILENO);
    captured_output errors(STDERR_FILENO);
    outcome o;
    std::string reason;
    {
      process p;
      const std::uint64_t code = p.symbol(kernel, library);
      o = call(p.open(), code, std::int32_t{3});
      reason = last_error();
    }
    const std::string printed = words.end();
    const std::string complaints = errors.end();
    EXPECT_EQ(o, error) << kernel;
    EXPECT_THAT(reason, HasSubstr(std::string("exited with status ") + status)) << kernel;
    EXPECT_THAT(printed, HasSubstr("last output")) << kernel;
    EXPECT_EQ(complaints.find("SIG"), std::string::npos) << complaints;
  }
}

// --- the requests around it ----------------------------------------------------------------------

TEST(exception_of, a_request_is_error_for_all_behind_it) {
  process p;
  veo_thr_ctxt* const context = p.open();
  std::uint64_t word = 0;
  bool was_called = false;
  gate g(p);
  const std::uint64_t same = p.symbol("same");
  const std::uint64_t fails = p.symbol("write_nowhere");
  const std::uint64_t variable = p.symbol("variable");
  const std::uint64_t waiting = submit(context, p.symbol("wait_at"), g.address());
  const std::uint64_t before = submit(context, same, std::uint64_t{1});
  const std::uint64_t culprit = submit(context, fails);
  const std::vector<std::uint64_t> behind{
      submit(context, same, std::uint64_t{2}),
      veo_async_read_mem(context, &word, variable, 8),
      veo_async_write_mem(context, variable, &word, 8),
      veo_alloc_mem_async(context, 100),
      veo_call_async_vh(
          context,
          [](void* argument) -> std::uint64_t {
            *static_cast<bool*>(argument) = true;
            return 0;
          },
          &was_called),
      submit(context, fails),
  };
  g.open(5);
  EXPECT_EQ(collect(context, behind.back()), error);
  EXPECT_EQ(collect(context, waiting), ok(5));
  EXPECT_EQ(collect(context, before), ok(1));
  EXPECT_EQ(collect(context, culprit), exception(SIGSEGV));
  for (std::size_t i = 0; i + 1 < behind.size(); ++i)
    EXPECT_EQ(collect(context, behind[i]), error) << i;
  // A result can be collected only once.
  EXPECT_EQ(collect(context, culprit), error);
  EXPECT_FALSE(was_called);
  EXPECT_EQ(word, 0U);
  expect_ended(p, {context, p.main()});
}

TEST(exception_of, a_request_ends_requests_of_other_contexts) {
  process p;
  veo_thr_ctxt* const culprit = p.open();
  veo_thr_ctxt* const other = p.open();
  gate g(p);
  const std::uint64_t same = p.symbol("same");
  const std::uint64_t fails = p.symbol("divide_by_zero");
  const std::uint64_t done = submit(other, same, std::uint64_t{1});
  const std::uint64_t running = submit(other, p.symbol("wait_at"), g.address());
  const std::uint64_t queued = submit(other, same, std::uint64_t{2});
  (void)g.wait_for_kernel();
  EXPECT_EQ(call(culprit, fails), exception(SIGFPE));
  EXPECT_EQ(collect(other, done), ok(1));
  EXPECT_EQ(collect(other, running), error);
  EXPECT_EQ(collect(other, queued), error);
  expect_ended(p, {culprit, other, p.main()});
}

TEST(exception_of, a_request_wakes_all_who_wait) {
  process p;
  veo_thr_ctxt* const culprit = p.open();
  veo_thr_ctxt* const other = p.open();
  gate g(p);
  const std::uint64_t fails = p.symbol("call_abort");
  const std::uint64_t running = submit(other, p.symbol("wait_at"), g.address());
  (void)g.wait_for_kernel();
  outcome o;
  std::thread collects([&] { o = collect(other, running); });
  std::thread syncs([&] {
    const bounded b("veo_context_sync of a context whose process fails");
    veo_context_sync(other);
  });
  EXPECT_EQ(call(culprit, fails), exception(SIGABRT));
  collects.join();
  syncs.join();
  EXPECT_EQ(o, error);
}

TEST(exception_of, a_request_while_another_context_copies) {
  process p;
  veo_thr_ctxt* const culprit = p.open();
  veo_thr_ctxt* const copies = p.open();
  constexpr std::size_t size = std::size_t{16} << 20;
  const std::uint64_t address = p.allocate(size);
  const std::uint64_t fails = p.symbol("write_nowhere");
  std::vector<unsigned char> bytes(size, 1);
  std::vector<std::uint64_t> requests;
  for (int i = 0; i < 20; ++i) {
    requests.push_back(veo_async_write_mem(copies, address, bytes.data(), size));
    requests.push_back(veo_async_read_mem(copies, bytes.data(), address, size));
  }
  EXPECT_EQ(call(culprit, fails), exception(SIGSEGV));
  for (const std::uint64_t r : requests) {
    // The submission fails if the process has ended by then.
    if (r == VEO_REQUEST_ID_INVALID) continue;
    EXPECT_THAT(collect(copies, r), AnyOf(ok(0), error));
  }
  expect_ended(p, {copies});
}

TEST(exception_of, a_kernels_thread_ends_only_its_request) {
  process p;
  veo_thr_ctxt* const culprit = p.open();
  veo_thr_ctxt* const other = p.open();
  gate g(p);
  const std::uint64_t fails = p.symbol("write_nowhere_in_threads", "openmp");
  ASSERT_EQ(call(culprit, p.symbol("threads_seen", "openmp"), std::int32_t{3}), ok(3));
  const std::uint64_t running = submit(other, p.symbol("wait_at"), g.address());
  (void)g.wait_for_kernel();
  EXPECT_EQ(call(culprit, fails, std::int32_t{3}), exception(SIGSEGV));
  EXPECT_EQ(collect(other, running), error);
  expect_ended(p, {culprit, other, p.main()});
  EXPECT_EQ(p.destroy(), 0);
}

// --- other processes -----------------------------------------------------------------------------

TEST(exception_of, a_process_leaves_the_others_alone) {
  process a(0);
  process b(0);
  process c(1);
  gate g(b);
  veo_thr_ctxt* const context = b.open();
  const std::uint64_t waiting = submit(context, b.symbol("wait_at"), g.address());
  EXPECT_EQ(call(a.main(), a.symbol("write_nowhere")), exception(SIGSEGV));
  EXPECT_EQ(a.destroy(), 0);
  EXPECT_EQ(call(c.main(), c.symbol("call_abort")), exception(SIGABRT));
  g.open(6);
  EXPECT_EQ(collect(context, waiting), ok(6));
  // A new process can be created.
  process d(0);
  EXPECT_EQ(veo_proc_identifier(d.get()), 0);
  EXPECT_EQ(d.call("same", std::uint64_t{1}), 1U);
}

TEST(exception_of, a_process_lets_contexts_be_closed) {
  process p;
  veo_thr_ctxt* const a = p.open();
  veo_thr_ctxt* const b = p.open();
  const std::uint64_t left = submit(a, p.symbol("same"), std::uint64_t{1});
  EXPECT_EQ(call(b, p.symbol("write_nowhere")), exception(SIGSEGV));
  const bounded bound("veo_context_close after the end of the process");
  EXPECT_EQ(veo_context_close(b), 0);
  EXPECT_THAT(collect(a, left), AnyOf(ok(1), error));
  EXPECT_EQ(veo_context_close(a), 0);
  EXPECT_EQ(veo_context_close(p.main()), 0);
  EXPECT_EQ(p.destroy(), 0);
}

TEST(exception_of, a_kernel_in_the_loader_ends_the_helper_too) {
  process p;
  veo_thr_ctxt* const other = p.open();
  gate g(p);
  const std::uint64_t running = submit(other, p.symbol("wait_at"), g.address());
  (void)g.wait_for_kernel();
  const std::string file = library_file("crash");
  EXPECT_EQ(call(p.open(), p.symbol("load"), in(file.c_str(), file.size() + 1)),
            exception(SIGSEGV));
  EXPECT_EQ(collect(other, running), error);
  expect_ended(p, {other});
  EXPECT_EQ(p.destroy(), 0);
}

TEST(exception_of, a_process_is_explained) {
  process p;
  EXPECT_EQ(call(p.main(), p.symbol("write_nowhere")), exception(SIGSEGV));
  std::uint64_t address = 0;
  EXPECT_LT(veo_alloc_mem(p.get(), &address, 8), 0);
  EXPECT_THAT(last_error(), HasSubstr("SIGSEGV"));
}

TEST(exception_of, a_process_is_explained_by_what_ended_it) {
  process p;
  std::uint64_t word = 0;
  EXPECT_EQ(collect(p.main(), veo_async_read_mem(p.main(), &word, 8, 8)), error);
  EXPECT_THAT(last_error(), HasSubstr("no memory"));
  EXPECT_EQ(call(p.main(), p.symbol("write_nowhere")), exception(SIGSEGV));
  EXPECT_THAT(last_error(), HasSubstr("SIGSEGV"));
  EXPECT_LT(veo_alloc_mem(p.get(), &word, 8), 0);
  EXPECT_THAT(last_error(), HasSubstr("SIGSEGV"));
}

TEST(exception_of, a_kernel_leaves_a_trace) {
  VEO_TEST_LOCAL_ONLY("helpers elsewhere write to files of their own");
  captured_output errors(STDERR_FILENO);
  outcome o;
  {
    process p;
    o = call(p.main(), p.symbol("write_nowhere"));
  }
  const std::string text = errors.end();
  EXPECT_EQ(o, exception(SIGSEGV));
  EXPECT_THAT(text, HasSubstr("SIGSEGV"));
  EXPECT_THAT(text, HasSubstr("write_nowhere"));
  EXPECT_THAT(text, HasSubstr("libveo_basic.so"));
  EXPECT_THAT(text, ::testing::ContainsRegex("  at write_nowhere \\(.*faults\\.c:[0-9]+\\)\n"));
  // The trace has only functions of the kernel.
  EXPECT_EQ(text.find("aveorun("), std::string::npos) << text;
  EXPECT_EQ(text.find("libc.so"), std::string::npos) << text;
}

} // namespace
} // namespace veo_test
