// SPDX-License-Identifier: Apache-2.0
#include <farcall/gpu/worker.hpp>
#include <farcall/gpu/worker_on_threads.hpp>

namespace farcall::am {

cuda::thread_executor device_worker_on_threads() noexcept {
  return {sizeof(device_team_state),
          [](cuda::thread_team& team, const cuda::worker_setup& setup, void* state) {
            serve_device(team, setup, *static_cast<device_team_state*>(state));
          }};
}

} // namespace farcall::am
