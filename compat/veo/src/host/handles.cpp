// SPDX-License-Identifier: Apache-2.0
#include "handles.hpp"
#include "processes.hpp"

#include <farcall/base/fork.hpp>

#include <array>
#include <cstddef>
#include <new>

namespace farcall::veo {
namespace {

template <class T, class Handle>
T& object(Handle* handle, const char* what) {
  if (handle == nullptr) throw invalid_argument(std::string(what) + " is NULL");
  return *reinterpret_cast<T*>(handle);
}

/// Returns the object behind a handle after require_existing(). Remembers the handles that the
/// calling thread has checked, because a check takes longer than the submission of a call.
template <class T, class Handle>
T& existing(Handle* handle, const char* what) {
  struct checked {
    const T* object = nullptr;
    std::uint64_t destroyed = 0;
    std::uint32_t forks = 0;
  };
  constexpr std::size_t remembered = 8;
  thread_local std::array<checked, remembered> all;

  T& found = object<T>(handle, what);
  checked& c =
      all[reinterpret_cast<std::uintptr_t>(&found) / alignof(std::max_align_t) / 8 % remembered];
  const std::uint64_t destroyed = context::destroyed();
  const std::uint32_t forks = fork_generation();
  if (c.object != &found || c.destroyed != destroyed || c.forks != forks) [[unlikely]] {
    require_existing(&found);
    c = {&found, destroyed, forks};
  }
  return found;
}

} // namespace

process& behind(veo_proc_handle* handle) { return existing<process>(handle, "the process handle"); }

context& behind(veo_thr_ctxt* handle) { return existing<context>(handle, "the context"); }

process* named_by(veo_proc_handle* handle) {
  return &object<process>(handle, "the process handle");
}

context* named_by(veo_thr_ctxt* handle) { return &object<context>(handle, "the context"); }

arguments& behind(veo_args* handle) { return object<arguments>(handle, "the arguments object"); }
context_attributes& behind(veo_thr_ctxt_attr* handle) {
  return object<context_attributes>(handle, "the attributes object");
}

void* tagged(const process& p, std::uint64_t address) noexcept {
  return veo_set_proc_identifier(reinterpret_cast<void*>(address), p.identifier());
}

std::uint64_t untagged(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(veo_get_hmem_addr(const_cast<void*>(address)));
}

std::uint64_t untagged(std::uint64_t address) noexcept {
  return untagged(reinterpret_cast<const void*>(address));
}

void keep_error() noexcept {
  const std::string text = current_error();
  try {
    throw;
  } catch (const invalid_argument&) {
    errno = EINVAL;
  } catch (const out_of_memory&) {
    errno = ENOMEM;
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
  } catch (...) {
    errno = EIO;
  }
  report_error(text);
}

} // namespace farcall::veo
