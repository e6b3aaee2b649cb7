// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ham/misc/types.hpp>
#include <ham/offload/offload.hpp>

#include <cstddef>
#include <sstream>
#include <string>
#include <utility>

/// Streams that transfer serialised data to another node. ostream::sync() copies the data into
/// memory of that node. An istream on that node, or on any other node, reads the data.
namespace ham::offload::stream {

/// Base class of both streams. It holds a node, and the address of memory on that node.
class stream_base {
 public:
  explicit stream_base(node_t target) : target_(target) {}
  stream_base(node_t target, const buffer_ptr<byte_t>& memory, std::size_t size)
      : target_(target), memory_(memory), size_(size) {}

  [[nodiscard]] node_t target() const { return target_; }
  [[nodiscard]] buffer_ptr<byte_t> buffer() const { return memory_; }
  void buffer(const buffer_ptr<byte_t>& memory) { memory_ = memory; }
  [[nodiscard]] std::size_t size() const { return size_; }
  void size(std::size_t bytes) { size_ = bytes; }

 private:
  node_t target_;
  buffer_ptr<byte_t> memory_;
  std::size_t size_ = 0;
};

/// Handle of the data of an ostream. It can be passed as an argument or result of a call. Only one
/// istream may be made from a handle, because the istream frees the memory.
class stream_proxy {
 public:
  stream_proxy() = default;
  stream_proxy(const stream_base* stream)
      : target_(stream->target()), memory_(stream->buffer()), size_(stream->size()) {}

 private:
  friend class istream;

  node_t target_ = 0;
  buffer_ptr<byte_t> memory_;
  std::size_t size_ = 0;
};

/// Stream that collects data for the node `target`.
class ostream : public stream_base, public std::ostringstream {
 public:
  explicit ostream(node_t target) : stream_base(target) {}
  /// The argument `expected` has no effect. In HAM it is the number of bytes that will be written.
  ostream(node_t target, std::size_t /*expected*/) : ostream(target) {}

  /// Allocates memory on the target and copies the data that has been written so far into it.
  /// Returns a handle of that memory.
  stream_proxy sync() {
    const std::string bytes = str();
    buffer(offload::allocate<byte_t>(target(), bytes.size()));
    size(bytes.size());
    offload::put_sync(bytes.data(), buffer(), size());
    return {this};
  }
};

/// Stream that reads the data of the ostream from which `proxy` comes. Its destructor frees the
/// memory of the data.
class istream : public stream_base, public std::istringstream {
 public:
  explicit istream(const stream_proxy& proxy)
      : stream_base(proxy.target_, proxy.memory_, proxy.size_) {
    std::string bytes(size(), '\0');
    offload::get_sync(buffer(), bytes.data(), size());
    str(std::move(bytes));
  }
  istream(const istream&) = delete;
  istream& operator=(const istream&) = delete;
  ~istream() override { offload::free(buffer()); }
};

} // namespace ham::offload::stream
