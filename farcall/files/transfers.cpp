// SPDX-License-Identifier: Apache-2.0
#include <farcall/files/transfers.hpp>

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

namespace farcall::files {
namespace {

struct piece {
  std::unique_ptr<landing_place> landing; ///< set for a read
  sent_request sent;
  std::size_t bytes = 0;
};

/// Moves bytes in pieces, several of which are in flight at a time. send_piece(done, length) must
/// send the request for one piece. Returns the number of bytes that were moved, up to and including
/// the first incomplete piece. If no bytes were moved, returns the result of this piece.
template <class SendPiece>
std::int64_t in_pieces(std::size_t bytes, const SendPiece& send_piece) {
  std::deque<piece> under_way;
  std::optional<std::int64_t> failed; // result of the first incomplete piece
  std::int64_t done = 0;
  const auto take_one = [&] {
    const std::int64_t got = under_way.front().sent.wait();
    const bool is_whole = got == static_cast<std::int64_t>(under_way.front().bytes);
    under_way.pop_front();
    if (failed) return;
    if (got > 0) done += got;
    if (!is_whole) failed = got;
  };
  try {
    for (std::size_t begun = 0; begun < bytes && !failed;) {
      if (under_way.size() == pieces_in_flight) {
        take_one();
        continue;
      }
      const std::size_t length = std::min(max_piece, bytes - begun);
      under_way.push_back(send_piece(begun, length));
      begun += length;
    }
    while (!under_way.empty())
      take_one();
  } catch (...) {
    if (done > 0) return done;
    throw;
  }
  return done > 0 || !failed ? done : *failed;
}

std::int64_t moved(std::int64_t offset, std::size_t by) {
  return offset == at_position ? offset : offset + static_cast<std::int64_t>(by);
}

} // namespace

std::uint64_t new_transfer() noexcept {
  static std::atomic<std::uint64_t> last{0};
  // Relaxed, because the numbers need only differ.
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::int64_t read_now(host_requests& host, std::uint64_t file, void* to, std::size_t bytes,
                      std::int64_t offset) {
  // Check the memory before the request, because a copy that fails later would come after the host
  // has moved the file's position.
  if ((offset == at_position || bytes > max_piece) && !is_writable(to, bytes)) return -EFAULT;
  if (bytes <= max_piece) {
    const landing_place landing(to, bytes);
    return host.ask({.what = operation::read,
                     .file = file,
                     .offset = offset,
                     .bytes = bytes,
                     .landing = landing.number()});
  }
  const std::shared_ptr<lane> way = host.own_lane();
  const std::uint64_t transfer = new_transfer();
  return in_pieces(bytes, [&](std::size_t begin, std::size_t length) {
    auto landing = std::make_unique<landing_place>(static_cast<std::byte*>(to) + begin, length);
    sent_request sent = host_requests::send(way, {.what = operation::read,
                                                  .file = file,
                                                  .offset = moved(offset, begin),
                                                  .bytes = length,
                                                  .landing = landing->number(),
                                                  .transfer = transfer});
    return piece{std::move(landing), std::move(sent), length};
  });
}

std::int64_t write_now(host_requests& host, std::uint64_t file, std::span<const std::byte> from,
                       std::int64_t offset) {
  request what{.what = operation::write, .file = file, .offset = offset, .data = from};
  if (from.size() <= max_piece) return host.ask(what);
  const std::shared_ptr<lane> way = host.own_lane();
  what.transfer = new_transfer();
  return in_pieces(from.size(), [&](std::size_t begin, std::size_t length) {
    what.offset = moved(offset, begin);
    what.data = from.subspan(begin, length);
    return piece{nullptr, host_requests::send(way, what), length};
  });
}

} // namespace farcall::files
