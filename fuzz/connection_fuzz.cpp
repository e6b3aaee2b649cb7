// What anybody can send to a server or a node before and after it is let in: preambles, requests
// for targets, and the bytes of a lane, in pieces of any length.

#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/lane.hpp>
#include <farcall/transport/tcp/remote_target.hpp>
#include <tests/scripted_stream.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

namespace {

void read_messages(const std::vector<std::byte>& bytes) {
  farcall::tcp::preamble first;
  if (bytes.size() >= sizeof first) {
    std::memcpy(&first, bytes.data(), sizeof first);
    (void)farcall::tcp::flaw_of(first);
  }
  try {
    const farcall::target_request request = farcall::decode_request(bytes);
    if (farcall::encode_request(request).size() != farcall::request_body_bytes) std::abort();
  } catch (const farcall::error&) {
    return;
  }
}

void receive_lane(std::vector<std::byte> bytes, std::vector<std::size_t> pieces) {
  static farcall::tcp::reactor loop("fuzz");
  constexpr std::uint32_t ring = farcall::smallest_ring;
  farcall::doorbell wakes;
  const auto lane = std::make_shared<farcall::tcp::stream_endpoint>(loop, ring, wakes,
                                                                    farcall::lane_role::acceptor);
  farcall::endpoint end;
  lane->fill(end);
  lane->attach(
      std::make_unique<farcall::test::scripted_stream>(std::move(bytes), std::move(pieces)), {});
  for (int idle = 0; idle < 3;) {
    lane->on_event(0);
    const farcall::record_view record = farcall::peek(end.in);
    if (!record) {
      ++idle;
      continue;
    }
    if (record.bytes == 0) break;
    if (record.data < end.in.base || record.data + record.bytes > end.in.base + ring) std::abort();
    idle = 0;
    farcall::release(end.in, record);
  }
  lane->cut();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  const std::vector<std::byte> bytes(begin + 4, begin + size);
  read_messages(bytes);
  std::vector<std::size_t> pieces;
  for (std::size_t i = 0; i < 4; ++i)
    pieces.push_back(std::size_t{data[i]} * (i + 1) + 1);
  receive_lane(bytes, pieces);
  return 0;
}
