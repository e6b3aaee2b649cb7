// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/node_id.hpp>

namespace farcall {

constinit thread_local node_id acting_node = no_node;

} // namespace farcall
