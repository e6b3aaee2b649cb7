// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iostream>
#include <utility>
#include <vector>

namespace ham::detail {

/// Stack of values that can be allocated and freed. It must be used by one thread at a time.
template <class T>
class resource_pool {
 public:
  using value_type = T;
  using size_type = int;
  using container_type = std::vector<T>;

  resource_pool() = default;
  resource_pool(resource_pool&&) noexcept = default;
  resource_pool& operator=(resource_pool&&) noexcept = default;
  resource_pool(const resource_pool&) = delete;
  resource_pool& operator=(const resource_pool&) = delete;
  ~resource_pool() = default;

  /// Adds a value to the pool.
  void add(T value) { values_.push_back(std::move(value)); }

  /// Takes the value that was added last. If the pool is empty, prints an error message and returns
  /// T().
  [[nodiscard]] T allocate() {
    if (is_exhausted()) return T();
    T taken = std::move(values_.back());
    values_.pop_back();
    return taken;
  }

  /// Returns a copy of the value that allocate() would return next.
  [[nodiscard]] T next() const { return is_exhausted() ? T() : values_.back(); }

  /// Puts a value from allocate() back into the pool.
  void free(T&& value) { values_.push_back(std::move(value)); }
  void free(T& value) { values_.push_back(value); }

 private:
  [[nodiscard]] bool is_exhausted() const {
    if (!values_.empty()) return false;
    std::cerr << "ham: a resource pool is empty; it gives a value that was never added\n";
    return true;
  }

  container_type values_;
};

} // namespace ham::detail
