// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/job/pmi_manager.hpp>
#include <farcall/job/pmix_manager.hpp>
#include <farcall/job/process_manager.hpp>

#include <chrono>
#include <cstdlib>

namespace farcall {
namespace {

/// Time within which a process manager must reply to the first requests, which connect to it.
constexpr std::chrono::seconds time_to_reply{60};

bool is_set(const char* variable) noexcept { return std::getenv(variable) != nullptr; }

} // namespace

process_manager_kind launched_by() noexcept {
  if (is_set("PMIX_RANK") && is_set("PMIX_NAMESPACE")) return process_manager_kind::pmix;
  if (is_set("PMI_FD") || is_set("PMI_PORT")) return process_manager_kind::pmi;
  return process_manager_kind::none;
}

std::unique_ptr<process_manager> find_process_manager(process_manager_kind which) {
  switch (which) {
  case process_manager_kind::pmix:
    return make_pmix_manager();
  case process_manager_kind::pmi:
    return pmi_manager::find(clock::now() + time_to_reply);
  case process_manager_kind::none:
    break;
  }
  return nullptr;
}

} // namespace farcall
