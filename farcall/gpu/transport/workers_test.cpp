// SPDX-License-Identifier: Apache-2.0

// Tests the monitor, the thread that looks after the workers of a device.

#include <farcall/gpu/transport/system_scope.hpp>
#include <farcall/gpu/transport/workers.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>

namespace farcall::test::workers_test {
namespace {

using namespace std::chrono_literals;
using cuda::load_acquire;
using cuda::store_release;
using cuda::worker_state;

/// A device on which workers start and do nothing.
class idle_device final : public cuda::device_api {
 public:
  [[nodiscard]] cuda::device_description describe() const override { return {}; }
  [[nodiscard]] std::byte* share(std::uint64_t /*bytes*/) override { return nullptr; }
  [[nodiscard]] const std::uint64_t* upload(std::span<const std::uint64_t> /*numbers*/) override {
    return nullptr;
  }
  [[nodiscard]] range reserve(std::uint64_t /*at_most*/) override { return {}; }
  void provide(std::uint64_t /*address*/, std::uint64_t /*bytes*/) override {}
  void start(std::uint32_t /*index*/, const cuda::worker_setup& /*setup*/) override {}
  [[nodiscard]] std::optional<std::string> failure() override { return std::nullopt; }
  void join(std::uint32_t /*index*/) override {}
  void abandon() noexcept override {}
  void launch(std::uint32_t /*stream*/, cuda::launcher /*run*/,
              const cuda::launch_plan& /*plan*/) override {}
  [[nodiscard]] void* stream(std::uint32_t /*index*/) override { return nullptr; }
  [[nodiscard]] std::uint64_t copies_from() const noexcept override { return 0; }
  void copy(std::uint64_t /*to*/, std::uint64_t /*from*/, std::uint64_t /*bytes*/) override {}
};

TEST(workers, are_received_from_once_more_after_they_have_left) {
  idle_device device;
  cuda::worker_control control{};
  cuda::worker_setup setup{};
  setup.control = &control;
  const auto say = [&](worker_state state) {
    store_release(&control.state, static_cast<std::uint32_t>(state));
  };
  cuda::workers all(device, {setup});
  say(worker_state::running);
  std::atomic<bool> has_replied = false;
  std::promise<void> received;
  all.begin({[](std::uint32_t /*worker*/) { return false; }, [] { return false; },
             [&] {
               if (has_replied) {
                 received.set_value();
                 has_replied = false;
               } else if (load_acquire(&control.state) !=
                          static_cast<std::uint32_t>(worker_state::left)) {
                 // The worker replies after this check, and leaves at once.
                 has_replied = true;
                 say(worker_state::left);
               }
             }});
  all.expect_soon();
  EXPECT_EQ(received.get_future().wait_for(20s), std::future_status::ready);
  EXPECT_TRUE(all.stop(clock::now() + 20s));
}

} // namespace
} // namespace farcall::test::workers_test
