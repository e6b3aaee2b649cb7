// SPDX-License-Identifier: Apache-2.0
#include <farcall/gpu/transport/profiler_range.hpp>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

namespace farcall::cuda {
namespace {

/// Returns farcall's domain of profiler ranges. Returns null without a profiler.
nvtxDomainHandle_t domain() noexcept {
  static auto* const made = nvtxDomainCreateA("farcall");
  return made;
}

} // namespace

profiler_range::profiler_range(const char* what, std::uint64_t bytes) noexcept {
  if (domain() == nullptr) return;
  nvtxEventAttributes_t range{};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.messageType = NVTX_MESSAGE_TYPE_ASCII;
  range.message.ascii = what;
  if (bytes != 0) {
    range.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    range.payload.ullValue = bytes;
  }
  (void)nvtxDomainRangePushEx(domain(), &range);
}

profiler_range::~profiler_range() {
  if (domain() != nullptr) (void)nvtxDomainRangePop(domain());
}

} // namespace farcall::cuda

#else

namespace farcall::cuda {

profiler_range::profiler_range(const char* /*what*/, std::uint64_t /*bytes*/) noexcept {}
profiler_range::~profiler_range() = default;

} // namespace farcall::cuda

#endif
