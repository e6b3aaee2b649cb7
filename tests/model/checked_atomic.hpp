// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tests/model/explorer.hpp>

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <source_location>
#include <type_traits>

/// Replacements for the parts of <atomic> and <mutex> that the library uses. They report each
/// operation and its place in the code to the explorer.
namespace farcall::check {

template <class T>
[[nodiscard]] std::uint64_t to_word(T value) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  return word;
}

template <class T>
[[nodiscard]] T from_word(std::uint64_t word) noexcept {
  T value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

/// The operations of an atomic whose value is elsewhere. Const, like those in std::atomic_ref.
template <class T>
class operations {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(std::uint64_t));
  using here = std::source_location;

 public:
  static constexpr bool is_always_lock_free = true;

  constexpr explicit operations(T* at) noexcept : at_(at) {}

  T load(std::memory_order order, here where = here::current()) const noexcept {
    if (!is_exploring()) return *at_;
    return from_word<T>(
        atomic_load(at_, to_word(*at_), {where, operation::load, order, std::is_pointer_v<T>}));
  }

  void store(T value, std::memory_order order, here where = here::current()) const noexcept {
    if (is_exploring()) {
      atomic_store(at_, to_word(*at_), to_word(value), {where, operation::store, order});
    }
    *at_ = value;
  }

  T exchange(T value, std::memory_order order, here where = here::current()) const noexcept {
    return update([value](T /*before*/) { return value; }, order, where);
  }
  T fetch_add(T n, std::memory_order order, here where = here::current()) const noexcept {
    return update([n](T before) { return static_cast<T>(before + n); }, order, where);
  }
  T fetch_sub(T n, std::memory_order order, here where = here::current()) const noexcept {
    return update([n](T before) { return static_cast<T>(before - n); }, order, where);
  }
  T fetch_or(T bits, std::memory_order order, here where = here::current()) const noexcept {
    return update([bits](T before) { return static_cast<T>(before | bits); }, order, where);
  }
  T fetch_and(T bits, std::memory_order order, here where = here::current()) const noexcept {
    return update([bits](T before) { return static_cast<T>(before & bits); }, order, where);
  }

  bool compare_exchange_strong(T& expected, T value, std::memory_order order,
                               std::memory_order /*failed*/,
                               here where = here::current()) const noexcept {
    bool is_equal = *at_ == expected;
    T before = *at_;
    if (is_exploring()) {
      before = from_word<T>(atomic_update(at_, to_word(*at_),
                                          [&](std::uint64_t found, std::uint64_t& after) {
                                            is_equal = found == to_word(expected);
                                            after = is_equal ? to_word(value) : found;
                                            return is_equal;
                                          },
                                          {where, operation::update, order}));
    }
    if (is_equal) {
      *at_ = value;
    } else {
      expected = before;
    }
    return is_equal;
  }
  bool compare_exchange_weak(T& expected, T value, std::memory_order order,
                             std::memory_order failed,
                             here where = here::current()) const noexcept {
    return compare_exchange_strong(expected, value, order, failed, where);
  }

 private:
  template <class Change>
  T update(Change change, std::memory_order order, here where) const noexcept {
    T before = *at_;
    if (is_exploring()) {
      before = from_word<T>(atomic_update(at_, to_word(*at_),
                                          [&](std::uint64_t found, std::uint64_t& after) {
                                            after = to_word(change(from_word<T>(found)));
                                            return true;
                                          },
                                          {where, operation::update, order}));
    }
    *at_ = change(before);
    return before;
  }

  T* at_;
};

template <class T>
class atomic_ref : public operations<T> {
 public:
  explicit atomic_ref(T& value) noexcept : operations<T>(&value) {}
};

template <class T>
class atomic {
  using here = std::source_location;
  using all = operations<T>;

 public:
  static constexpr bool is_always_lock_free = true;

  constexpr atomic() noexcept = default;
  // NOLINTNEXTLINE(google-explicit-constructor): as std::atomic
  constexpr atomic(T value) noexcept : value_(value) {}
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;

  T load(std::memory_order order = std::memory_order_seq_cst,
         here where = here::current()) const noexcept {
    return all(&value_).load(order, where);
  }
  void store(T value, std::memory_order order = std::memory_order_seq_cst,
             here where = here::current()) noexcept {
    all(&value_).store(value, order, where);
  }
  T exchange(T value, std::memory_order order, here where = here::current()) noexcept {
    return all(&value_).exchange(value, order, where);
  }
  T fetch_add(T n, std::memory_order order, here where = here::current()) noexcept {
    return all(&value_).fetch_add(n, order, where);
  }
  T fetch_sub(T n, std::memory_order order, here where = here::current()) noexcept {
    return all(&value_).fetch_sub(n, order, where);
  }
  T fetch_or(T bits, std::memory_order order, here where = here::current()) noexcept {
    return all(&value_).fetch_or(bits, order, where);
  }
  T fetch_and(T bits, std::memory_order order, here where = here::current()) noexcept {
    return all(&value_).fetch_and(bits, order, where);
  }
  bool compare_exchange_weak(T& expected, T value, std::memory_order order,
                             std::memory_order failed, here where = here::current()) noexcept {
    return all(&value_).compare_exchange_strong(expected, value, order, failed, where);
  }
  bool compare_exchange_strong(T& expected, T value, std::memory_order order,
                               std::memory_order failed, here where = here::current()) noexcept {
    return all(&value_).compare_exchange_strong(expected, value, order, failed, where);
  }
  bool compare_exchange_strong(T& expected, T value, std::memory_order order,
                               here where = here::current()) noexcept {
    return all(&value_).compare_exchange_strong(expected, value, order, order, where);
  }

  // Operators report no place in the code; their order is seq_cst.
  // NOLINTNEXTLINE(google-explicit-constructor): as std::atomic
  operator T() const noexcept {
    return all(&value_).load(std::memory_order_seq_cst, here::current());
  }
  // NOLINTNEXTLINE(misc-unconventional-assign-operator): as std::atomic
  T operator=(T value) noexcept {
    if (!is_exploring()) value_ = value;
    return value;
  }

 private:
  mutable T value_{};
};

class mutex {
  using here = std::source_location;

 public:
  void lock(here where = here::current()) {
    if (is_exploring()) check::lock(this, {where, operation::lock, std::memory_order_acquire});
  }
  bool try_lock(here where = here::current()) {
    return !is_exploring() ||
           check::try_lock(this, {where, operation::try_lock, std::memory_order_acquire});
  }
  void unlock(here where = here::current()) {
    if (is_exploring()) check::unlock(this, {where, operation::unlock, std::memory_order_release});
  }
};

inline void thread_fence(std::memory_order order,
                         std::source_location where = std::source_location::current()) noexcept {
  if (is_exploring()) fence({where, operation::fence, order});
}

/// Has no effect: a signal fence only restrains the compiler.
inline void signal_fence(std::memory_order /*order*/) noexcept {}

inline void pause_here(std::source_location where = std::source_location::current()) noexcept {
  if (is_exploring()) pause({where, operation::pause, std::memory_order_relaxed});
}

/// Replaces syscall() in farcall/memory/doorbell.cpp.
long system_call(std::source_location where, long number, ...) noexcept;
/// Returns how often scenarios' threads have called membarrier() for their own process.
[[nodiscard]] unsigned private_barriers_passed() noexcept;

} // namespace farcall::check
