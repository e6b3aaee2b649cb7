#include "handles.hpp"

#include <new>

namespace farcall::veo {
namespace {

template <class T, class Handle>
T& object(Handle* handle, const char* what) {
  if (handle == nullptr) throw invalid_argument(std::string(what) + " is NULL");
  return *reinterpret_cast<T*>(handle);
}

} // namespace

process& behind(veo_proc_handle* handle) {
  auto& p = object<process>(handle, "the process handle");
  if (p.is_inherited()) [[unlikely]]
    throw forked();
  return p;
}

context& behind(veo_thr_ctxt* handle) {
  auto& c = object<context>(handle, "the context");
  if (c.owner().is_inherited()) [[unlikely]]
    throw forked();
  return c;
}

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
