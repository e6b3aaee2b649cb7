// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "context.hpp"
#include "last_error.hpp"
#include "process.hpp"

#include <ve_offload.h>

#include <cerrno>

/// Opaque handles of the C interface, and the error handling of its functions.
namespace farcall::veo {

[[nodiscard]] inline veo_proc_handle* handle_of(process& p) noexcept {
  return reinterpret_cast<veo_proc_handle*>(&p);
}
[[nodiscard]] inline veo_thr_ctxt* handle_of(context& c) noexcept {
  return reinterpret_cast<veo_thr_ctxt*>(&c);
}

/// Return the object behind an opaque handle. Throw error if the handle is NULL, or if its context
/// or process has been closed; throw forked if the object was created in the parent process before
/// a fork.
[[nodiscard]] process& behind(veo_proc_handle* handle);
[[nodiscard]] context& behind(veo_thr_ctxt* handle);
[[nodiscard]] arguments& behind(veo_args* handle);
[[nodiscard]] context_attributes& behind(veo_thr_ctxt_attr* handle);

/// Return the address of the object behind a handle without accessing the object, which may have
/// been destroyed already. Throw error if the handle is NULL.
[[nodiscard]] process* named_by(veo_proc_handle* handle);
[[nodiscard]] context* named_by(veo_thr_ctxt* handle);

/// Returns an address in the memory of process `p` with the process's tag.
[[nodiscard]] void* tagged(const process& p, std::uint64_t address) noexcept;

/// Return the address without its tag, if it has one.
[[nodiscard]] std::uint64_t untagged(const void* address) noexcept;
[[nodiscard]] std::uint64_t untagged(std::uint64_t address) noexcept;

/// Stores the text of the exception that is being handled as the calling thread's last error, and
/// sets errno.
void keep_error() noexcept;

/// Runs `f` and returns its result. If `f` throws, stores the exception as the thread's last error
/// and returns `otherwise`. C functions use guarded(), because exceptions must not leave them.
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
