// SPDX-License-Identifier: Apache-2.0

// A profiler that is attached to the program: it records the names of the ranges shown to it.

#include "fake_cuda.hpp"

#include <mutex>
#include <utility>

namespace farcall::fake_cuda {
namespace {

std::mutex ranges_mutex;
profile seen;

} // namespace

profile take_profile() {
  const std::lock_guard guard(ranges_mutex);
  return std::exchange(seen, {});
}

} // namespace farcall::fake_cuda

#if __has_include(<nvtx3/nvToolsExt.h>)
// As in a tool: the program itself has the implementation.
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

namespace farcall::fake_cuda {
namespace {

nvtxDomainHandle_t create(const char* /*name*/) {
  static char domain = 0;
  return reinterpret_cast<nvtxDomainHandle_t>(&domain);
}
int push(nvtxDomainHandle_t /*domain*/, const nvtxEventAttributes_t* range) {
  const std::lock_guard guard(ranges_mutex);
  seen.ranges.emplace(range->message.ascii, range->payload.ullValue);
  return seen.open++;
}
int pop(nvtxDomainHandle_t /*domain*/) {
  const std::lock_guard guard(ranges_mutex);
  return --seen.open;
}

int attach(NvtxGetExportTableFunc_t export_table) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0 ||
      size <= NVTX_CBID_CORE2_DomainCreateA) {
    return 0;
  }
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(&create);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(&push);
  *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(&pop);
  return 1;
}

} // namespace
} // namespace farcall::fake_cuda

extern "C" {
// NOLINTNEXTLINE(readability-identifier-naming): NVTX looks for it
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = &farcall::fake_cuda::attach;
}
#endif
