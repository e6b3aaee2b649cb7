// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bench/runner/loopback_peer.hpp>
#include <tools/common/pinning.hpp>

#include <cstddef>
#include <memory>
#include <vector>

namespace farcall::tool {

/// Copies between this process and a second one on another core, without the library: the limit of
/// copies to and from a device.
///
/// The constructors of the derived classes fork, so create the objects before any thread or job is
/// started.
class bare_copies {
 public:
  bare_copies() = default;
  virtual ~bare_copies() = default;
  bare_copies(const bare_copies&) = delete;
  bare_copies& operator=(const bare_copies&) = delete;
  bare_copies(bare_copies&&) = delete;
  bare_copies& operator=(bare_copies&&) = delete;

  /// Wakes the second process, and copies blocks of that size once.
  virtual void begin(std::size_t bytes) = 0;
  /// Copies this process's block to the second process's block, and back.
  virtual void copy_there_and_back() = 0;
  /// Lets the second process sleep.
  virtual void end() = 0;
  [[nodiscard]] virtual const char* name() const = 0;
};

/// Writes to each cache line of a block.
void change_all_lines(std::byte* block, std::size_t bytes) noexcept;

/// Copies between two blocks that both processes map. Each process copies one half.
class mapped_copies final : public bare_copies {
 public:
  mapped_copies(core_pair cores, std::size_t max_bytes);
  ~mapped_copies() override;

  void begin(std::size_t bytes) override;
  void copy_there_and_back() override;
  void end() override;
  [[nodiscard]] const char* name() const override { return "two bare processes"; }

  void copy_there();
  void copy_back();
  /// Lets each process change the whole of its own block.
  void change();

 private:
  void run(std::byte* to, std::byte* from, bool is_change);

  class mapping;
  struct process;

  std::unique_ptr<mapping> blocks_;
  std::unique_ptr<process> process_;
  std::size_t bytes_ = 0;
};

/// Copies over a bare TCP connection over loopback.
class connection_copies final : public bare_copies {
 public:
  explicit connection_copies(core_pair cores) : peer_(cores) {}

  void begin(std::size_t bytes) override;
  void copy_there_and_back() override;
  void end() override { peer_.disconnect(); }
  [[nodiscard]] const char* name() const override { return "bare connection"; }

 private:
  loopback_peer peer_;
  std::vector<std::byte> block_;
};

} // namespace farcall::tool
