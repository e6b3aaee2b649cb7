// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floor.hpp"

#include <farcall/base/unique_fd.hpp>
#include <tools/common/forked_process.hpp>

#include <cstddef>
#include <memory>
#include <vector>

namespace farcall::tool {

/// Floor of UCX: the round trip of eight bytes by bare active messages (ucp_am) between two
/// processes, over the transports of UCX_TLS, with both sides polling.
///
/// The constructor forks, so create it before any thread or job is started. The forked process lets
/// two others measure: UCX cannot be used in a child of a process that uses it, such as the host of
/// a job over UCX.
class ucx_floor final : public floor_probe {
 public:
  ucx_floor(core_pair cores, std::size_t batches, std::size_t calls);
  ~ucx_floor() override;
  ucx_floor(const ucx_floor&) = delete;
  ucx_floor& operator=(const ucx_floor&) = delete;
  ucx_floor(ucx_floor&&) = delete;
  ucx_floor& operator=(ucx_floor&&) = delete;

  [[nodiscard]] const char* what() const override {
    return "8 bytes each way by UCX's active messages, both sides polling";
  }

 private:
  std::vector<double> take_samples() override;

  unique_fd to_;
  std::unique_ptr<forked_process> process_;
};

} // namespace farcall::tool
