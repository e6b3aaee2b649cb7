// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/memory/ring.hpp>
#include <tests/model/explorer.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace farcall::check {

inline constexpr std::uint32_t ring_bytes = min_ring;

/// A ring of the library that has been used up to position `start`: apart from the terminator, it
/// contains bytes of old records.
class checked_ring {
 public:
  explicit checked_ring(std::uint64_t start = 0) : consumed_(start) {
    std::memset(memory_.data(), 0x5a, memory_.size());
    attach(out, memory_.data(), ring_bytes, consumed_);
    attach(in, memory_.data(), ring_bytes, consumed_);
    out.head = in.tail = in.published = start;
    out.limit = start + std::min(ring_bytes - start % ring_bytes, out.limit);
    const std::uint32_t nothing = 0;
    std::memcpy(memory_.data() + (start & (ring_bytes - 1)), &nothing, sizeof nothing);
  }

  /// Sends record number `n` if there is space.
  bool send(std::uint32_t bytes, std::uint32_t n) {
    const auto fill = [=](std::byte* record) {
      plain_write(record + offsetof(record_header, slot), n);
      if (bytes > sizeof(record_header)) plain_write(record + bytes - sizeof n, ~n);
    };
    if (try_send(out, bytes, record_kind::request, fill)) return true;
    std::byte* const record = try_reserve(out, bytes);
    if (record == nullptr) return false;
    fill(record);
    commit(out, record, bytes, record_kind::request);
    return true;
  }

  enum class way : bool { peek, each };

  /// Takes a record if there is one, and requires it to be number `n`.
  bool receive(execution& run, std::uint32_t bytes, std::uint32_t n, way how = way::peek) {
    const auto check = [&](const std::byte* record, std::uint32_t length) {
      run.require(length == bytes, "a record of another length");
      run.require(plain_read(record + offsetof(record_header, slot)) == n, "another record");
      if (bytes > sizeof(record_header)) {
        run.require(plain_read(record + bytes - sizeof n) == ~n, "a record that is cut");
      }
      return true;
    };
    if (how == way::each) {
      if (receive_each(in, record_kind::request, 1, check) == 1) return true;
      if (!peek(in)) return false;
      // The record is behind a pad, or has arrived since.
      run.require(receive_each(in, record_kind::request, 1, check) == 1, "not what peek() sees");
      return true;
    }
    const record_view record = peek(in);
    if (!record) return false;
    run.require(record.kind == record_kind::request, "a record of another kind");
    check(record.data, record.bytes);
    release(in, record);
    return true;
  }

  outbox out;
  inbox in;

 private:
  alignas(line_bytes) std::array<std::byte, ring_bytes> memory_;
  std::atomic<std::uint64_t> consumed_;
};

} // namespace farcall::check
