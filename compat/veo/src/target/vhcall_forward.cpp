// SPDX-License-Identifier: Apache-2.0
#include "vhcall_forward.hpp"

#include "../kernel/vhcall_host.h"
#include "../vhcall_messages.hpp"

#include <farcall/async/call.hpp>

#include <atomic>
#include <cerrno>
#include <exception>
#include <future>

namespace farcall::veo {
namespace {

/// Identifier of this process while VHcalls are forwarded to the program; -1 while this process
/// itself is the host of VHcall.
std::atomic<std::int32_t> forwarding{-1};

/// Calls `f` in the program and waits for the result. The call is made on another thread, because a
/// worker thread that waits for a reply may execute the next request of its context meanwhile.
template <class F, class... A>
auto ask_program(const F& f, const A&... arguments) {
  return std::async(std::launch::async, [&] { return sync(host(), f, arguments...); }).get();
}

std::uint64_t address_of(const void* memory) noexcept {
  return reinterpret_cast<std::uintptr_t>(memory);
}

/// Returns the result of `f`, or -EIO if `f` throws, because the callers are C code.
template <class R, class F>
R or_error(F&& f) noexcept {
  try {
    return f();
  } catch (const std::exception&) {
    return static_cast<R>(-EIO);
  }
}

std::int64_t install(const char* path) {
  return or_error<std::int64_t>([&] { return ask_program(install_here{}, std::string(path)); });
}

std::int64_t find(vhcall_handle library, const char* symbol) {
  return or_error<std::int64_t>(
      [&] { return ask_program(find_here{}, std::uint64_t{library}, std::string(symbol)); });
}

std::int64_t invoke(std::int64_t symbol, const void* in, std::size_t in_size, void* out,
                    std::size_t out_size) {
  const vhcall_request r{forwarding, symbol, address_of(in), in_size, address_of(out), out_size};
  return or_error<std::int64_t>([&] { return ask_program(invoke_here{}, r); });
}

int invoke_with_args(std::int64_t symbol, const vhcall_data* args, std::size_t count,
                     std::uint64_t* result) {
  vhcall_request r;
  r.process = forwarding;
  r.symbol = symbol;
  return or_error<int>([&] {
    const vhcall_result got =
        ask_program(invoke_with_args_here{}, r, std::span<const vhcall_data>(args, count));
    *result = got.value;
    return static_cast<int>(got.status);
  });
}

int uninstall(vhcall_handle library) {
  return or_error<int>(
      [&] { return static_cast<int>(ask_program(uninstall_here{}, std::uint64_t{library})); });
}

constexpr vhcall_host program{install, find, invoke, invoke_with_args, uninstall};

} // namespace

void forward_vhcall(std::int32_t identifier) noexcept { forwarding = identifier; }

} // namespace farcall::veo

const vhcall_host* farcall_vhcall_host() {
  return farcall::veo::forwarding < 0 ? nullptr : &farcall::veo::program;
}
