#include <farcall/farcall.hpp>
#include <tests/refused_calls.hpp>

#include <gtest/gtest.h>

#include <cstdlib>

int main(int argc, char** argv) {
  if (std::getenv("TEST_WITHOUT_FUTEX_WAITV") != nullptr) farcall::test::refuse_futex_waitv();
  // Jobs are made inside the tests, so targets must be caught before those run.
  farcall::serve_if_target();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
