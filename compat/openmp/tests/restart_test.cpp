// SPDX-License-Identifier: Apache-2.0

// Tests of devices that are started again. The plugin of a process keeps its targets, so that these
// tests are a program of their own.
#include "loaded_plugin.hpp"

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::openmp::restart_test {
namespace {

using ::testing::HasSubstr;

/// Waits until a process has ended and the plugin's job has noticed it.
bool is_gone(std::int64_t process) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < limit) {
    if (::kill(static_cast<pid_t>(process), 0) != 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

class openmp_restart : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("FARCALL_TARGETS", "shm", 1);
    ::setenv("FARCALL_OPENMP_RESTART", "1", 1);
    ASSERT_EQ(plugin_.number_of_devices(), 1);
  }

  /// Loads the image. Variables of an image count as memory of the program on the device.
  void load(bool with_variables) {
    if (!with_variables) ++plugin_.image.entries_begin;
    table_ = plugin_.load(0);
    ASSERT_NE(table_, nullptr);
  }

  std::int32_t run(const std::string& name, std::vector<void*> arguments) {
    return plugin_.run(0, loaded_plugin::entry(*table_, name), std::move(arguments));
  }

  std::int64_t process_of_device() {
    std::int64_t process = 0;
    void* const there = plugin_.data_alloc(0, sizeof process, nullptr, 0);
    EXPECT_NE(there, nullptr);
    EXPECT_EQ(run("tell_process_l4", {there}), success);
    EXPECT_EQ(plugin_.data_retrieve(0, &process, there, sizeof process), success);
    EXPECT_EQ(plugin_.data_delete(0, there), success);
    return process;
  }

  void end(std::int64_t process) {
    ASSERT_EQ(::kill(static_cast<pid_t>(process), SIGKILL), 0);
    ASSERT_TRUE(is_gone(process));
  }

  /// Runs an operation that fails, and returns the plugin's line.
  std::string line_of(auto operation) {
    testing::internal::CaptureStderr();
    EXPECT_NE(operation(), success);
    return testing::internal::GetCapturedStderr();
  }

  loaded_plugin plugin_{OPENMP_PLUGIN, OPENMP_IMAGE};
  entry_list* table_ = nullptr;
};

TEST_F(openmp_restart, replaces_a_device_with_nothing_on_it) {
  load(false);
  const std::int64_t first = process_of_device();
  end(first);
  EXPECT_EQ(run("empty_l1", {}), success);
  const std::int64_t second = process_of_device();
  EXPECT_NE(second, first);
  end(second);
  EXPECT_NE(process_of_device(), second) << "an allocation replaces it, too";
}

TEST_F(openmp_restart, keeps_a_device_with_memory_ended) {
  load(false);
  const std::int64_t process = process_of_device();
  void* const mapped = plugin_.data_alloc(0, 8, nullptr, 0);
  ASSERT_NE(mapped, nullptr);
  end(process);
  EXPECT_THAT(line_of([&] { return run("empty_l1", {}); }), HasSubstr("SIGKILL"));
  EXPECT_EQ(plugin_.data_delete(0, mapped), success);
}

TEST_F(openmp_restart, keeps_a_device_with_variables_ended) {
  load(true);
  end(process_of_device());
  EXPECT_THAT(line_of([&] { return run("empty_l1", {}); }), HasSubstr("SIGKILL"));
}

TEST_F(openmp_restart, repeats_no_region) {
  load(false);
  (void)process_of_device();
  EXPECT_THAT(line_of([&] { return run("fault_l5", {}); }), HasSubstr("region in fault, line 5"));
}

} // namespace
} // namespace farcall::openmp::restart_test
