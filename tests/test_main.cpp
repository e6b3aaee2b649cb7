// SPDX-License-Identifier: Apache-2.0
#ifndef FARCALL_TEST_WITHOUT_JOBS
#include <farcall/farcall.hpp>
#endif
#include <tests/refused_calls.hpp>

#include <gtest/gtest.h>

#include <cstdlib>

int main(int argc, char** argv) {
  if (std::getenv("TEST_WITHOUT_FUTEX_WAITV") != nullptr) farcall::test::refuse_futex_waitv();
#ifndef FARCALL_TEST_WITHOUT_JOBS
  // Tests make jobs, so targets must serve before tests run.
  farcall::serve_if_target();
#endif
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
