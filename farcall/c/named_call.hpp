#pragma once

#include <farcall/call/entry.hpp>
#include <farcall/call/pack.hpp>
#include <farcall/farcall.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

/// What travels when a function is called by its name.
namespace farcall::c {

/// The request. On the wire the number of the function comes last, so that the bytes begin at a
/// multiple of 16.
struct named_call {
  fc_function function = 0;
  std::span<const std::byte> bytes;
};

/// The result as it is sent: nothing but its bytes.
struct sent_result {
  std::span<const std::byte> bytes;
};

/// The result as it is received: owns the bytes. Few lie in the object itself. Move-only; used by
/// one thread at a time.
class call_result {
 public:
  call_result() noexcept = default;
  call_result(const std::byte* from, std::size_t size) : size_(size) {
    std::byte* to = near_;
    if (size > sizeof near_) to = far_ = new std::byte[size];
    if (size != 0) std::memcpy(to, from, size);
  }
  call_result(call_result&& other) noexcept
      : size_(std::exchange(other.size_, 0)), far_(std::exchange(other.far_, nullptr)) {
    std::memcpy(near_, other.near_, sizeof near_);
  }
  call_result& operator=(call_result&& other) noexcept {
    std::swap(size_, other.size_);
    std::swap(far_, other.far_);
    std::swap(near_, other.near_);
    return *this;
  }
  call_result(const call_result&) = delete;
  call_result& operator=(const call_result&) = delete;
  ~call_result() { delete[] far_; }

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {far_ != nullptr ? far_ : near_, size_};
  }

 private:
  std::size_t size_ = 0;
  std::byte* far_ = nullptr;
  alignas(8) std::byte near_[32]{};
};

/// How peers know the handler that finds functions by their names.
extern entry named_entry;

} // namespace farcall::c

namespace farcall {

template <>
struct packer<c::named_call> {
  static constexpr bool has_views = true;
  static void pack(writer& w, const c::named_call& call) {
    w.bytes(call.bytes.data(), call.bytes.size());
    w.bytes(&call.function, sizeof call.function);
  }
  static c::named_call unpack(reader& r) {
    if (r.remaining() < sizeof(fc_function)) {
      throw_message_too_short(sizeof(fc_function), r.remaining());
    }
    c::named_call call;
    const std::size_t n = r.remaining() - sizeof call.function;
    call.bytes = {r.bytes(n), n};
    std::memcpy(&call.function, r.bytes(sizeof call.function), sizeof call.function);
    return call;
  }
};

template <>
struct packer<c::sent_result> {
  static constexpr bool has_views = true;
  static void pack(writer& w, const c::sent_result& result) {
    w.bytes(result.bytes.data(), result.bytes.size());
  }
  static c::sent_result unpack(reader& r) {
    const std::size_t n = r.remaining();
    return {{r.bytes(n), n}};
  }
};

template <>
struct packer<c::call_result> {
  static void pack(writer& w, const c::call_result& result) {
    w.bytes(result.bytes().data(), result.bytes().size());
  }
  static c::call_result unpack(reader& r) {
    const std::size_t n = r.remaining();
    return {r.bytes(n), n};
  }
};

} // namespace farcall
