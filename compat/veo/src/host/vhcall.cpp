// SPDX-License-Identifier: Apache-2.0
#include "vhcall.hpp"
#include "../vhcall_messages.hpp"
#include "handles.hpp"
#include "processes.hpp"
#include "settings.hpp"

#include "../kernel/vhcall_call.h"
#include "../kernel/vhcall_library.h"

#include <farcall/base/settings_source.hpp>
#include <farcall/call/register_callables.hpp>

#include <cerrno>
#include <cstdlib>
#include <new>
#include <string_view>

/// Identifies the helper process whose kernel called the host function.
struct veos_handle_struct {
  int process = 0;
  bool is_copy = false;
};

namespace farcall::veo {
namespace {

/// Copies bytes between this program and a helper. Returns 0, or a negative errno.
int copy(int identifier, auto&& how) noexcept {
  process* p = process_with(identifier);
  if (p == nullptr) return -ESRCH;
  try {
    how(*p);
    return 0;
  } catch (const std::exception&) {
    return -EFAULT;
  }
}

int fetch(void* handle, void* to, std::uint64_t from, std::size_t bytes) {
  return copy(static_cast<veos_handle*>(handle)->process,
              [&](process& p) { p.get(to, untagged(from), bytes); });
}

int deliver(void* handle, std::uint64_t to, const void* from, std::size_t bytes) {
  return copy(static_cast<veos_handle*>(handle)->process,
              [&](process& p) { p.put(untagged(to), from, bytes); });
}

class library_service final : public vhcall_service {
 public:
  std::int64_t install(const std::string& path) override {
    return vhcall_library_install(path.c_str());
  }
  std::int64_t find(std::uint64_t library, const std::string& symbol) override {
    return vhcall_library_find(library, symbol.c_str());
  }
  std::int64_t invoke(const vhcall_request& r) override {
    veos_handle handle{r.process};
    const vhcall_memory memory{&handle, fetch, deliver};
    return vhcall_call(static_cast<std::uint64_t>(r.symbol), &handle, &memory, r.in, r.in_bytes,
                       r.out, r.out_bytes);
  }
  vhcall_result invoke_with_args(const vhcall_request& r,
                                 std::span<const vhcall_data> args) override {
    veos_handle handle{r.process};
    const vhcall_memory memory{&handle, fetch, deliver};
    vhcall_result result;
    result.status = vhcall_call_with_args(static_cast<std::uint64_t>(r.symbol), &handle, &memory,
                                          args.data(), args.size(), &result.value);
    return result;
  }
  std::int64_t uninstall(std::uint64_t library) override {
    return vhcall_library_uninstall(library);
  }
};

int fail(int error) noexcept {
  if (error == 0) return 0;
  errno = -error;
  return -1;
}

} // namespace

bool serve_vhcall_if_asked() {
  if (settings_source().text(vhcall_setting) != "program") return false;
  register_callables<install_here, find_here, invoke_here, invoke_with_args_here, uninstall_here>();
  static library_service service;
  vhcall_service::instance = &service;
  return true;
}

} // namespace farcall::veo

// Functions of libvepseudo.h, which host functions use when kernels call them.
extern "C" {

int ve_send_data(veos_handle* handle, uint64_t address, size_t size, void* from) {
  if (handle == nullptr) return farcall::veo::fail(-EINVAL);
  return farcall::veo::fail(farcall::veo::deliver(handle, address, from, size));
}

int ve_recv_data(veos_handle* handle, uint64_t address, size_t size, void* to) {
  if (handle == nullptr) return farcall::veo::fail(-EINVAL);
  return farcall::veo::fail(farcall::veo::fetch(handle, to, address, size));
}

int ve_send_data_tid(veos_handle* handle, uint64_t address, size_t size, void* from,
                     pid_t /*tid*/) {
  return ve_send_data(handle, address, size, from);
}

int ve_recv_data_tid(veos_handle* handle, uint64_t address, size_t size, void* to, pid_t /*tid*/) {
  return ve_recv_data(handle, address, size, to);
}

veos_handle* veos_handle_copy(veos_handle* handle) {
  return handle == nullptr ? nullptr : new (std::nothrow) veos_handle{handle->process, true};
}

void veos_handle_free(veos_handle* handle) {
  // Free only copies. The handle that a host function gets as an argument is owned by the caller of
  // the host function.
  if (handle != nullptr && handle->is_copy) delete handle;
}

int64_t ve_vhva_to_vehva(veos_handle* /*handle*/, const void* /*address*/) {
  // Fail, because kernels run in another process and cannot access memory of this process directly.
  return farcall::veo::fail(-ENOTSUP);
}
}
