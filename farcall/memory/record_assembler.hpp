#pragma once

#include <farcall/memory/record.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

#include <sys/uio.h>

namespace farcall {

/// Puts the bytes of a stream into a ring, where its reader finds whole records and nothing else:
/// the first word of what is not whole yet is kept aside. A position in the stream is a position in
/// the ring. What came is checked as a hostile peer's.
class record_assembler {
 public:
  /// Over a ring that reads as empty.
  record_assembler(std::byte* ring, std::uint32_t bytes) noexcept : ring_(ring), size_(bytes) {}

  using parts = std::array<iovec, 3>;
  /// Where the next bytes go, given how far the reader is. Returns how many parts; none: there is
  /// no space.
  [[nodiscard]] std::size_t space(parts& into, std::uint64_t consumed) noexcept;

  /// `bytes` more have come, into the parts of space(). Shows the reader the records that are whole
  /// now. False when something is no record: the reader has been told, and nothing may follow.
  [[nodiscard]] bool add(std::size_t bytes) noexcept;

  /// The reader finds a mark, `corrupt` or `lost`, behind the last whole record.
  void mark(record_kind kind) noexcept;

  /// In place of each record that the reader has not begun, it finds the mark `lost`. `consumed`
  /// says how far it has read, or less. One that it takes at the same time counts as begun.
  void revoke(std::uint64_t consumed) noexcept;

  /// Position behind the last whole record.
  [[nodiscard]] std::uint64_t whole() const noexcept { return whole_; }
  /// Nothing has come behind it.
  [[nodiscard]] bool is_between_records() const noexcept { return received_ == whole_; }

 private:
  [[nodiscard]] bool is_record(std::uint64_t at, std::uint32_t word) const noexcept;
  void put_word(std::uint64_t position, std::uint32_t word) noexcept;
  [[nodiscard]] std::uint32_t word_at(std::uint64_t position) const noexcept;

  std::byte* ring_;
  std::uint32_t size_;
  /// First word of the record at whole_, which the reader must not see before the rest is there.
  std::uint32_t word_ = 0;
  std::uint64_t whole_ = 0;
  std::uint64_t received_ = 0;
};

} // namespace farcall
