#pragma once

#include <ham/misc/types.hpp>
#include <ham/offload/offload.hpp>

#include <cstddef>
#include <sstream>
#include <string>
#include <utility>

/// Serialised data on its way to another node: what is written to an ostream lies, after sync(), in
/// the memory of that node, and an istream reads it there, or anywhere else.
namespace ham::offload::stream {

/// What both kinds of stream have: a node, and memory.
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

/// Where the data of an ostream lies: an argument or result. One istream is made of it, which frees
/// the memory.
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

/// Takes data for node `target`.
class ostream : public stream_base, public std::ostringstream {
 public:
  explicit ostream(node_t target) : stream_base(target) {}
  /// `expected`: as many bytes will be written. Accepted, and not needed.
  ostream(node_t target, std::size_t /*expected*/) : ostream(target) {}

  /// Puts what was written so far into memory of the target.
  stream_proxy sync() {
    const std::string bytes = str();
    buffer(offload::allocate<byte_t>(target(), bytes.size()));
    size(bytes.size());
    offload::put_sync(bytes.data(), buffer(), size());
    return {this};
  }
};

/// Gives what was written to the ostream that `proxy` comes from.
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
