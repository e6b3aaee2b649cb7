// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/rdma_device.hpp>

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include <unistd.h>

namespace farcall::rdma_device_test {
namespace {

namespace fs = std::filesystem;

class rdma_device : public testing::Test {
 protected:
  rdma_device() : folder_(fs::path(testing::TempDir()) / ("rdma." + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~rdma_device() override { fs::remove_all(folder_); }

  void add_port(const std::string& device, const std::string& port, const std::string& state) {
    const fs::path at = folder_ / device / "ports" / port;
    fs::create_directories(at);
    std::ofstream(at / "state") << state << '\n';
  }
  [[nodiscard]] bool found() const { return has_rdma_device(folder_.string()); }

 private:
  fs::path folder_;
};

TEST_F(rdma_device, is_not_there_without_devices) {
  EXPECT_FALSE(found());
  EXPECT_FALSE(has_rdma_device("/no/such/folder"));
}

TEST_F(rdma_device, counts_once_a_port_is_up) {
  add_port("mlx5_0", "1", "1: DOWN");
  EXPECT_FALSE(found());
  add_port("mlx5_1", "1", "2: INIT");
  add_port("mlx5_1", "2", "4: ACTIVE");
  EXPECT_TRUE(found());
}

} // namespace
} // namespace farcall::rdma_device_test
