// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/responder.hpp>
#include <farcall/call/result.hpp>
#include <farcall/files/file_messages.hpp>
#include <farcall/files/host_reply.hpp>

#include <algorithm>
#include <utility>

namespace farcall::files {

host_reply::~host_reply() {
  if (block_ != nullptr) to_.cancel_rendezvous_reply(block_);
}

std::byte* host_reply::reserve(std::size_t bytes) {
  reserved_ = bytes;
  if (bytes <= max_copied) return near_.data();
  block_ = to_.reserve_rendezvous_reply(sizeof(reply_head) + bytes);
  return block_ + sizeof(reply_head);
}

void host_reply::send(std::int64_t result) {
  std::size_t bytes = 0;
  if (result >= 0)
    bytes = value_bytes_ + std::min(static_cast<std::uint64_t>(result), std::uint64_t{reserved_});
  const reply_head head{result, landing_, bytes};
  const std::size_t all = sizeof head + bytes;
  if (block_ != nullptr && bytes >= max_copied) {
    std::memcpy(block_, &head, sizeof head);
    to_.commit_rendezvous_reply(std::exchange(block_, nullptr), all);
    return;
  }
  if (block_ != nullptr) {
    std::memcpy(near_.data(), block_ + sizeof head, bytes);
    to_.cancel_rendezvous_reply(std::exchange(block_, nullptr));
  }
  const auto write = [&](std::byte* at) {
    std::memcpy(at, &head, sizeof head);
    std::memcpy(at + sizeof head, near_.data(), bytes);
  };
  constexpr std::size_t gap = detail::short_reply_gap;
  if (gap + all <= to_.max_reply()) {
    std::byte* const at = to_.reserve_reply(static_cast<std::uint32_t>(gap + all));
    write(at + gap);
    to_.commit_reply(at, static_cast<std::uint32_t>(gap + all));
    return;
  }
  std::byte* const at = to_.reserve_rendezvous_reply(all);
  write(at);
  to_.commit_rendezvous_reply(at, all);
}

} // namespace farcall::files
