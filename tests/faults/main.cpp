// SPDX-License-Identifier: Apache-2.0
#include <farcall/farcall.hpp>

#include "tests/faults/support.hpp"
#include "tests/sanitizer.hpp"

#include <gtest/gtest.h>

int main(int argc, char** argv) {
  farcall::serve_if_target();
  if (const int status = farcall::test::role::run_if_asked(); status >= 0) return status;
  farcall::test::start_symbolizer();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
