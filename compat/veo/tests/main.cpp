// SPDX-License-Identifier: Apache-2.0
#include <tests/faults/support.hpp>

#include <gtest/gtest.h>

#include <cstdlib>

int main(int argc, char** argv) {
  // Keep a helper that the caller has set.
  ::setenv("VEORUN_BIN", VEO_TEST_HELPER, 0);
  if (const int result = farcall::test::role::run_if_asked(); result >= 0) return result;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
