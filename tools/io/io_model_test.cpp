// SPDX-License-Identifier: Apache-2.0
#include "io_model.hpp"
#include "io_test_support.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

/// Tests of random operations on files of the host, by the preloaded library.
namespace farcall::test {
namespace {

class forwarded_files_at_random : public forwarding_job {};

INSTANTIATE_TEST_SUITE_P(over, forwarded_files_at_random, ::testing::Values("shm", "tcp", "tls"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(forwarded_files_at_random, match_a_copy_in_memory) {
  const random_run chosen;
  const auto run = +[](const std::string& path, std::uint64_t seed, std::uint64_t count) {
    return file_model(path, seed, false).run(count);
  };
  EXPECT_EQ(sync(target_, run, tree_ / "in/file", chosen.seed, chosen.operations), "")
      << "FARCALL_TEST_SEED=" << chosen.seed;
}

} // namespace
} // namespace farcall::test
