#pragma once

namespace ham {

/// Number of a process of the job: 0 is the host.
using node_t = int;

namespace net {
using ham::node_t;
}
namespace offload {
using ham::node_t;
}

} // namespace ham
