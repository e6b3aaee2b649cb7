// A module as an earlier version of farcall would have made it.

#include <farcall/transport/transport_module.hpp>

namespace {

constexpr farcall::module_interface earlier() {
  farcall::module_interface i = farcall::this_interface();
  --i.version;
  return i;
}

} // namespace

extern "C" const farcall::transport_module farcall_transport_module;
const farcall::transport_module farcall_transport_module{earlier(), nullptr};
