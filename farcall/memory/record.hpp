// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <cstdint>

namespace farcall {

/// Granularity of records in a ring, in bytes. It is so small that two calls or four replies share
/// a line.
inline constexpr std::size_t record_alignment = 16;

/// Kind of a record. The kinds begin at 1, because a commit word of zero means that there is no
/// record yet. The ring itself knows only `pad`; the other kinds are for the layers that read
/// records.
enum class record_kind : std::uint8_t {
  none = 0,
  pad = 1,                ///< fills the end of a ring if it is too short for the next record
  request = 2,            ///< runs a handler
  request_rendezvous = 3, ///< request whose arguments are in the sender's heap
  reply = 4,              ///< result of a handler
  reply_rendezvous = 5,   ///< reply whose result is in the sender's heap
  reply_error = 6,        ///< reply: the handler has thrown an exception; contains the name of the
                          ///< exception's type and its text
  reply_unknown = 7,      ///< reply: the node has no such handler
  stoppable_request = 8,  ///< like request, but the sender may stop it
  stoppable_rendezvous = 9, ///< like request_rendezvous, but the sender may stop it
  refusal = 10,  ///< reply: the responder does not serve this lane; has the reason as text
  lost = 254,    ///< never sent; peek() returns it when the connection has ended
  corrupt = 255, ///< never sent; peek() returns it for bytes that form no record
};

/// First eight bytes of every record (docs/wire.md). `commit` is written last, so that the record
/// becomes visible as a whole. Bits 0..23 of `commit` hold the length of the record in bytes,
/// header included; bits 24..31 hold its kind.
struct record_header {
  std::uint32_t commit;
  std::uint32_t slot;
};
static_assert(sizeof(record_header) == 8 && alignof(record_header) == 4);

/// Size of the largest record of any ring, in bytes.
inline constexpr std::uint32_t max_record = (1U << 24) - 1;

/// Returns the commit word of a record with that length and kind. Storing this word makes the
/// record visible.
[[nodiscard]] constexpr std::uint32_t commit_word(std::uint32_t bytes, record_kind kind) noexcept {
  return bytes | static_cast<std::uint32_t>(kind) << 24;
}
/// Returns the length of a record, header included, from its commit word.
[[nodiscard]] constexpr std::uint32_t commit_bytes(std::uint32_t word) noexcept {
  return word & max_record;
}
/// Returns the kind of a record from its commit word, which may have any of 256 values.
[[nodiscard]] constexpr record_kind commit_kind(std::uint32_t word) noexcept {
  return static_cast<record_kind>(word >> 24);
}

/// A record that was found in a ring. Its length and kind were copied and checked, so they are
/// reliable even if the peer writes to the ring later. The body is not reliable.
struct record_view {
  const std::byte* data = nullptr; ///< header and body, aligned to record_alignment
  std::uint32_t bytes = 0;         ///< header included
  record_kind kind = record_kind::none;

  [[nodiscard]] explicit operator bool() const noexcept { return kind != record_kind::none; }
};

} // namespace farcall
