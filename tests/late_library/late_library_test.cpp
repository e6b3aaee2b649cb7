// SPDX-License-Identifier: Apache-2.0

// Tests callables of a library that host and targets load while the job runs.
#include "tests/late_library/late_library.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>

namespace fc = farcall;

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void load() {
  // RTLD_GLOBAL, so that plain functions are found by their symbols.
  if (::dlopen(LATE_LIBRARY, RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    throw std::runtime_error(::dlerror());
  }
}

const late::functions& library() {
  void* const found = ::dlsym(RTLD_DEFAULT, "farcall_late_functions");
  if (found == nullptr) throw std::runtime_error("the library was not loaded");
  return *static_cast<const late::functions*>(found);
}

fc::job_options two_targets() {
  fc::job_options o;
  o.targets = "shm:2";
  return o;
}

/// A single test, as the library stays loaded in the process: its order decides which node has
/// loaded it.
TEST(late_libraries, bring_callables_to_a_job_that_runs) {
  fc::job job(two_targets());
  const fc::node host = job.host();
  const fc::node first = job.targets()[0];
  const fc::node second = job.targets()[1];
  fc::sync(first, [] {}); // makes the keys known before

  load();
  EXPECT_EQ(library().call_function(host, 20), 40) << "here it is loaded";
  try {
    library().call_function(first, 20);
    FAIL() << "the target has not loaded it";
  } catch (const fc::unknown_function& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("late::twice"), HasSubstr("node 1"),
                                HasSubstr("has not loaded that library")));
    EXPECT_EQ(e.node(), first.id());
  }

  for (const fc::node& target : job.targets()) {
    fc::sync(target, load);
    EXPECT_EQ(library().call_function(target, 20), 40);
    EXPECT_EQ(library().call_function(target, 21), 42) << "the second time";
    EXPECT_EQ(library().call_lambda(target, 7), 1007);
    EXPECT_EQ(library().call_plain_function(target, 7), 21);
    EXPECT_EQ(library().call_with_text(target, "text"), "text!");
    EXPECT_EQ(library().call_by_way_of(target, host, 6), 12);
  }
  EXPECT_EQ(library().call_by_way_of(first, second, 8), 16);
  EXPECT_EQ(library().call_by_way_of(first, first, 9), 18) << "a target and itself";

  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i)
        EXPECT_EQ(library().call_function(first, i), 2 * i);
    });
  }
  threads.clear();

  // A later job uses the function registry of the first job.
  fc::job later(two_targets());
  const fc::node of_later = later.targets()[0];
  EXPECT_THROW((void)library().call_function(of_later, 1), fc::unknown_function);
  fc::sync(of_later, load);
  EXPECT_EQ(library().call_function(of_later, 1), 2);
}

} // namespace

int main(int argc, char** argv) {
  fc::serve_if_target();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
