// SPDX-License-Identifier: Apache-2.0

// A peer sends requests on a connection for copies: puts and gets of shared and other memory, whole
// or in pieces, while it takes the replies or not. Only shared memory is read and written, and a
// peer that follows the protocol gets the right replies.

#include <farcall/transport/tcp/bulk.hpp>
#include <fuzz/memory_stream.hpp>
#include <fuzz/support.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

namespace {

namespace fc = farcall;
namespace tcp = fc::tcp;
using fc::fuzz::require;

/// Two windows of memory, and the memory around them.
class shared_memory {
 public:
  static constexpr std::size_t bytes = 512;

  shared_memory() { memory_.fill(std::byte{'m'}); }

  [[nodiscard]] std::vector<fc::memory_window> windows() const {
    return {{address(64), 128}, {address(256), 192}};
  }
  [[nodiscard]] std::uint64_t address(std::size_t at) const {
    return reinterpret_cast<std::uint64_t>(memory_.data()) + at;
  }
  [[nodiscard]] std::byte* at(std::uint64_t address) {
    return memory_.data() + (address - this->address(0));
  }
  bool operator==(const shared_memory& other) const {
    return std::memcmp(memory_.data(), other.memory_.data(), bytes) == 0;
  }

 private:
  std::array<std::byte, bytes> memory_;
};

/// Expected result of the bytes that the peer has sent.
struct outcome {
  shared_memory memory;
  std::vector<std::byte> replies;

  outcome(std::span<const std::byte> sent, const shared_memory& real) {
    tcp::bulk_request request;
    while (sent.size() >= sizeof request) {
      std::memcpy(&request, sent.data(), sizeof request);
      sent = sent.subspan(sizeof request);
      const bool is_put = request.operation == tcp::bulk_operation::put;
      if (!is_put && request.operation != tcp::bulk_operation::get) return;
      if (!is_shared(request, real)) return;
      std::byte* const there = memory.at(memory.address(0) + (request.address - real.address(0)));
      if (is_put) {
        const auto come = sent.first(std::min<std::size_t>(request.bytes, sent.size()));
        if (!come.empty()) std::memcpy(there, come.data(), come.size());
        sent = sent.subspan(come.size());
        if (come.size() < request.bytes) return;
      }
      const auto reply = std::as_bytes(std::span(&request.bytes, 1));
      replies.insert(replies.end(), reply.begin(), reply.end());
      if (!is_put) replies.insert(replies.end(), there, there + request.bytes);
    }
  }

 private:
  static bool is_shared(const tcp::bulk_request& request, const shared_memory& real) {
    return std::ranges::any_of(real.windows(), [&](const fc::memory_window& w) {
      return request.address >= w.address && request.address - w.address <= w.bytes &&
             request.bytes <= w.bytes - (request.address - w.address);
    });
  }
};

void send_request(fc::fuzz::other_side& peer, const shared_memory& memory, fc::fuzz::script& from) {
  tcp::bulk_request request;
  const std::uint8_t how = from.byte();
  request.operation = static_cast<tcp::bulk_operation>(how < 4 ? how : 1 + how % 2);
  request.address = memory.address(2U * from.byte());
  request.bytes = from.byte();
  if (how >= 0xf0) request.address += std::uint64_t{from.word()} << 32;
  if (how >= 0xf8) request.bytes = ~std::uint64_t{0} - request.address + from.byte();
  peer.send(std::as_bytes(std::span(&request, 1)));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static fc::event_loop loop;
  fc::fuzz::script from(data, size);
  const auto memory = std::make_unique<shared_memory>();
  const auto peer = std::make_shared<fc::fuzz::other_side>();
  const auto first = from.bytes(from.byte() % 8);
  tcp::serve_bulk(loop, std::make_unique<fc::fuzz::memory_stream>(peer), memory->windows(), first);
  while (!from.is_over()) {
    switch (from.byte() % 8) {
    case 0:
    case 1:
      peer->send(from.bytes(from.byte()));
      break;
    case 2:
    case 3:
      send_request(*peer, *memory, from);
      break;
    case 4:
      peer->space = from.byte();
      break;
    case 5:
      peer->space = std::size_t{1} << 20;
      break;
    default:
      loop.turn(fc::clock::now());
    }
  }
  // All transfers run to their end.
  peer->space = std::size_t{1} << 20;
  peer->has_ended = true;
  while (peer.use_count() != 1)
    loop.turn(fc::clock::now());
  const outcome expected(peer->sent, *memory);
  require(*memory == expected.memory);
  require(peer->received.size() == first.size() + expected.replies.size());
  require(std::equal(first.begin(), first.end(), peer->received.begin()));
  require(std::equal(expected.replies.begin(), expected.replies.end(),
                     peer->received.begin() + static_cast<std::ptrdiff_t>(first.size())));
  return 0;
}
