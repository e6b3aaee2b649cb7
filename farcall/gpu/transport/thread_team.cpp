// SPDX-License-Identifier: Apache-2.0
#include <farcall/gpu/transport/thread_team.hpp>

namespace farcall::cuda {

constinit thread_local thread_team* thread_team::current = nullptr;

} // namespace farcall::cuda
