#pragma once

#include "fabric.hpp"

#include <condition_variable>
#include <cstdlib>
#include <mutex>

namespace farcall::am2 {

/// Of a process that is alone: it has nobody to send to.
class own_fabric final : public fabric {
 public:
  [[nodiscard]] int self() const noexcept override { return 0; }
  [[nodiscard]] int size() const noexcept override { return 1; }
  [[nodiscard]] sending try_send(int /*node*/, const message& /*m*/) noexcept override {
    return sending::unreachable;
  }
  void poll() noexcept override {}
  void wait(std::chrono::nanoseconds most) noexcept override {
    std::unique_lock guard(mutex_);
    woken_.wait_for(guard, most, [&] { return is_woken_; });
    is_woken_ = false;
  }
  void wake() noexcept override {
    {
      const std::lock_guard guard(mutex_);
      is_woken_ = true;
    }
    woken_.notify_one();
  }
  [[nodiscard]] bool put(int /*node*/, std::uint64_t /*address*/, const void* /*from*/,
                         std::size_t /*bytes*/) noexcept override {
    return false;
  }
  [[nodiscard]] void* allocate(std::size_t bytes) noexcept override {
    return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  }
  void release(void* memory) noexcept override { std::free(memory); }
  void close(int /*code*/) noexcept override {}

 private:
  std::mutex mutex_;
  std::condition_variable woken_;
  bool is_woken_ = false;
};

} // namespace farcall::am2
