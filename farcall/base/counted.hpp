// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <atomic>
#include <cstdint>
#include <utility>

namespace farcall {

/// Base class of objects that count their holders. Any thread may hold and release such an object.
class counted {
 public:
  counted() noexcept = default;
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;

 protected:
  ~counted() = default;

 private:
  template <class T>
  friend class counted_ptr;

  std::atomic<std::uint32_t> holders_{0};
};

/// Shared ownership of a T, which derives from counted; the last holder deletes it. Like
/// std::shared_ptr, without the 14,000 lines of <memory> in every program.
template <class T>
class counted_ptr {
 public:
  counted_ptr() noexcept = default;
  explicit counted_ptr(T* held) noexcept : held_(held) { hold(); }
  counted_ptr(const counted_ptr& other) noexcept : held_(other.held_) { hold(); }
  counted_ptr(counted_ptr&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  counted_ptr& operator=(counted_ptr other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~counted_ptr() {
    // Acquire-release: the last holder sees all writes that other holders made before their
    // release.
    if (held_ != nullptr && held_->holders_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      delete held_;
  }

  [[nodiscard]] T* get() const noexcept { return held_; }
  [[nodiscard]] explicit operator bool() const noexcept { return held_ != nullptr; }
  [[nodiscard]] T* operator->() const noexcept { return held_; }
  [[nodiscard]] T& operator*() const noexcept { return *held_; }

 private:
  void hold() noexcept {
    if (held_ != nullptr) held_->holders_.fetch_add(1, std::memory_order_relaxed);
  }

  T* held_ = nullptr;
};

} // namespace farcall
