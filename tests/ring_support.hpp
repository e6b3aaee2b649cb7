// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/line_aligned_memory.hpp>
#include <farcall/memory/ring.hpp>
#include <tests/support.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace farcall::test {

/// A ring in private memory with both of its ends. Its positions begin at `start`, as if the ring
/// had been in use.
class private_ring {
 public:
  explicit private_ring(std::uint64_t size, std::uint64_t start = 0)
      : memory_(make_line_aligned(size)), consumed_(start) {
    attach(out, base(), size, consumed_);
    attach(in, base(), size, consumed_);
    out.head = start;
    out.limit = start;
    in.tail = start;
    in.published = start;
  }

  [[nodiscard]] std::byte* base() const noexcept { return memory_.get(); }
  [[nodiscard]] std::atomic<std::uint64_t>& consumed() noexcept { return consumed_; }

  /// Overwrites the commit word at `offset`, as a faulty peer might.
  void forge(std::uint64_t offset, std::uint32_t word) noexcept {
    std::memcpy(base() + offset, &word, sizeof word);
  }

  outbox out;
  inbox in;

 private:
  line_aligned_memory memory_;
  std::atomic<std::uint64_t> consumed_;
};

/// Fills a record, except its commit word, with the content that belongs to number `n`.
inline void fill(std::byte* record, std::uint32_t bytes, std::uint64_t n) noexcept {
  for (std::uint32_t at = offsetof(record_header, slot); at < bytes; ++at) {
    record[at] = content(n, at);
  }
}

/// Sends record number `n`: an even one with try_send() if that succeeds, others with reserve and
/// commit. Returns false if the ring is full.
[[nodiscard]] inline bool send(outbox& out, std::uint32_t bytes, std::uint64_t n,
                               record_kind kind = record_kind::request) noexcept {
  if (n % 2 == 0 && try_send(out, bytes, kind, [&](std::byte* to) { fill(to, bytes, n); }))
    return true;
  std::byte* record = try_reserve(out, bytes);
  if (record == nullptr) return false;
  fill(record, bytes, n);
  commit(out, record, bytes, kind);
  return true;
}

/// Returns the first difference between a record and number `n`, or an empty text if there is none.
[[nodiscard]] inline std::string wrong_with(const record_view& record, std::uint32_t bytes,
                                            std::uint64_t n,
                                            record_kind kind = record_kind::request) {
  if (!record) return "nothing arrived";
  if (record.kind != kind) return "its kind is " + std::to_string(static_cast<int>(record.kind));
  if (record.bytes != bytes) return "it has " + std::to_string(record.bytes) + " bytes";
  if (reinterpret_cast<std::uintptr_t>(record.data) % record_alignment != 0) return "not aligned";
  for (std::uint32_t at = offsetof(record_header, slot); at < bytes; ++at) {
    if (record.data[at] != content(n, at)) return "byte " + std::to_string(at) + " differs";
  }
  return {};
}

} // namespace farcall::test
