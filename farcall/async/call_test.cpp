// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace farcall::test {
namespace {

struct named_functor {
  std::string name;
  std::string operator()(const std::string& who) const { return name + " greets " + who; }
};

} // namespace
} // namespace farcall::test

template <>
struct farcall::packer<farcall::test::named_functor> {
  static void pack(writer& w, const test::named_functor& f) { w(f.name); }
  static test::named_functor unpack(reader& r) { return {r.read<std::string>()}; }
};

namespace farcall::test {

/// Outside the unnamed namespace, so that its name is a symbol that other programs can look up.
int exported_triple(int v) { return 3 * v; }

namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

class call : public job_test {};

// ---- what is called -----------------------------------------------------------------------------

int add(int a, int b) { return a + b; }
int add_noexcept(int a, int b) noexcept { return a + b; }
long forty_two() { return 42; }
int overloaded(int v) { return v + 1; }
double overloaded(double v) { return v * 2; }
std::string overloaded(const std::string& v) { return v + v; }
template <class T>
T twice(T v) {
  return v + v;
}
template <class... T>
int count_of(T... /*unused*/) {
  return sizeof...(T);
}

std::atomic<int> calls_here{0};
void count_call() { ++calls_here; }
void count_call_noexcept() noexcept { ++calls_here; }
int calls_so_far() { return calls_here.load(); }

TEST_F(call, plain_function) {
  EXPECT_EQ(sync(target_, add, 2, 3), 5);
  EXPECT_EQ(sync(target_, &add, 2, 3), 5);
  EXPECT_EQ(async(target_, add, -2, 3).get(), 1);
  EXPECT_EQ(sync(target_, forty_two), 42);
  EXPECT_EQ(sync(target_, exported_triple, 5), 15);
}

TEST_F(call, function_pointer_in_a_variable) {
  int (*f)(int, int) = add;
  EXPECT_EQ(sync(target_, f, 2, 3), 5);
  int (*const constant)(int, int) = add;
  EXPECT_EQ(sync(target_, constant, 2, 3), 5);
  int (&reference)(int, int) = add;
  EXPECT_EQ(sync(target_, reference, 2, 3), 5);
  const std::array<int (*)(int), 2> table{exported_triple, static_cast<int (*)(int)>(overloaded)};
  EXPECT_EQ(sync(target_, table[0], 7), 21);
  EXPECT_EQ(sync(target_, table[1], 7), 8);
}

TEST_F(call, null_function_pointer_is_refused) {
  int (*none)() = nullptr;
  EXPECT_THAT(text_thrown_by<error>([&] { (void)sync(target_, none); }),
              ::testing::HasSubstr("a null function"));
}

TEST_F(call, noexcept_function) {
  EXPECT_EQ(sync(target_, add_noexcept, 2, 3), 5);
  EXPECT_EQ(sync(target_, fn<add_noexcept>, 2, 3), 5);
  int (*f)(int, int) noexcept = add_noexcept;
  EXPECT_EQ(sync(target_, f, 2, 3), 5);
  EXPECT_EQ(sync(target_, [](int v) noexcept { return v + 1; }, 1), 2);
  sync(target_, count_call_noexcept);
  EXPECT_EQ(sync(target_, calls_so_far), 1);
}

TEST_F(call, function_fixed_at_compile_time) {
  EXPECT_EQ(sync(target_, fn<add>, 2, 3), 5);
  EXPECT_EQ(sync(target_, fn<&add>, 2, 3), 5);
  EXPECT_EQ(sync(target_, fn<&exported_triple>, 2), 6);
  EXPECT_EQ(sync(target_, fn<static_cast<double (*)(double)>(overloaded)>, 2.5), 5.0);
  EXPECT_EQ(sync(target_, fn<&twice<int>>, 4), 8);
}

TEST_F(call, overloads_by_cast) {
  EXPECT_EQ(sync(target_, static_cast<int (*)(int)>(overloaded), 1), 2);
  EXPECT_EQ(sync(target_, static_cast<double (*)(double)>(overloaded), 1.5), 3.0);
  EXPECT_EQ(sync(target_, static_cast<std::string (*)(const std::string&)>(overloaded), "ab"),
            "abab");
}

TEST_F(call, templates) {
  EXPECT_EQ(sync(target_, twice<int>, 3), 6);
  EXPECT_EQ(sync(target_, twice<double>, 1.25), 2.5);
  EXPECT_EQ(sync(target_, twice<std::string>, "xy"), "xyxy");
  EXPECT_EQ(sync(target_, count_of<>), 0);
  EXPECT_EQ(sync(target_, count_of<int, char, double>, 1, 'c', 2.0), 3);
}

TEST_F(call, lambda_without_captures) {
  EXPECT_EQ(sync(target_, [](int a, int b) { return a * b; }, 6, 7), 42);
  EXPECT_EQ(sync(target_, [] { return this_node().id(); }), target_.id());
  EXPECT_EQ(sync(target_, +[](int v) { return -v; }, 6), -6);
  const auto named = [](const std::string& s) { return s.size(); };
  EXPECT_EQ(sync(target_, named, "four"), 4U);
}

TEST_F(call, two_lambdas_of_one_type_text_are_told_apart) {
  const auto first = [](int v) { return v + 1; };
  const auto second = [](int v) { return v + 2; };
  EXPECT_EQ(sync(target_, first, 10), 11);
  EXPECT_EQ(sync(target_, second, 10), 12);
}

TEST_F(call, lambda_with_captures) {
  int factor = 3; // not const, which a lambda need not capture
  const double offset = 0.5;
  EXPECT_EQ(sync(target_, [factor, offset](double v) { return v * factor + offset; }, 2.0), 6.5);
  std::array<int, 100> table{};
  std::iota(table.begin(), table.end(), 0);
  EXPECT_EQ(sync(target_, [table](std::size_t i) { return table.at(i); }, std::size_t{99}), 99);
  EXPECT_EQ(sync(target_, [moved = std::array<char, 4>{'a', 'b', 'c',
                                                       0}] { return std::string(moved.data()); }),
            "abc");
}

TEST_F(call, large_captures_are_sent_too) {
  std::array<std::uint32_t, 30'000> table{};
  std::iota(table.begin(), table.end(), 5U);
  EXPECT_EQ(sync(target_, [table] { return table.back(); }), 30'004U);
}

TEST_F(call, captured_nodes_are_refused_by_the_compiler) {
  // A node is a handle of this process. As an argument it becomes a handle of the other process.
  const auto captures = [n = target_] { return n.id(); };
  static_assert(!is_packable_v<decltype(captures)>);
  static_assert(is_packable_v<node>);
  EXPECT_EQ(captures(), target_.id());
}

TEST_F(call, captured_span_is_used_on_the_target) {
  const buffer<int> memory = target_.allocate<int>(10);
  put_sync(std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, memory);
  EXPECT_EQ(sync(target_,
                 [span = memory.span()] { return std::accumulate(span.begin(), span.end(), 0); }),
            55);
}

TEST_F(call, mutable_lambda_changes_its_copy_only) {
  int start = 5;
  auto counter = [start]() mutable { return ++start; };
  EXPECT_EQ(sync(target_, counter), 6);
  EXPECT_EQ(sync(target_, counter), 6);
}

struct scaled {
  int factor;
  int operator()(int v) const { return factor * v; }
};

struct many_operators {
  int factor;
  int operator()(int v) const { return factor * v; }
  std::string operator()(const std::string& v) const { return v + std::to_string(factor); }
  int operator()(int a, int b) const { return factor * (a + b); }
};

TEST_F(call, functor) {
  EXPECT_EQ(sync(target_, scaled{4}, 5), 20);
  scaled s{5};
  EXPECT_EQ(sync(target_, s, 5), 25);
  const scaled constant{6};
  EXPECT_EQ(sync(target_, constant, 5), 30);
}

TEST_F(call, functor_with_several_call_operators) {
  EXPECT_EQ(sync(target_, many_operators{3}, 5), 15);
  EXPECT_EQ(sync(target_, many_operators{3}, std::string("x")), "x3");
  EXPECT_EQ(sync(target_, many_operators{3}, 1, 2), 9);
}

TEST_F(call, generic_lambda) {
  const auto sum = [](auto a, auto b) { return a + b; };
  EXPECT_EQ(sync(target_, sum, 1, 2), 3);
  EXPECT_EQ(sync(target_, sum, 1.5, 2.0), 3.5);
  EXPECT_EQ(sync(target_, sum, std::string("a"), std::string("b")), "ab");
}

TEST_F(call, functor_with_its_own_packer) {
  EXPECT_EQ(sync(target_, named_functor{"ann"}, "bob"), "ann greets bob");
}

// ---- how it is called ---------------------------------------------------------------------------

TEST_F(call, void_result) {
  sync(target_, count_call);
  async(target_, count_call).get();
  EXPECT_EQ(sync(target_, calls_so_far), 2);
  EXPECT_EQ(calls_so_far(), 0) << "the call ran on the host";
}

TEST_F(call, runs_in_another_process) {
  EXPECT_NE(sync(target_, ::getpid), ::getpid());
  EXPECT_EQ(static_cast<std::uint64_t>(sync(target_, ::getpid)), target_.description().pid);
}

TEST_F(call, calls_of_one_thread_start_in_order) {
  std::vector<future<int>> order;
  for (int i = 0; i < 1000; ++i) {
    order.push_back(async(target_, [] { return calls_here.fetch_add(1); }));
  }
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(order[static_cast<std::size_t>(i)].get(), i);
}

TEST_F(call, arguments_are_converted_to_the_parameters) {
  const short small = 2;
  EXPECT_EQ(sync(target_, add, small, 'a'), 99);
  EXPECT_EQ(sync(target_, twice<std::string>, "literal"), "literalliteral");
}

TEST_F(call, arguments_may_die_once_async_has_returned) {
  future<std::string> f;
  {
    std::string text(100, 'x');
    f = async(target_, twice<std::string>, text);
    text.assign(100, 'y');
  }
  EXPECT_EQ(f.get(), std::string(200, 'x'));
}

TEST_F(call, post_runs_in_order_before_later_calls) {
  for (int i = 0; i < 10'000; ++i)
    post(target_, count_call);
  EXPECT_EQ(sync(target_, calls_so_far), 10'000);
}

TEST_F(call, post_drops_results_of_any_size) {
  for (int i = 0; i < 100; ++i) {
    post(target_, [](std::size_t n) { return std::vector<char>(n); }, std::size_t{100'000});
    post(
        target_, [](const std::vector<char>& v) { calls_here += static_cast<int>(v.size()); },
        std::vector<char>(100'000));
  }
  EXPECT_EQ(sync(target_, calls_so_far), 10'000'000);
}

TEST_F(call, post_of_something_that_throws_harms_nobody) {
  for (int i = 0; i < 10; ++i)
    post(target_, []() -> int { throw std::runtime_error("unseen"); });
  EXPECT_EQ(sync(target_, add, 1, 1), 2);
  EXPECT_TRUE(target_.alive());
}

TEST_F(call, to_a_node_handle_of_no_job) {
  const node nobody;
  EXPECT_THAT(text_thrown_by<error>([&] { (void)async(nobody, forty_two); }), HasSubstr("no job"));
  EXPECT_THAT(text_thrown_by<error>([&] { post(nobody, forty_two); }), HasSubstr("no job"));
  EXPECT_THROW(lane{nobody}, error);
}

TEST_F(call, to_the_host_itself) {
  EXPECT_EQ(sync(job_.host(), add, 1, 2), 3);
  EXPECT_EQ(sync(job_.host(), ::getpid), ::getpid());
  post(job_.host(), count_call);
  EXPECT_EQ(sync(job_.host(), calls_so_far), 1);
  EXPECT_EQ(calls_so_far(), 1);
  EXPECT_EQ(sync(
                job_.host(), [](std::vector<int> v) { return v; }, std::vector<int>(100'000, 7)),
            std::vector<int>(100'000, 7));
}

// ---- errors -------------------------------------------------------------------------------------

struct own_exception : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};
struct no_exception {};

TEST_F(call, exceptions_come_back_with_type_and_text) {
  const auto e =
      thrown_by<remote_error>([&] { sync(target_, [] { return std::vector<int>(3).at(7); }); });
  ASSERT_TRUE(e);
  EXPECT_EQ(e->type_name(), "std::out_of_range");
  EXPECT_THAT(e->text(), HasSubstr("7"));
  EXPECT_EQ(e->node(), target_.id());
  EXPECT_THAT(e->what(), HasSubstr("node 1"));
  EXPECT_THAT(e->what(), HasSubstr(e->text()));
}

struct without_text : std::exception {
  [[nodiscard]] const char* what() const noexcept override { return nullptr; }
};

TEST_F(call, exceptions_without_a_text) {
  const auto e = thrown_by<remote_error>([&] { sync(target_, [] { throw without_text(); }); });
  ASSERT_TRUE(e);
  EXPECT_THAT(e->type_name(), HasSubstr("without_text"));
  EXPECT_EQ(e->text(), "");
  EXPECT_THAT(e->what(), EndsWith("without_text"));
}

TEST_F(call, exceptions_of_posted_calls_are_logged) {
  for (const bool has_text : {false, true}) {
    ::testing::internal::CaptureStderr();
    if (has_text) {
      post(job_.host(), [] { throw std::runtime_error("some text"); });
    } else {
      post(job_.host(), [] { throw 3; });
    }
    sync(job_.host(), [] {});
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                HasSubstr(has_text ? "threw std::runtime_error: some text\n" : "threw int\n"));
  }
}

TEST_F(call, exceptions_of_own_types) {
  const auto own =
      thrown_by<remote_error>([&] { sync(target_, [] { throw own_exception("odd value"); }); });
  ASSERT_TRUE(own);
  EXPECT_THAT(own->type_name(), HasSubstr("own_exception"));
  EXPECT_EQ(own->text(), "odd value");

  const auto none = thrown_by<remote_error>([&] { sync(target_, [] { throw no_exception{}; }); });
  ASSERT_TRUE(none);
  EXPECT_THAT(none->type_name(), HasSubstr("no_exception"));
  EXPECT_EQ(none->text(), "");

  const auto number = thrown_by<remote_error>([&] { sync(target_, []() -> int { throw 3; }); });
  ASSERT_TRUE(number);
  EXPECT_EQ(number->type_name(), "int");

  const auto text = thrown_by<remote_error>([&] { sync(target_, [] { throw "plain text"; }); });
  ASSERT_TRUE(text);
  EXPECT_EQ(text->type_name(), "char const*");
}

TEST_F(call, long_exception_texts_are_cut_not_lost) {
  const auto e = thrown_by<remote_error>([&] {
    sync(target_, [] { throw std::runtime_error("begin" + std::string(1'000'000, 'z')); });
  });
  ASSERT_TRUE(e);
  EXPECT_EQ(e->text().substr(0, 6), "beginz");
  EXPECT_EQ(e->type_name(), "std::runtime_error");
}

TEST_F(call, exception_from_the_copy_of_a_result_or_argument) {
  // Thrown while the result is packed, after the function has returned.
  const auto e = thrown_by<remote_error>([&] {
    sync(target_, [] { return std::vector<std::string>(1, std::string(4, 'x')).at(1); });
  });
  ASSERT_TRUE(e);
  EXPECT_EQ(sync(target_, forty_two), 42) << "the lane does not work any more";
}

TEST_F(call, many_failing_calls_in_flight) {
  std::vector<future<int>> all;
  for (int i = 0; i < 10'000; ++i) {
    all.push_back(async(
        target_,
        [](int n) {
          if (n % 2 == 1) throw std::runtime_error("odd " + std::to_string(n));
          return n;
        },
        i));
  }
  for (int i = 0; i < 10'000; ++i) {
    auto& f = all[static_cast<std::size_t>(i)];
    if (i % 2 == 0) {
      ASSERT_EQ(f.get(), i);
    } else {
      const auto e = thrown_by<remote_error>([&] { (void)f.get(); });
      ASSERT_TRUE(e);
      ASSERT_EQ(e->text(), "odd " + std::to_string(i));
    }
  }
}

// ---- deadlines ----------------------------------------------------------------------------------

/// Keeps its worker busy until word 0 is set.
bool hold_until_set(handshake::words words) { return handshake::wait(words.local(), 0, 1); }

TEST_F(call, sync_within_a_deadline) {
  EXPECT_EQ(sync(target_.within(wait_limit), add, 1, 2), 3);

  handshake gate(target_);
  const auto e = thrown_by<timeout>([&] {
    (void)sync(target_.within(std::chrono::milliseconds(30)), hold_until_set, gate.span());
  });
  ASSERT_TRUE(e);
  EXPECT_EQ(e->node(), target_.id());
  EXPECT_THAT(e->what(), HasSubstr("node 1"));
  gate.set(0);
  EXPECT_EQ(sync(target_, add, 2, 2), 4) << "the lane does not work after a timeout";
}

TEST_F(call, future_stays_valid_after_its_deadline) {
  handshake gate(target_);
  future<bool> f =
      async(target_.within(std::chrono::milliseconds(20)), hold_until_set, gate.span());
  EXPECT_THROW((void)f.get(), timeout);
  EXPECT_TRUE(f.valid());
  EXPECT_THROW(f.wait(), timeout);
  gate.set(0);
  EXPECT_TRUE(f.within(wait_limit).get());
}

TEST_F(call, full_lane_within_a_deadline) {
  handshake gate(target_);
  future<bool> holding = async(target_, hold_until_set, gate.span());
  const std::string chunk(1000, 'c');
  std::vector<future<std::string>> accepted;
  EXPECT_THROW(
      {
        // A lane's ring takes 64 KiB by default: far less than these calls.
        for (int i = 0; i < 1000; ++i) {
          accepted.push_back(
              async(target_.within(std::chrono::milliseconds(20)), twice<std::string>, chunk));
        }
      },
      timeout);
  EXPECT_LT(accepted.size(), 1000U);
  EXPECT_THROW(
      for (int i = 0; i < 1000;
           ++i) { post(target_.within(std::chrono::milliseconds(20)), twice<std::string>, chunk); },
      timeout);
  gate.set(0);
  EXPECT_TRUE(holding.get());
  for (auto& f : accepted)
    EXPECT_EQ(f.within(wait_limit).get().size(), 2000U);
  EXPECT_EQ(sync(target_, forty_two), 42);
}

TEST_F(call, tried_where_the_lane_is_full_is_not_sent) {
  handshake gate(target_);
  future<bool> holding = async(target_, hold_until_set, gate.span());
  const auto add_length = [](const std::string& text) {
    calls_here += static_cast<int>(text.size());
  };
  int sent = 0;
  // Arguments that fit a record, and arguments that do not.
  for (const std::size_t length : {std::size_t{1000}, std::size_t{20'000}}) {
    const std::string text(length, 't');
    bool was_sent = true;
    for (int i = 0; i < 10'000 && was_sent; ++i) {
      was_sent = try_post(target_, add_length, text);
      if (was_sent) sent += static_cast<int>(length);
    }
    EXPECT_FALSE(was_sent);
  }
  while (try_post(target_, count_call))
    ++sent;
  EXPECT_GT(sent, 0);
  gate.set(0);
  EXPECT_TRUE(holding.get());
  EXPECT_EQ(sync(target_, calls_so_far), sent);
  EXPECT_TRUE(try_post(target_, count_call));
  EXPECT_EQ(sync(target_, calls_so_far), sent + 1);
}

TEST_F(call, a_deadline_in_the_past) {
  EXPECT_THROW((void)sync(target_.within(std::chrono::nanoseconds(-1)),
                          [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }),
               timeout);
  EXPECT_EQ(sync(target_, forty_two), 42);
}

// ---- back-pressure ------------------------------------------------------------------------------

TEST_F(call, a_million_outstanding) {
  constexpr int count = 1'000'000;
  std::vector<future<std::int64_t>> all;
  all.reserve(count);
  for (std::int64_t i = 0; i < count; ++i) {
    all.push_back(async(target_, [](std::int64_t v) { return v * v + 1; }, i));
  }
  for (std::int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(all[static_cast<std::size_t>(i)].get(), i * i + 1);
  }
}

TEST_F(call, a_hundred_thousand_outstanding_texts) {
  constexpr int count = 100'000;
  std::vector<future<std::string>> all;
  for (int i = 0; i < count; ++i) {
    all.push_back(async(target_, twice<std::string>, std::to_string(i)));
  }
  for (int i = count; i-- > 0;) {
    const std::string text = std::to_string(i);
    ASSERT_EQ(all[static_cast<std::size_t>(i)].get(), text + text);
  }
}

TEST_F(call, many_large_calls_outstanding) {
  std::vector<future<std::size_t>> all;
  for (std::size_t i = 0; i < 200; ++i) {
    all.push_back(async(
        target_, [](const std::vector<std::uint8_t>& v) { return v.size(); },
        std::vector<std::uint8_t>(100'000 + i)));
  }
  for (std::size_t i = 0; i < 200; ++i)
    EXPECT_EQ(all[i].get(), 100'000 + i);
}

} // namespace
} // namespace farcall::test
