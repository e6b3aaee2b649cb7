// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ham/misc/migratable.hpp>

#include <cstddef>

namespace ham {

/// Number of a process of the job. The host is number 0.
using node_t = int;
/// Bytes of a message.
using msg_buffer_t = char*;
using byte_t = char;

namespace net {
using ham::node_t;
}
namespace offload {
using ham::node_t;
}

} // namespace ham
