// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ham/misc/types.hpp>

#include <cassert>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

namespace ham::net {

[[nodiscard]] node_t this_node();
[[nodiscard]] bool initialised();

/// Description of a node.
class node_descriptor {
 public:
  node_descriptor() = default;
  explicit node_descriptor(std::string name) : name_(std::move(name)) {}
  /// Returns the name of the machine on which the node runs.
  [[nodiscard]] const char* name() const { return name_.c_str(); }

 private:
  std::string name_;
};

/// Pointer to memory on a node. It does not own the memory.
template <class T>
class buffer_ptr {
 public:
  using element_type = T;

  buffer_ptr() : buffer_ptr(nullptr, initialised() ? this_node() : 0) {}
  buffer_ptr(T* ptr, node_t node) : ptr_(ptr), node_(node) {}

  [[nodiscard]] T* get() const { return ptr_; }
  [[nodiscard]] node_t node() const { return node_; }
  /// Returns the element at index `i`. Must be called on the node that has the memory.
  T& operator[](std::size_t i) const {
    assert(node_ == this_node() && "ham: a buffer_ptr is dereferenced on another node");
    return ptr_[i];
  }
  [[nodiscard]] buffer_ptr operator+(std::size_t offset) const { return {ptr_ + offset, node_}; }

  operator buffer_ptr<const T>() const
    requires(!std::is_const_v<T>)
  {
    return {ptr_, node_};
  }
  friend bool operator==(const buffer_ptr&, const buffer_ptr&) = default;

 private:
  T* ptr_;
  node_t node_;
};

} // namespace ham::net
