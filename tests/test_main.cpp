#include <farcall/farcall.hpp>

#include <gtest/gtest.h>

int main(int argc, char** argv) {
  // Jobs are made inside the tests, so targets must be caught before those run.
  farcall::serve_if_target();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
