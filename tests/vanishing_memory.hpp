// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>

#include <sys/mman.h>

namespace farcall::test {

/// Memory whose middle half goes away again and again, as if another thread unmapped it. The half
/// is replaced by pages without access, so that no other memory of the process gets there. An
/// access that finds no memory is a fault of the process, or an error of the system call.
class vanishing_memory {
 public:
  explicit vanishing_memory(std::size_t bytes)
      : all_(static_cast<std::uint8_t*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
             bytes),
        thread_([this] {
          while (!ends_.load()) {
            replace(PROT_NONE);
            std::this_thread::yield();
            replace(PROT_READ | PROT_WRITE);
            std::this_thread::yield();
            turns_.fetch_add(1);
          }
        }) {}
  vanishing_memory(const vanishing_memory&) = delete;
  vanishing_memory& operator=(const vanishing_memory&) = delete;
  ~vanishing_memory() {
    ends_.store(true);
    thread_.join();
    ::munmap(all_.data(), all_.size());
  }

  [[nodiscard]] std::span<std::uint8_t> bytes() const noexcept { return all_; }
  /// Returns how many times the memory has gone and come back.
  [[nodiscard]] int turns() const noexcept { return turns_.load(); }

 private:
  void replace(int protection) const {
    (void)::mmap(all_.data() + all_.size() / 4, all_.size() / 2, protection,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  }

  std::span<std::uint8_t> all_;
  std::atomic<bool> ends_{false};
  std::atomic<int> turns_{0};
  std::thread thread_;
};

} // namespace farcall::test
