// SPDX-License-Identifier: Apache-2.0

// A module that claims to be built for another version of farcall's module interface.

#include <farcall/transport/transport_module.hpp>

namespace {

constexpr farcall::module_interface another() {
  farcall::module_interface i = farcall::this_interface();
  ++i.version;
  return i;
}

} // namespace

extern "C" const farcall::transport_module farcall_transport_module;
const farcall::transport_module farcall_transport_module{another(), 0x123456, nullptr};
