// SPDX-License-Identifier: Apache-2.0
#include "gpu_code.hpp"

#include <tools/common/outcome.hpp>

namespace farcall::tool {

constinit const gpu_code* linked_gpu_code = nullptr;

const gpu_code& code_for_gpus() {
  if (linked_gpu_code == nullptr) {
    throw usage_problem("this farcall was built without code for GPUs; configure it where nvcc is "
                        "found, or with -DFARCALL_WITH_CUDA=ON to see why it is not");
  }
  return *linked_gpu_code;
}

} // namespace farcall::tool
