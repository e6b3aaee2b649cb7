// SPDX-License-Identifier: Apache-2.0
#include <farcall/files/read_ahead.hpp>
#include <farcall/files/transfers.hpp>
#include <farcall/files/user_memory.hpp>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace farcall::files {
namespace {

/// Minimum size in bytes of a piece that is fetched ahead. With larger pieces, the first byte would
/// arrive later; with smaller pieces, there would be more round trips.
constexpr std::size_t min_piece = std::size_t{256} << 10;

} // namespace

void read_ahead::has_read(std::int64_t offset, std::int64_t bytes) noexcept {
  // Drop all pieces, because they may be of another part of the file. This happens if another
  // thread has read elsewhere since the last read.
  pieces_.clear();
  const bool follows = offset == next_ && bytes > 0;
  in_a_row_ = follows ? in_a_row_ + 1 : 0;
  next_ = offset + std::max<std::int64_t>(bytes, 0);
}

void read_ahead::drop() noexcept {
  pieces_.clear();
  in_a_row_ = 0;
}

void read_ahead::ask_for_more(std::size_t at_most) {
  while (pieces_.size() < at_most) {
    piece p;
    if (spare_.empty()) {
      p.memory = std::make_unique_for_overwrite<std::byte[]>(max_piece);
    } else {
      p.memory = std::move(spare_.back());
      spare_.pop_back();
    }
    p.length = piece_bytes_;
    p.landing = std::make_unique<landing_place>(p.memory.get(), p.length);
    p.asked_at = std::chrono::steady_clock::now();
    p.sent = host_requests::send(host_.own_lane(), {.what = operation::read,
                                                    .file = file_,
                                                    .offset = asked_until_,
                                                    .bytes = p.length,
                                                    .landing = p.landing->number()});
    asked_until_ += static_cast<std::int64_t>(p.length);
    pieces_.push_back(std::move(p));
  }
}

/// Copies up to `bytes` bytes of a piece that the program has not read yet. Waits for the piece if
/// it has not arrived. Returns the number of bytes, or -errno.
std::int64_t read_ahead::take(piece& p, std::byte* to, std::size_t bytes) {
  const bool is_direct = !p.got && bytes >= p.length && p.landing->redirect(to);
  if (!p.got) p.got = p.sent.wait();
  if (*p.got <= 0) return *p.got;
  const std::size_t left = static_cast<std::size_t>(*p.got) - p.used;
  const std::size_t taken = std::min(bytes, left);
  if (!is_direct && !copy_to_user(to, p.memory.get() + p.used, taken)) return -EFAULT;
  p.used += taken;
  return static_cast<std::int64_t>(taken);
}

std::optional<std::int64_t> read_ahead::read(void* to, std::size_t bytes, std::int64_t offset) try {
  if (offset != next_ || in_a_row_ == 0) {
    if (!pieces_.empty()) drop();
    return std::nullopt;
  }
  if (!pieces_.empty() &&
      std::chrono::steady_clock::now() - pieces_.front().asked_at > longest_kept)
    pieces_.clear();
  if (pieces_.empty()) asked_until_ = next_;
  piece_bytes_ = std::clamp(bytes, min_piece, max_piece);
  // Keep two pieces in flight at first, which is what one reader may need soon. Each further read
  // adds one piece, up to pieces_in_flight.
  const std::size_t at_once = std::min(in_a_row_ + 1, pieces_in_flight);
  ++in_a_row_;
  std::int64_t done = 0;
  while (static_cast<std::size_t>(done) < bytes) {
    ask_for_more(at_once);
    piece& first = pieces_.front();
    const std::int64_t got =
        take(first, static_cast<std::byte*>(to) + done, bytes - static_cast<std::size_t>(done));
    if (got <= 0) {
      drop();
      next_ += done;
      return done > 0 ? done : got;
    }
    done += got;
    const bool is_short = *first.got < static_cast<std::int64_t>(first.length);
    if (first.used < static_cast<std::size_t>(*first.got)) break;
    if (is_short) {
      // Drop the pieces after a short one. A short piece means the end of the file or an error. The
      // next read asks the host again, and so gets the error.
      drop();
      break;
    }
    spare_.push_back(std::move(first.memory));
    pieces_.pop_front();
  }
  next_ += done;
  return done;
} catch (...) {
  drop();
  throw;
}

} // namespace farcall::files
