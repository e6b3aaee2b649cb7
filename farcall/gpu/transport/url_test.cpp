// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/gpu/transport/entry.hpp>
#include <farcall/gpu/transport/find_gpus.hpp>
#include <farcall/transport/target_url.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

namespace farcall::url_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(parse_targets, devices_have_numbers_and_teams) {
  const auto targets = parse_targets("cuda,cuda:3?workers=4&threads=128&idle_ms=7&name=fast,"
                                     "cuda-emulated:2?threads=3");
  ASSERT_EQ(targets.size(), 3U);
  EXPECT_EQ(targets[0].scheme, "cuda");
  EXPECT_EQ(cuda::device_number(targets[0]), 0U);
  EXPECT_EQ(targets[0].workers, 8U);
  EXPECT_EQ(targets[0].number("threads"), std::nullopt);
  EXPECT_TRUE(cuda::is_device(targets[0]));
  EXPECT_EQ(cuda::device_number(targets[1]), 3U);
  EXPECT_EQ(targets[1].workers, 4U);
  EXPECT_EQ(targets[1].number("threads"), 128U);
  EXPECT_EQ(targets[1].number("idle_ms"), 7U);
  EXPECT_EQ(targets[1].name, "fast");
  EXPECT_EQ(targets[2].scheme, "cuda-emulated");
  EXPECT_EQ(cuda::device_number(targets[2]), 2U);
  EXPECT_EQ(targets[2].workers, 1U);
  EXPECT_EQ(targets[2].number("threads"), 3U);
  EXPECT_FALSE(cuda::is_device(parse_targets("shm")[0]));
}

struct bad_url {
  const char* text;
  const char* quoted; ///< the part that the message must quote
  const char* advice; ///< the remedy, or the allowed values, that it must name
};

TEST(parse_targets, mistakes_in_devices_are_refused_with_cause_and_remedy) {
  constexpr bad_url all[] = {
      {"cuda:x", "\"cuda:x\"", "number of the device"},
      {"cuda:65", "\"cuda:65\"", "64"},
      {"cuda:0?cpu=1", "\"cuda:0?cpu=1\"", "threads, idle_ms"},
      {"cuda:0?program=x", "\"cuda:0?program=x\"", "threads, idle_ms"},
      {"cuda:0?workers=17", "\"cuda:0?workers=17\"", "from 1 to 16"},
      {"cuda-emulated:0?workers=65", "\"cuda-emulated:0?workers=65\"", "from 1 to 64"},
      {"cuda:0?threads=33", "\"cuda:0?threads=33\"", "multiple of 32"},
      {"cuda:0?threads=512", "\"cuda:0?threads=512\"", "256"},
      {"cuda-emulated:0?threads=33", "\"cuda-emulated:0?threads=33\"", "32"}};
  for (const bad_url& url : all) {
    EXPECT_THAT([&] { (void)parse_targets(url.text); },
                ThrowsMessage<setting_error>(AllOf(HasSubstr(url.quoted), HasSubstr(url.advice))))
        << url.text;
  }
}

// The program decides how CUDA loads code, and looking for GPUs does not use them.
TEST(find_gpus, leaves_the_environment_alone) {
  for (const char* variable : {"CUDA_MODULE_LOADING", "CUDA_DEVICE_MAX_CONNECTIONS"}) {
    ::unsetenv(variable);
    (void)cuda::find_gpus();
    EXPECT_EQ(std::getenv(variable), nullptr);
  }
}

} // namespace
} // namespace farcall::url_test
