#pragma once

#include "fabric.hpp"

#include <cstdlib>

namespace farcall::am2 {

/// Of a process that is alone: it has nobody to send to.
class own_fabric final : public fabric {
 public:
  [[nodiscard]] int self() const noexcept override { return 0; }
  [[nodiscard]] int size() const noexcept override { return 1; }
  [[nodiscard]] sending try_send(int /*node*/, const message& /*m*/) noexcept override {
    return sending::unreachable;
  }
  [[nodiscard]] sending try_send(int /*node*/, const compact_message& /*m*/) noexcept override {
    return sending::unreachable;
  }
  [[nodiscard]] sending try_send(int /*node*/, const compact_message& /*m*/,
                                 const void* /*payload*/,
                                 std::uint64_t /*bytes*/) noexcept override {
    return sending::unreachable;
  }
  void poll() noexcept override {}
  [[nodiscard]] std::thread::id receiving_thread() const noexcept override { return {}; }
  void wait(std::chrono::nanoseconds /*most*/) noexcept override {}
  void wake() noexcept override {}
  void look_for_ends() noexcept override {}
  [[nodiscard]] std::byte* map(int /*node*/, std::uint64_t /*address*/,
                               std::size_t /*bytes*/) noexcept override {
    return nullptr;
  }
  [[nodiscard]] bool put(int /*node*/, std::uint64_t /*address*/, const void* /*from*/,
                         std::size_t /*bytes*/) noexcept override {
    return false;
  }
  [[nodiscard]] void* allocate(std::size_t bytes) noexcept override {
    return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  }
  void release(void* memory) noexcept override { std::free(memory); }
  void survive_ends() noexcept override {}
  void close(int /*code*/) noexcept override {}
};

} // namespace farcall::am2
