// SPDX-License-Identifier: Apache-2.0

// Functions for names of endpoints in amudp.h. Such a name has the form of a loopback socket
// address.
#include "api_names.hpp"

#include <amudp.h>

#include <arpa/inet.h>
#include <array>
#include <cstring>

namespace {

// The two numbers of the name are stored in the padding of the socket address.
static_assert(sizeof(en_t::sin_zero) == 2 * sizeof(std::int32_t));

farcall::am2::endpoint_name to_name(en_t e) noexcept {
  std::array<std::int32_t, 2> numbers{};
  std::memcpy(numbers.data(), &e.sin_zero, sizeof e.sin_zero);
  return {numbers[0], numbers[1]};
}
en_t from_name(farcall::am2::endpoint_name n) noexcept {
  en_t e{};
  e.sin_family = AF_INET;
  e.sin_port = htons(static_cast<std::uint16_t>(n.endpoint + 1));
  e.sin_addr.s_addr = htonl((127U << 24) + static_cast<std::uint32_t>(n.node) + 1);
  const std::array<std::int32_t, 2> numbers{n.node, n.endpoint};
  std::memcpy(&e.sin_zero, numbers.data(), sizeof e.sin_zero);
  return e;
}

} // namespace

#include "api_names.inc.hpp"

int AMUDP_PoliteSync = 0;
int AMUDP_SetUDPInterface(uint32_t /*ipv4*/) { return AM_OK; }
