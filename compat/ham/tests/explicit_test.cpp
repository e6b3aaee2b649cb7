// SPDX-License-Identifier: Apache-2.0

// A program with HAM_EXPLICIT: its own main() runs on the host and on targets.

#ifndef HAM_EXPLICIT // the build may define it too
#define HAM_EXPLICIT
#endif
#include <ham/offload.hpp>

#include <gtest/gtest.h>

#include <concepts>
#include <cstdio>

namespace {

int plus_one(int v) { return v + 1; }

TEST(explicit_main, offloads) {
  std::vector<ham::offload::future<int>> all;
  for (std::size_t node = 1; node < ham::offload::num_nodes(); ++node)
    all.push_back(ham::offload::async(static_cast<ham::node_t>(node), f2f(&plus_one, 1)));
  ASSERT_EQ(all.size(), 2U);
  for (auto& f : all)
    EXPECT_EQ(f.get(), 2);
}

} // namespace

// ham_init() takes pointers to argc and argv in HAM 0.3, and the values in HAM 0.2.
template <class... A>
concept can_init = requires(A... arguments) {
  { ham::offload::ham_init(arguments...) } -> std::same_as<bool>;
};
static_assert(can_init<int*, char***> && can_init<int, char**>);

int main(int argc, char* argv[]) {
  if (!ham::offload::ham_init(&argc, &argv)) {
    std::puts("a target has ended in order");
    HAM_LOG << "logs at its end\n";
    return ham::offload::ham_finalise();
  }
  ::testing::InitGoogleTest(&argc, argv);
  const int status = RUN_ALL_TESTS();
  ham::offload::ham_finalise();
  ham::offload::ham_finalise(); // a second call has no effect
  HAM_LOG << "logs at its end\n";
  return status;
}
