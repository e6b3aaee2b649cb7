// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/job/pmix_manager.hpp>

namespace farcall {

bool pmix_is_built_in() noexcept { return false; }

std::unique_ptr<process_manager> make_pmix_manager() {
  throw error("this process was started by PMIx, and farcall was built without its headers: build "
              "farcall where libpmix-dev is installed, or set FARCALL_PROCESS_MANAGER=none to have "
              "each process make a job of its own");
}

} // namespace farcall
