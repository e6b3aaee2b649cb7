#pragma once

#include <iostream>
#include <utility>
#include <vector>

namespace ham::detail {

/// Values that are lent and given back, the last one first. Used by one thread at a time.
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

  /// Gives the pool one value more.
  void add(T value) { values_.push_back(std::move(value)); }

  /// Takes a value out. From an empty pool T(), with a line on standard error.
  [[nodiscard]] T allocate() {
    if (is_exhausted()) return T();
    T taken = std::move(values_.back());
    values_.pop_back();
    return taken;
  }

  /// What allocate() would take; it stays there.
  [[nodiscard]] T next() const { return is_exhausted() ? T() : values_.back(); }

  /// Takes back what allocate() has given.
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
