// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/files/transfers.hpp>
#include <farcall/files/write_behind.hpp>

#include <algorithm>
#include <utility>

namespace farcall::files {
namespace {

constexpr std::size_t max_bytes = pieces_in_flight * max_piece;
constexpr std::size_t max_writes = 64;

} // namespace

void write_behind::take_one() {
  piece first = std::move(under_way_.front());
  under_way_.pop_front();
  bytes_ -= first.bytes;
  const std::int64_t done = host_requests::result_of([&] { return first.sent.wait(); });
  if (done < 0 && error_ == 0) error_ = done;
}

void write_behind::make_space_for(std::size_t bytes) {
  while (!under_way_.empty() && (under_way_.front().sent.is_ready() || bytes_ + bytes > max_bytes ||
                                 under_way_.size() >= max_writes))
    take_one();
}

sent_request write_behind::send(const request& what) {
  try {
    return host_requests::send(way_, what);
  } catch (const out_of_memory&) {
    // The job's memory is used up, but writes in flight use some of it. Wait for these writes,
    // which then free their memory, and send again.
    if (under_way_.empty()) throw;
  }
  wait();
  return host_requests::send(way_, what);
}

void write_behind::wait() {
  while (!under_way_.empty())
    take_one();
}

std::int64_t write_behind::write(std::span<const std::byte> from, std::int64_t offset) {
  for (std::size_t begun = 0; begun < from.size();) {
    const std::size_t length = std::min(max_piece, from.size() - begun);
    make_space_for(length);
    if (error_ != 0) {
      wait();
      return take_error();
    }
    if (under_way_.empty()) {
      way_ = host_.own_lane();
      transfer_ = new_transfer();
    }
    request what{.what = operation::write,
                 .file = file_,
                 .offset = offset,
                 .flags = write_flags::whole,
                 .transfer = transfer_,
                 .data = from.subspan(begun, length)};
    if (offset != at_position) what.offset += static_cast<std::int64_t>(begun);
    under_way_.push_back({send(what), length});
    bytes_ += length;
    begun += length;
  }
  return static_cast<std::int64_t>(from.size());
}

} // namespace farcall::files
