// SPDX-License-Identifier: Apache-2.0
#include <farcall/c/library.h>
#include <farcall/server/server.hpp>
#include <farcall/transport/process.hpp>
#include <tests/jobs.hpp>
#include <tests/sanitizer.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <unistd.h>

// The program exports this function, so that nodes find it in the program that they run.
extern "C" [[gnu::visibility("default")]] void library_test_throws(int value) {
  throw std::out_of_range("no " + std::to_string(value));
}
/// Calls node 0 from a native function, as a handler may.
extern "C" [[gnu::visibility("default")]] std::uint32_t library_test_asks_the_host() {
  fc_node host{};
  fc_library program{};
  fc_native own_pid{};
  fc_value result{};
  if (fc_node_at(nullptr, 0, &host) != FC_OK || fc_library_load(host, "", &program) != FC_OK ||
      fc_symbol(program, "getpid", "i()", &own_pid) != FC_OK ||
      fc_native_call(host, own_pid, nullptr, &result) != FC_OK) {
    return 0;
  }
  return result.I;
}

namespace farcall::test::library_test {
namespace {

using ::testing::HasSubstr;

const char* const path = FARCALL_NATIVE_LIBRARY;

/// Returns true if the process has the library loaded.
bool has_library(const std::string& name) {
  void* const loaded = ::dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (loaded == nullptr) return false;
  ::dlclose(loaded);
  return true;
}

std::uint32_t own_process() { return static_cast<std::uint32_t>(::getpid()); }
int twice(int v) { return 2 * v; }

/// A job whose targets load the library, over each kind of transport.
class native_calls : public ::testing::TestWithParam<const char*> {
 protected:
  native_calls() {
    job_options options;
    options.targets = "shm:2";
    options.crash_report = "names";
    if (std::string("tcp") == GetParam()) {
      server_options served;
      served.listen = {"127.0.0.1", 0};
      served.program = running_program;
      served.arguments = {"farcall_c_tests"};
      served.plain = true;
      server_.emplace(std::move(served));
      options.targets =
          "tcp://127.0.0.1:" + std::to_string(server_->addresses().front().port) + "?count=2";
    }
    job_.emplace(options);
    target_ = job_->targets().front();
  }

  void SetUp() override {
    ASSERT_EQ(fc_node_at(nullptr, 1, &there_), FC_OK);
    ASSERT_EQ(fc_library_load(there_, path, &library_), FC_OK) << fc_error_text();
  }

  [[nodiscard]] fc_native find(const char* name, const char* signature) const {
    fc_native found{};
    EXPECT_EQ(fc_symbol(library_, name, signature, &found), FC_OK) << fc_error_text();
    return found;
  }

  /// Calls a function, and returns its result.
  fc_value call(const fc_native& f, const std::vector<fc_value>& arguments = {}) const {
    fc_value result{};
    EXPECT_EQ(fc_native_call(there_, f, arguments.data(), &result), FC_OK) << fc_error_text();
    return result;
  }

  /// Expects that the last call has failed with this status, and with a text that has all parts.
  static void expect_failure(fc_status got, fc_status expected,
                             const std::vector<std::string>& parts) {
    EXPECT_EQ(got, expected) << fc_error_text();
    EXPECT_EQ(fc_error_status(), expected);
    for (const std::string& part : parts)
      EXPECT_THAT(fc_error_text(), HasSubstr(part));
  }

  std::optional<server> server_;
  std::optional<job> job_;
  node target_;
  fc_node there_{};
  fc_library library_{};
};

INSTANTIATE_TEST_SUITE_P(over, native_calls, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

// ---- values -------------------------------------------------------------------------------------

/// A function that the script write_functions.py has written.
struct written_function {
  const char* name;
  const char* signature;
  int returned; ///< index of the parameter that it returns, or -1
};
constexpr written_function written_functions[] = {
#include <native_functions.inc>
};

std::size_t size_of(char letter) {
  switch (letter) {
  case 'b':
  case 'B':
  case '?':
    return 1;
  case 'h':
  case 'H':
    return 2;
  case 'i':
  case 'I':
  case 'f':
    return 4;
  default:
    return 8;
  }
}

TEST_P(native_calls, pass_and_return_values_of_all_types) {
  std::mt19937_64 random(3); // NOLINT(bugprone-random-generator-seed): the same in each run
  fc_native recorded = find("recorded", "v(o)");
  for (const written_function& f : written_functions) {
    const fc_native function = find(f.name, f.signature);
    std::string letters(f.signature);
    letters = letters.substr(2, letters.size() - 3);
    std::vector<fc_value> arguments(letters.size());
    std::vector<std::array<unsigned char, 8>> expected(127);
    for (std::size_t i = 0; i < letters.size(); ++i) {
      // The bits behind the value are random, too, and have no effect.
      arguments[i].Q = random();
      if (letters[i] == '?') arguments[i].B = arguments[i].B % 2;
      std::memcpy(expected[i].data(), &arguments[i], size_of(letters[i]));
    }
    for (int round = 0; round < 2; ++round) {
      const fc_value result = call(function, arguments);
      if (f.returned >= 0) {
        const auto index = static_cast<std::size_t>(f.returned);
        EXPECT_EQ(std::memcmp(&result, &arguments[index], size_of(letters[index])), 0)
            << f.signature;
      } else if (f.signature[0] == 'v') {
        EXPECT_EQ(result.Q, 0U);
      }
      std::vector<std::array<unsigned char, 8>> got(expected.size());
      fc_value to{};
      to.o = {got.data(), got.size() * sizeof got[0]};
      call(recorded, {to});
      got.resize(letters.size());
      for (std::size_t i = 0; i < letters.size(); ++i)
        EXPECT_EQ(got[i], expected[i]) << f.signature << ", argument " << i;
    }
  }
}

TEST_P(native_calls, extend_results_to_the_whole_value) {
  EXPECT_EQ(call(find("fail_with", "i(i)"), {{.i = 5}}).q, -1);
  const fc_value d = call(find("multiply", "d(dd)"), {{.d = 6}, {.d = 7}});
  EXPECT_EQ(d.d, 42);
}

TEST_P(native_calls, bring_errno) {
  const fc_native fails = find("fail_with", "i(i)");
  call(fails, {{.i = ENOENT}});
  EXPECT_EQ(fc_native_errno(), ENOENT);
  call(find("do_nothing", "v()"));
  EXPECT_EQ(fc_native_errno(), 0);
}

TEST_P(native_calls, use_memory_of_the_node) {
  fc_span memory{};
  std::array<double, 3> values{1, 2, 3};
  ASSERT_EQ(fc_allocate(there_, sizeof values, &memory), FC_OK);
  ASSERT_EQ(fc_put(nullptr, memory, values.data(), sizeof values), FC_OK);
  const fc_value n = call(find("scale", "l(dpl)"), {{.d = 2.5}, {.p = memory.address}, {.l = 3}});
  EXPECT_EQ(n.l, 3);
  ASSERT_EQ(fc_get(nullptr, memory, values.data(), sizeof values), FC_OK);
  EXPECT_EQ(values, (std::array<double, 3>{2.5, 5, 7.5}));
  EXPECT_EQ(fc_release(nullptr, memory), FC_OK);
}

// ---- buffers ------------------------------------------------------------------------------------

TEST_P(native_calls, send_and_return_buffers_of_any_size) {
  const fc_native fill = find("fill", "N(oNB)");
  const fc_native length = find("length_of", "N(s)");
  const fc_native upper = find("to_upper", "v(xN)");
  for (const std::size_t size : {0U, 1U, 15U, 16U, 17U, 512U, 5000U, 3000000U}) {
    std::string bytes(size, 'a');
    // The function gets zeros, and not the caller's bytes.
    fc_value to{};
    to.o = {bytes.data(), size};
    EXPECT_EQ(call(fill, {to, {.N = size}, {.B = 'b'}}).N, 0U);
    EXPECT_EQ(bytes, std::string(size, 'b'));
    fc_value both{};
    both.x = {bytes.data(), size};
    call(upper, {both, {.N = size}});
    EXPECT_EQ(bytes, std::string(size, 'B'));
    // A zero follows the bytes.
    fc_value from{};
    from.s = {bytes.data(), size};
    EXPECT_EQ(call(length, {from}).N, size);
  }
}

TEST_P(native_calls, mix_buffers_and_values) {
  std::string joined(16, '?');
  std::size_t uses = 4;
  std::vector<fc_value> arguments(6);
  arguments[0].b = '-';
  arguments[1].s = {"one", 3};
  arguments[2].s = {"four", 4};
  arguments[3].o = {joined.data(), joined.size()};
  arguments[4].x = {&uses, sizeof uses};
  arguments[5].d = 9.5;
  EXPECT_EQ(call(find("join", "i(bssoxd)"), arguments).i, 9);
  EXPECT_STREQ(joined.c_str(), "one-four");
  EXPECT_EQ(uses, 5U);
}

TEST_P(native_calls, align_buffers_and_pass_null) {
  std::array<char, 40> bytes{};
  for (const char* const signature : {"N(s)", "N(o)", "N(x)"}) {
    const fc_native misalignment = find("misalignment_of", signature);
    fc_value at{};
    at.x = {bytes.data() + 3, 20};
    EXPECT_EQ(call(misalignment, {at}).N, 0U) << signature;
  }
  EXPECT_TRUE(call(find("is_null", "?(sox)"), std::vector<fc_value>(3)).t);
}

TEST_P(native_calls, refuse_impossible_buffers) {
  fc_value to{};
  to.o = {&to, static_cast<std::size_t>(-1)};
  expect_failure(fc_native_call(there_, find("length_of", "N(o)"), &to, nullptr),
                 FC_INVALID_ARGUMENT, {"negative"});
  to.o = {&to, std::size_t{1} << 60};
  EXPECT_NE(fc_native_call(there_, find("length_of", "N(o)"), &to, nullptr), FC_OK);
  EXPECT_EQ(call(find("multiply", "d(dd)"), {{.d = 1}, {.d = 1}}).d, 1);
}

// ---- futures ------------------------------------------------------------------------------------

TEST_P(native_calls, give_futures) {
  const fc_native multiply = find("multiply", "d(dd)");
  const fc_native upper = find("to_upper", "v(xN)");
  std::vector<fc_future*> futures(100);
  for (std::size_t i = 0; i < futures.size(); ++i) {
    const fc_value arguments[] = {{.d = static_cast<double>(i)}, {.d = 2}};
    ASSERT_EQ(fc_native_call_async(there_, multiply, arguments, &futures[i]), FC_OK);
  }
  std::string text = "text";
  std::array<fc_value, 2> arguments{};
  arguments[0].x = {text.data(), text.size()};
  arguments[1].N = text.size();
  fc_future* last = nullptr;
  ASSERT_EQ(fc_native_call_async(fc_within(there_, std::chrono::nanoseconds(wait_limit).count()),
                                 upper, arguments.data(), &last),
            FC_OK);
  text = "none";
  for (std::size_t i = 0; i < futures.size(); ++i) {
    for (int round = 0; round < 2; ++round) {
      fc_value result{};
      EXPECT_EQ(fc_native_get(futures[i], multiply, nullptr, &result), FC_OK);
      EXPECT_EQ(result.d, 2 * static_cast<double>(i));
    }
    fc_future_drop(futures[i]);
  }
  EXPECT_EQ(fc_native_get(last, upper, arguments.data(), nullptr), FC_OK);
  EXPECT_EQ(text, "TEXT");
  fc_future_drop(last);
}

TEST_P(native_calls, run_beside_other_handlers_and_can_be_stopped) {
  fc_span words{};
  ASSERT_EQ(fc_allocate(there_, 8, &words), FC_OK);
  const std::array<std::uint32_t, 2> zeros{};
  ASSERT_EQ(fc_put(nullptr, words, zeros.data(), sizeof zeros), FC_OK);
  const fc_native wait = find("wait_for_second", "v(p)");
  const fc_value argument{.p = words.address};
  fc_node lane{};
  ASSERT_EQ(fc_lane_open(there_, &lane), FC_OK);
  fc_future* future = nullptr;
  ASSERT_EQ(fc_native_call_async(fc_stoppable(lane), wait, &argument, &future), FC_OK);
  std::array<std::uint32_t, 2> now{};
  ASSERT_TRUE(eventually(
      [&] { return fc_get(nullptr, words, now.data(), sizeof now) == FC_OK && now[0] == 1; }));
  EXPECT_EQ(sync(target_, twice, 4), 8);
  EXPECT_FALSE(fc_future_test(future));
  EXPECT_EQ(fc_future_stop(future), FC_OK);
  EXPECT_EQ(fc_native_get(future, wait, nullptr, nullptr), FC_CANCELLED);
  fc_future_drop(future);
  // The library stays loaded until the function has returned.
  EXPECT_EQ(fc_library_unload(library_), FC_OK);
  EXPECT_TRUE(sync(target_, has_library, std::string(path)));
  now = {1, 1};
  ASSERT_EQ(fc_put(nullptr, words, now.data(), sizeof now), FC_OK);
  EXPECT_TRUE(eventually([&] { return !sync(target_, has_library, std::string(path)); }));
  fc_lane_close(lane);
  EXPECT_EQ(fc_release(nullptr, words), FC_OK);
}

// ---- errors -------------------------------------------------------------------------------------

TEST_P(native_calls, name_what_is_wrong_in_a_signature) {
  fc_native f{};
  const std::pair<const char*, std::vector<std::string>> wrong[] = {
      {"", {"''", "at its end", "result"}},
      {"d", {"at its end", "expected is '('"}},
      {"y(d)", {"letter 1, 'y'", "result"}},
      {"s()", {"letter 1, 's'", "result"}},
      {"d(dyl)", {"letter 4, 'y'", "parameter"}},
      {"d( d v)", {"letter 6, 'v'", "parameter"}},
      {"d(d", {"at its end", "')'"}},
      {"d(d))", {"letter 5, ')'", "ends"}},
  };
  for (const auto& [signature, parts] : wrong) {
    expect_failure(fc_symbol(library_, "multiply", signature, &f), FC_INVALID_ARGUMENT, parts);
  }
  expect_failure(fc_symbol(library_, "multiply", ("d(" + std::string(128, 'd') + ")").c_str(), &f),
                 FC_INVALID_ARGUMENT, {"127"});
  EXPECT_EQ(call(find("multiply", " d (d d) "), {{.d = 2}, {.d = 3}}).d, 6);
}

TEST_P(native_calls, name_what_is_missing) {
  fc_library library{};
  expect_failure(fc_library_load(there_, "/no/such/library.so", &library), FC_ERROR,
                 {"node 1", "/no/such/library.so", "No such file"});
  expect_failure(fc_library_load(there_, "/dev/null", &library), FC_ERROR, {"node 1", "/dev/null"});
  fc_native f{};
  expect_failure(fc_symbol(library_, "no_such_function", "v()", &f), FC_UNKNOWN_FUNCTION,
                 {"node 1", "no_such_function", path});
  EXPECT_EQ(fc_error_node(), 1U);
  expect_failure(fc_library_load(there_, nullptr, &library), FC_INVALID_ARGUMENT, {"path"});
  expect_failure(fc_symbol(library_, nullptr, "v()", &f), FC_INVALID_ARGUMENT, {"name"});
  expect_failure(fc_symbol(fc_library{}, "f", "v()", &f), FC_INVALID_ARGUMENT, {"fc_library_load"});
  expect_failure(fc_native_call(there_, f, nullptr, nullptr), FC_INVALID_ARGUMENT, {"fc_symbol"});
  expect_failure(fc_native_call(there_, find("multiply", "d(dd)"), nullptr, nullptr),
                 FC_INVALID_ARGUMENT, {"arguments"});
}

TEST_P(native_calls, fail_after_the_library_was_unloaded) {
  const fc_native multiply = find("multiply", "d(dd)");
  const fc_value arguments[] = {{.d = 2}, {.d = 3}};
  ASSERT_EQ(fc_library_unload(library_), FC_OK);
  EXPECT_FALSE(sync(target_, has_library, std::string(path)));
  expect_failure(fc_library_unload(library_), FC_UNKNOWN_FUNCTION, {"node 1", "unloaded"});
  fc_native f{};
  expect_failure(fc_symbol(library_, "multiply", "d(dd)", &f), FC_UNKNOWN_FUNCTION,
                 {"node 1", "unloaded"});
  const fc_library before = library_;
  ASSERT_EQ(fc_library_load(there_, path, &library_), FC_OK);
  // A library that is loaded later gets another id, although it has the same place.
  EXPECT_NE(library_.id, before.id);
  expect_failure(fc_native_call(there_, multiply, arguments, nullptr), FC_UNKNOWN_FUNCTION,
                 {"node 1", "unloaded"});
  fc_future* future = nullptr;
  ASSERT_EQ(fc_native_call_async(there_, multiply, arguments, &future), FC_OK);
  expect_failure(fc_native_get(future, multiply, arguments, nullptr), FC_UNKNOWN_FUNCTION,
                 {"node 1", "unloaded"});
  fc_future_drop(future);
  EXPECT_EQ(call(find("multiply", "d(dd)"), {{.d = 2}, {.d = 3}}).d, 6);
}

TEST_P(native_calls, keep_a_library_for_each_load) {
  fc_library again{};
  ASSERT_EQ(fc_library_load(there_, path, &again), FC_OK);
  EXPECT_EQ(call(find("count", "i()")).i, 1);
  EXPECT_EQ(fc_library_unload(library_), FC_OK);
  library_ = again;
  EXPECT_EQ(call(find("count", "i()")).i, 2);
  EXPECT_EQ(fc_library_unload(library_), FC_OK);
  // The variables of the library begin anew.
  ASSERT_EQ(fc_library_load(there_, path, &library_), FC_OK);
  EXPECT_EQ(call(find("count", "i()")).i, 1);
}

TEST_P(native_calls, go_only_to_the_node_of_the_function) {
  fc_node other{};
  ASSERT_EQ(fc_node_at(nullptr, 2, &other), FC_OK);
  fc_native multiply = find("multiply", "d(dd)");
  const fc_value arguments[] = {{.d = 2}, {.d = 3}};
  expect_failure(fc_native_call(other, multiply, arguments, nullptr), FC_INVALID_ARGUMENT,
                 {"node 1", "node 2"});
  // The other node refuses a function that it has not loaded, although it has a library, too.
  fc_library library{};
  ASSERT_EQ(fc_library_load(other, path, &library), FC_OK);
  multiply.node = 2;
  expect_failure(fc_native_call(other, multiply, arguments, nullptr), FC_UNKNOWN_FUNCTION,
                 {"node 2"});
  library.id = library_.id;
  expect_failure(fc_symbol(library, "multiply", "d(dd)", &multiply), FC_UNKNOWN_FUNCTION,
                 {"node 2"});
}

TEST_P(native_calls, find_functions_of_the_program_and_of_its_libraries) {
  fc_library program{};
  ASSERT_EQ(fc_library_load(there_, "", &program), FC_OK);
  fc_native own_pid{};
  ASSERT_EQ(fc_symbol(program, "getpid", "i()", &own_pid), FC_OK);
  EXPECT_EQ(call(own_pid).I, sync(target_, own_process));
  fc_native asks{};
  ASSERT_EQ(fc_symbol(program, "library_test_asks_the_host", "I()", &asks), FC_OK)
      << fc_error_text();
  EXPECT_EQ(call(asks).I, own_process());
  EXPECT_EQ(fc_library_unload(program), FC_OK);
}

TEST_P(native_calls, bring_exceptions_of_cpp) {
  fc_library program{};
  ASSERT_EQ(fc_library_load(there_, "", &program), FC_OK);
  fc_native throws{};
  ASSERT_EQ(fc_symbol(program, "library_test_throws", "v(i)", &throws), FC_OK) << fc_error_text();
  const fc_value three{.i = 3};
  expect_failure(fc_native_call(there_, throws, &three, nullptr), FC_REMOTE_ERROR, {"no 3"});
  EXPECT_STREQ(fc_error_type(), "std::out_of_range");
  EXPECT_EQ(call(find("multiply", "d(dd)"), {{.d = 2}, {.d = 3}}).d, 6);
}

TEST_P(native_calls, work_on_the_own_node) {
  ASSERT_EQ(fc_this_node(nullptr, &there_), FC_OK);
  ASSERT_EQ(fc_library_load(there_, path, &library_), FC_OK) << fc_error_text();
  EXPECT_EQ(call(find("multiply", "d(dd)"), {{.d = 2}, {.d = 3}}).d, 6);
  EXPECT_EQ(fc_library_unload(library_), FC_OK);
}

TEST_P(native_calls, from_many_threads_look_up_and_call) {
  std::vector<std::jthread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const fc_native multiply = find("multiply", "d(dd)");
        const double r =
            call(multiply, {{.d = static_cast<double>(t)}, {.d = static_cast<double>(i)}}).d;
        if (r == t * i) right.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(right.load(std::memory_order_relaxed), 200);
}

TEST_P(native_calls, that_crash_end_the_node) {
  // Sanitizers report faults themselves.
  std::vector<std::string> parts{"node 1"};
  if constexpr (!under_sanitizer) parts.insert(parts.end(), {"SIGSEGV", "crash"});
  expect_failure(fc_native_call(there_, find("crash", "v()"), nullptr, nullptr), FC_NODE_FAILED,
                 parts);
}

} // namespace
} // namespace farcall::test::library_test
