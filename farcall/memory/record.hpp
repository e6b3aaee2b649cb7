#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <cstdint>

namespace farcall {

/// Granularity of records in a ring, in bytes. Two calls or four replies share a line.
inline constexpr std::size_t record_alignment = 16;

/// What a record is. Zero means "nothing here yet", so it is no kind. The ring itself knows only
/// `pad`; the others are for the layers that read records.
enum class record_kind : std::uint8_t {
  none = 0,
  pad = 1,                  ///< fills the end of a ring that is too short for the next record
  request = 2,              ///< runs a handler
  request_rendezvous = 3,   ///< runs a handler on arguments that lie in the sender's heap
  reply = 4,                ///< result of a handler
  reply_rendezvous = 5,     ///< result that lies in the sender's heap
  reply_error = 6,          ///< the handler threw: type name and text
  reply_unknown = 7,        ///< there is no such handler
  stoppable_request = 8,    ///< as request, and the sender may stop it
  stoppable_rendezvous = 9, ///< as request_rendezvous, and the sender may stop it
  refusal = 10,             ///< the responder does not serve this lane: why, as text
  lost = 254,               ///< never sent: what peek() returns when the connection has ended
  corrupt = 255,            ///< never sent: what peek() returns for bytes that are no record
};

/// First eight bytes of every record (docs/wire.md). `commit` is written last and holds the length
/// of the record in bytes, header included (bits 0..23), and its kind (bits 24..31).
struct record_header {
  std::uint32_t commit;
  std::uint32_t slot;
};
static_assert(sizeof(record_header) == 8 && alignof(record_header) == 4);

/// Largest record that a ring can be asked for whatever its size, in bytes.
inline constexpr std::uint32_t largest_record = (1U << 24) - 1;

/// The word that makes a record of that length and kind visible.
[[nodiscard]] constexpr std::uint32_t commit_word(std::uint32_t bytes, record_kind kind) noexcept {
  return bytes | static_cast<std::uint32_t>(kind) << 24;
}
/// Length of a record, header included, from its commit word.
[[nodiscard]] constexpr std::uint32_t commit_bytes(std::uint32_t word) noexcept {
  return word & largest_record;
}
/// Kind of a record from its commit word; any of 256.
[[nodiscard]] constexpr record_kind commit_kind(std::uint32_t word) noexcept {
  return static_cast<record_kind>(word >> 24);
}

/// A record found in a ring. Length and kind were read once and checked against the ring, so they
/// can be relied on whatever the peer writes meanwhile; the body can not.
struct record_view {
  const std::byte* data = nullptr; ///< header and body, aligned to record_alignment
  std::uint32_t bytes = 0;         ///< header included
  record_kind kind = record_kind::none;

  [[nodiscard]] explicit operator bool() const noexcept { return kind != record_kind::none; }
};

} // namespace farcall
