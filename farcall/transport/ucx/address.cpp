// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/card.hpp>
#include <farcall/transport/ucx/address.hpp>

#include <algorithm>
#include <cstring>

namespace farcall::ucx {
namespace {

/// Precedes the worker's address.
struct head {
  std::uint64_t key = 0;
  std::uint64_t check = 0; ///< checksum of all other bytes of the address
  std::uint64_t place = 0;
  std::uint32_t has_network = 0;
  std::uint32_t worker_bytes = 0;
};

/// Returns the FNV-1a hash of an address, by which decode_address() detects accidental changes. UCX
/// must not get a damaged address: it reads an address without a bound, and aborts the process if
/// the address is invalid.
std::uint64_t check_of(const head& h, std::span<const std::byte> worker) noexcept {
  std::uint64_t sum = 0xcbf29ce484222325;
  const auto add = [&](std::uint64_t value) { sum = (sum ^ value) * 0x100000001b3; };
  add(h.key);
  add(h.place);
  add(h.has_network);
  add(h.worker_bytes);
  for (const std::byte b : worker)
    add(std::to_integer<std::uint64_t>(b));
  return sum;
}

/// Bounds of the size of a worker's address, in which UCX needs some ten bytes for each network
/// device.
constexpr std::uint32_t min_bytes = 8;
constexpr std::uint32_t max_bytes = 16384;

} // namespace

std::vector<std::byte> encode(const address& a) {
  head h{a.key, 0, a.place, a.has_network ? 1U : 0U, static_cast<std::uint32_t>(a.worker.size())};
  h.check = check_of(h, a.worker);
  std::vector<std::byte> bytes(sizeof h + a.worker.size());
  std::memcpy(bytes.data(), &h, sizeof h);
  std::ranges::copy(a.worker, bytes.begin() + sizeof h);
  return bytes;
}

address decode_address(std::span<const std::byte> bytes) {
  head h;
  if (bytes.size() < sizeof h) throw malformed_message("a node's UCX address is cut short");
  std::memcpy(&h, bytes.data(), sizeof h);
  if (h.worker_bytes != bytes.size() - sizeof h || h.has_network > 1 ||
      h.worker_bytes < min_bytes || h.worker_bytes > max_bytes) {
    throw malformed_message("a node's UCX address has another length than it says");
  }
  const auto worker = bytes.subspan(sizeof h);
  if (h.check != check_of(h, worker)) throw malformed_message("a node's UCX address is damaged");
  return {h.key, h.place, h.has_network != 0, worker};
}

std::uint64_t own_place() {
  std::uint64_t sum = 0;
  for (const char c : network_identity())
    sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return sum;
}

} // namespace farcall::ucx
