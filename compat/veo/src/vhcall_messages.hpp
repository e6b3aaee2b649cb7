// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/call/pack.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <vhcall.h>

/// Requests that the helper program sends to the host program if the host program executes VHcalls.
/// They are calls from the target to the host. All addresses are addresses in the helper process;
/// negative results are negative errno values.
namespace farcall::veo {

struct vhcall_request {
  std::int32_t process = 0; ///< identifier of the helper process that sends the request
  std::int64_t symbol = 0;
  std::uint64_t in = 0;
  std::uint64_t in_bytes = 0;
  std::uint64_t out = 0;
  std::uint64_t out_bytes = 0;
};

struct vhcall_result {
  std::int64_t status = 0;
  std::uint64_t value = 0;
};

/// Requests of VHcall that the host program executes.
class vhcall_service {
 public:
  vhcall_service() = default;
  vhcall_service(const vhcall_service&) = delete;
  vhcall_service& operator=(const vhcall_service&) = delete;
  virtual ~vhcall_service() = default;

  virtual std::int64_t install(const std::string& path) = 0;
  virtual std::int64_t find(std::uint64_t library, const std::string& symbol) = 0;
  virtual std::int64_t invoke(const vhcall_request& r) = 0;
  virtual vhcall_result invoke_with_args(const vhcall_request& r,
                                         std::span<const vhcall_data> args) = 0;
  virtual std::int64_t uninstall(std::uint64_t library) = 0;

  /// The service object of this process; null in helper processes.
  static vhcall_service* instance;
};

/// Returns the service object of this process. Throws error in helper processes.
[[nodiscard]] vhcall_service& this_vhcall_service();

struct install_here {
  std::int64_t operator()(const std::string& path) const {
    return this_vhcall_service().install(path);
  }
};
struct find_here {
  std::int64_t operator()(std::uint64_t library, const std::string& symbol) const {
    return this_vhcall_service().find(library, symbol);
  }
};
struct invoke_here {
  std::int64_t operator()(const vhcall_request& r) const { return this_vhcall_service().invoke(r); }
};
struct invoke_with_args_here {
  vhcall_result operator()(const vhcall_request& r, std::span<const vhcall_data> args) const {
    return this_vhcall_service().invoke_with_args(r, args);
  }
};
struct uninstall_here {
  std::int64_t operator()(std::uint64_t library) const {
    return this_vhcall_service().uninstall(library);
  }
};

} // namespace farcall::veo
