// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/engine_test_support.hpp>
#include <farcall/base/error.hpp>
#include <farcall/call/caller.hpp>
#include <farcall/call/key_resolver.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

namespace farcall::test {

// Also defined in entry_test.cpp.
static int same_name_in_two_files(int v) { return v + 2; }
am::handler_function same_name_of_the_other_file();

int resolver_test_extern(int v) { return v * 3; }

namespace {

int resolver_test_unnamed(int v) { return v * 5; }
std::string joined(const std::string& a, const std::string& b) { return a + b; }

/// A node that calls itself, as if its peer ran an equal program, or a different one.
class loop {
 public:
  enum class peer : bool { equal, different };

  explicit loop(peer p) : engine_(key_resolver::handlers(), 1, &context_), functions_(1) {
    functions_.add(card_of(p), nullptr);
    context_.functions = &functions_;
    engine_->workers().start(0);
  }

  template <class F, class... A>
  auto call(const F& f, A&&... args) {
    using caller = detail::caller_for<F, A...>;
    using result = typename caller::result;
    am::pending_call* slot = caller::template call<detail::call_mode::awaited>(
        lane(), context_, no_deadline, f, args...);
    (void)engine_->wait(*slot);
    if (const std::exception_ptr why = slot->failure()) {
      slot->source()->free_call(*slot);
      std::rethrow_exception(why);
    }
    result r = std::move(detail::result_in<result>(*slot));
    detail::destroy_result<result>(*slot);
    slot->source()->free_call(*slot);
    return r;
  }

  am::requester& lane() { return engine_->lane_to(0); }
  key_resolver& functions() { return functions_; }
  const call_context& context() { return context_; }

  /// Calls the plain function with that handle, and returns its result.
  int call_handle(std::uint32_t handle, int v) {
    using far = detail::remote_call<int (*)(int), int, int>;
    const am::handler_key key = key_resolver::key_for(lane(), far::self, context_, no_deadline);
    am::pending_call* slot =
        detail::send<detail::call_mode::awaited, int>(lane(), key, {handle}, no_deadline, v);
    (void)engine_->wait(*slot);
    const std::exception_ptr why = slot->failure();
    const int r = why ? 0 : detail::result_in<int>(*slot);
    slot->source()->free_call(*slot);
    if (why) std::rethrow_exception(why);
    return r;
  }

 private:
  static card card_of(peer p) {
    card c;
    c.build = program_image::instance().build();
    c.key_digest = function_registry::instance().digest();
    if (p == peer::different) {
      c.build += " other";
      c.key_digest ^= 1;
    }
    return c;
  }

  call_context context_;
  lone_engine engine_;
  key_resolver functions_;
};

template <class E, class F>
std::string text_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "";
}

class key_resolvers : public ::testing::TestWithParam<loop::peer> {
 protected:
  key_resolvers() : loop_(GetParam()) {}
  loop loop_;
};

INSTANTIATE_TEST_SUITE_P(peers, key_resolvers,
                         ::testing::Values(loop::peer::equal, loop::peer::different),
                         [](const auto& p) {
                           return p.param == loop::peer::equal ? "equal" : "different";
                         });

TEST_P(key_resolvers, find_plain_functions) {
  EXPECT_EQ(loop_.call(&resolver_test_extern, 4), 12);
  EXPECT_EQ(loop_.call(&resolver_test_unnamed, 4), 20);
  EXPECT_EQ(loop_.call(&joined, "a", "b"), "ab");
  EXPECT_EQ(loop_.call(&joined, "c", "d"), "cd") << "the second time";
}

TEST_P(key_resolvers, find_functions_fixed_at_compile_time) {
  EXPECT_EQ(loop_.call(fn<&resolver_test_extern>, 4), 12);
  EXPECT_EQ(loop_.call(fn<&joined>, "a", "b"), "ab");
}

TEST_P(key_resolvers, find_lambdas) {
  EXPECT_EQ(loop_.call([](int v) { return v + 1; }, 4), 5);
  int add = 7; // Not const: a const int of constant value would not be captured.
  EXPECT_EQ(loop_.call([add](int v) { return v + add; }, 4), 11);
}

TEST_P(key_resolvers, find_functions_of_shared_libraries) {
  EXPECT_EQ(loop_.call(&::getpid), ::getpid());
}

TEST_P(key_resolvers, from_many_threads_at_once) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        EXPECT_EQ(loop_.call(&resolver_test_extern, i), 3 * i);
        EXPECT_EQ(loop_.call(fn<&resolver_test_unnamed>, i), 5 * i);
      }
    });
  }
  for (auto& t : threads)
    t.join();
}

TEST_P(key_resolvers, handles_that_mean_nothing) {
  // Offsets outside the code, and numbers that were never assigned.
  for (const std::uint32_t handle : {0U, 1U, 0x7fffffffU, 0x80000000U, 0x80000001U, 0x80001234U,
                                     0x8000ffffU, 0x80010000U, 0xffffffffU}) {
    EXPECT_EQ(loop_.functions().function_for({handle}), nullptr) << handle;
    EXPECT_THROW((void)loop_.call_handle(handle, 1), unknown_function) << handle;
  }
  EXPECT_EQ(loop_.call(fn<&resolver_test_extern>, 4), 12) << "the lane does not work any more";
}

TEST(resolver_twins, are_told_apart_in_equal_programs) {
  using mine = detail::remote_call<fn_t<&same_name_in_two_files>, int, int>;
  ASSERT_NE(mine::self.run(), same_name_of_the_other_file());
  loop l(loop::peer::equal);
  EXPECT_EQ(l.call(fn<&same_name_in_two_files>, 10), 12) << "the other file's function ran";
  EXPECT_EQ(l.call(&same_name_in_two_files, 10), 12);
}

TEST(resolver_twins, are_told_apart_by_their_file_in_different_programs) {
  loop l(loop::peer::different);
  EXPECT_EQ(l.call(fn<&same_name_in_two_files>, 10), 12) << "the other file's function ran";
  EXPECT_EQ(l.functions().resolve("_ZN7farcall4testL22same_name_in_two_filesEi"), 0U);
}

TEST(resolver_twins, plain_functions_are_told_apart_by_their_file) {
  loop l(loop::peer::different);
  EXPECT_EQ(l.call(&same_name_in_two_files, 10), 12) << "the other file's function ran";
}

TEST(key_resolver_resolves, are_given_once_per_name) {
  loop l(loop::peer::different);
  const std::string name = "_ZN7farcall4test20resolver_test_externEi";
  const std::uint32_t number = l.functions().resolve(name);
  EXPECT_NE(number, 0U);
  EXPECT_EQ(l.functions().resolve(name), number);
  EXPECT_EQ(l.functions().resolve("no_such_function"), 0U);
  EXPECT_EQ(l.functions().resolve(""), 0U);
  EXPECT_NE(l.functions().resolve("getpid"), number);
  EXPECT_EQ(l.call_handle(number | 0x80000000U, 4), 12);
  EXPECT_THROW((void)l.call_handle((number + 5) | 0x80000000U, 4), unknown_function);
}

TEST(key_resolver_contexts, belong_to_the_handler) {
  EXPECT_EQ(current_context(), nullptr);
  loop l(loop::peer::equal);
  const auto seen = l.call([] { return reinterpret_cast<std::uintptr_t>(current_context()); });
  EXPECT_EQ(seen, reinterpret_cast<std::uintptr_t>(&l.context()));
  EXPECT_EQ(current_context(), nullptr);
}

} // namespace
} // namespace farcall::test
