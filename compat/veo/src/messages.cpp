// SPDX-License-Identifier: Apache-2.0
#include "messages.hpp"
#include "vhcall_messages.hpp"

#include <farcall/base/error.hpp>

namespace farcall::veo {

helper* helper::instance = nullptr;

helper& this_helper() {
  if (helper::instance == nullptr) throw error("only aveorun runs kernels");
  return *helper::instance;
}

vhcall_service* vhcall_service::instance = nullptr;

vhcall_service& this_vhcall_service() {
  if (vhcall_service::instance == nullptr) throw error("only the program serves VHcall here");
  return *vhcall_service::instance;
}

} // namespace farcall::veo
