// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/bytes.hpp>
#include <farcall/memory/record_assembler.hpp>
#include <farcall/memory/ring.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace farcall {
namespace {

constexpr std::size_t word_bytes = sizeof(std::uint32_t);

constexpr std::uint64_t record_span(std::uint32_t word) noexcept {
  return align_up(std::uint64_t{commit_bytes(word)}, record_alignment);
}

} // namespace

std::uint32_t record_assembler::word_at(std::uint64_t position) const noexcept {
  return ring_detail::commit_at(ring_, position & (size_ - 1)).load(std::memory_order_relaxed);
}

void record_assembler::put_word(std::uint64_t position, std::uint32_t word) noexcept {
  // Release, paired with the acquire load in peek(), so that the reader sees the bytes of the
  // record.
  ring_detail::commit_at(ring_, position & (size_ - 1)).store(word, std::memory_order_release);
}

void record_assembler::mark(record_kind kind) noexcept { put_word(whole_, commit_word(0, kind)); }

void record_assembler::revoke(std::uint64_t consumed) noexcept {
  mark(record_kind::lost);
  for (std::uint64_t at = consumed; at < whole_;) {
    const std::uint64_t next = at + record_span(word_at(at));
    if (next == at) return; // already revoked
    put_word(at, commit_word(0, record_kind::lost));
    at = next;
  }
}

std::size_t record_assembler::space(parts& into, std::uint64_t consumed) noexcept {
  // Leave one granule of the ring free, because the word that follows the last record is also
  // written.
  const std::uint64_t limit = consumed + size_ - record_alignment;
  std::uint64_t from = received_;
  if (from >= limit) return 0;
  std::size_t count = 0;
  if (const std::uint64_t have = received_ - whole_; have < word_bytes) {
    into[count++] = {reinterpret_cast<std::byte*>(&word_) + have, word_bytes - have};
    from = whole_ + word_bytes;
  }
  if (from >= limit) return count;
  const std::uint64_t offset = from & (size_ - 1);
  const std::uint64_t straight = std::min<std::uint64_t>(limit - from, size_ - offset);
  into[count++] = {ring_ + offset, straight};
  if (limit - from != straight) into[count++] = {ring_, limit - from - straight};
  return count;
}

/// True if `word` can be the first word of a record at position `at`: the record must have a valid
/// length and end before the end of the ring. Any other word ends the stream, because peek() of the
/// reader would find no record.
bool record_assembler::is_record(std::uint64_t at, std::uint32_t word) const noexcept {
  const std::uint64_t span = record_span(word);
  return commit_bytes(word) >= word_bytes && span <= size_ - (at & (size_ - 1)) &&
         (commit_kind(word) == record_kind::pad || span <= record_limit(size_));
}

bool record_assembler::add(std::size_t bytes) noexcept {
  received_ += bytes;
  if (received_ - whole_ < word_bytes) return true;
  const std::uint32_t first = word_;
  std::uint64_t at = whole_;
  bool is_sound = true;
  for (;;) {
    is_sound = is_record(at, word_);
    if (!is_sound || received_ - at < record_span(word_)) break;
    at += record_span(word_);
    const std::uint64_t have = received_ - at;
    if (have < word_bytes) {
      if (have != 0) std::memcpy(&word_, ring_ + (at & (size_ - 1)), have);
      break;
    }
    word_ = word_at(at);
  }
  if (at == whole_) {
    if (!is_sound) mark(record_kind::corrupt);
    return is_sound;
  }
  // Clear the word that follows the whole records, because the next record is not complete. The
  // reader then waits at this word.
  put_word(at, is_sound ? 0 : commit_word(0, record_kind::corrupt));
  const std::uint64_t begin = whole_;
  whole_ = at;
  put_word(begin, first);
  return is_sound;
}

} // namespace farcall
