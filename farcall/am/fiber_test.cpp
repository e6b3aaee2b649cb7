// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/fiber.hpp>

#include <gtest/gtest.h>

#include <cfenv>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace farcall::test::fiber_test {
namespace {

using am::fiber;

/// Runs a lambda on a fiber.
class runner {
 public:
  explicit runner(std::function<void(fiber&)> what) : what_(std::move(what)) {}
  bool start() {
    return fiber_.run(
        [](void* self) noexcept {
          auto& me = *static_cast<runner*>(self);
          me.what_(me.fiber_);
        },
        this);
  }
  bool resume() { return fiber_.resume(); }

 private:
  std::function<void(fiber&)> what_;
  fiber fiber_;
};

TEST(fibers, run_to_the_end_and_again) {
  int runs = 0;
  runner r([&](fiber&) { ++runs; });
  EXPECT_TRUE(r.start());
  EXPECT_TRUE(r.start());
  EXPECT_EQ(runs, 2);
}

TEST(fibers, go_on_where_they_were_suspended) {
  std::vector<int> steps;
  runner r([&](fiber& self) {
    std::string local = "kept";
    steps.push_back(1);
    self.suspend();
    steps.push_back(local == "kept" ? 3 : -3);
    self.suspend();
    steps.push_back(5);
  });
  EXPECT_FALSE(r.start());
  steps.push_back(2);
  EXPECT_FALSE(r.resume());
  steps.push_back(4);
  EXPECT_TRUE(r.resume());
  EXPECT_EQ(steps, (std::vector{1, 2, 3, 4, 5}));
}

TEST(fibers, start_inside_each_other_and_end_in_any_order) {
  std::vector<int> steps;
  runner inner([&](fiber& self) {
    steps.push_back(2);
    self.suspend();
    steps.push_back(5);
  });
  runner outer([&](fiber& self) {
    steps.push_back(1);
    EXPECT_FALSE(inner.start());
    steps.push_back(3);
    self.suspend();
    steps.push_back(4);
  });
  EXPECT_FALSE(outer.start());
  EXPECT_TRUE(outer.resume());
  EXPECT_TRUE(inner.resume()) << "entered from another stack than it was started from";
  EXPECT_EQ(steps, (std::vector{1, 2, 3, 4, 5}));
}

TEST(fibers, have_exceptions_of_their_own) {
  runner r([&](fiber& self) {
    try {
      throw std::runtime_error("the fiber's");
    } catch (const std::exception&) {
      self.suspend();
      // Rethrows the exception caught here, not the one caught by the code that resumed the fiber.
      try {
        throw;
      } catch (const std::exception& e) {
        EXPECT_STREQ(e.what(), "the fiber's");
      }
    }
    EXPECT_EQ(std::current_exception(), nullptr);
  });
  EXPECT_FALSE(r.start());
  EXPECT_EQ(std::current_exception(), nullptr);
  try {
    throw std::runtime_error("the thread's");
  } catch (const std::exception&) {
    EXPECT_TRUE(r.resume());
    try {
      throw;
    } catch (const std::exception& e) {
      EXPECT_STREQ(e.what(), "the thread's");
    }
  }
}

TEST(fibers, count_exceptions_that_unwind_by_themselves) {
  struct resumes {
    ~resumes() { r->resume(); }
    runner* r;
  };
  int seen = -1;
  runner r([&](fiber& self) {
    self.suspend();
    seen = std::uncaught_exceptions();
  });
  EXPECT_FALSE(r.start());
  try {
    const resumes at_end{&r};
    throw std::runtime_error("unwinds");
  } catch (const std::exception&) {
  }
  EXPECT_EQ(seen, 0);
}

/// Recurses deeply enough to touch megabytes of the stack.
int deep(int n) {
  volatile char page[4096];
  page[0] = static_cast<char>(n);
  return n == 0 ? page[0] : deep(n - 1) + (page[0] == static_cast<char>(n) ? 1 : 0);
}

TEST(fibers, have_stacks_as_large_as_a_threads) {
  int depth = 0;
  runner r([&](fiber&) { depth = deep(1000); });
  EXPECT_TRUE(r.start());
  EXPECT_EQ(depth, 1000);
}

TEST(fibers, keep_the_mode_of_rounding_that_they_set) {
  runner r([&](fiber& self) {
    std::fesetround(FE_UPWARD);
    self.suspend();
    EXPECT_EQ(std::fegetround(), FE_UPWARD);
    std::fesetround(FE_TONEAREST);
  });
  EXPECT_FALSE(r.start());
#if defined(__x86_64__)
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
#endif
  EXPECT_TRUE(r.resume());
}

} // namespace
} // namespace farcall::test::fiber_test
