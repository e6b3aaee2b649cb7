#pragma once

#include "context.hpp"
#include "last_error.hpp"
#include "process.hpp"

#include <ve_offload.h>

#include <cerrno>

/// The C interface's opaque structures, and what its functions do about errors.
namespace farcall::veo {

[[nodiscard]] inline veo_proc_handle* handle_of(process& p) noexcept {
  return reinterpret_cast<veo_proc_handle*>(&p);
}
[[nodiscard]] inline veo_thr_ctxt* handle_of(context& c) noexcept {
  return reinterpret_cast<veo_thr_ctxt*>(&c);
}

/// The objects behind handles. Throw error for NULL, and forked for those of a parent.
[[nodiscard]] process& behind(veo_proc_handle* handle);
[[nodiscard]] context& behind(veo_thr_ctxt* handle);
[[nodiscard]] arguments& behind(veo_args* handle);
[[nodiscard]] context_attributes& behind(veo_thr_ctxt_attr* handle);

/// The addresses of objects that may be gone, which this does not look at. Throw error for NULL.
[[nodiscard]] process* named_by(veo_proc_handle* handle);
[[nodiscard]] context* named_by(veo_thr_ctxt* handle);

/// An address of the process with its tag.
[[nodiscard]] void* tagged(const process& p, std::uint64_t address) noexcept;

/// The address itself. Programs and kernels may give theirs with a tag or without.
[[nodiscard]] std::uint64_t untagged(const void* address) noexcept;
[[nodiscard]] std::uint64_t untagged(std::uint64_t address) noexcept;

/// An argument that cannot be; errno becomes EINVAL.
class invalid_argument : public error {
 public:
  using error::error;
};

/// Keeps the exception that is being handled as the thread's last error, and sets errno.
void keep_error() noexcept;

/// Runs `f`; when it throws, keeps the reason and returns `otherwise`. No exception passes the C
/// functions.
template <class R, class F>
[[nodiscard]] R guarded(R otherwise, F&& f) noexcept {
  try {
    return f();
  } catch (...) {
    keep_error();
    return otherwise;
  }
}

} // namespace farcall::veo
