// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/version.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Rows of the table of transports that shared libraries (modules) add. A transport's dependencies,
/// such as UCX or MPI, are then needed only on machines that use the transport.
namespace farcall {

/// Properties on which a program and its modules must agree. Both are C++ code, so that they must
/// be built from one version of farcall, by compilers with one ABI.
struct module_interface {
  std::uint32_t version = 4; ///< incremented with each change of transport_entry.hpp or
                             ///< transport.hpp
  std::uint32_t entry_bytes = sizeof(transport_entry);
  std::uint32_t site_bytes = sizeof(transport_site);
  std::uint32_t library = 0; ///< the C++ standard library, and its ABI

  friend bool operator==(const module_interface&, const module_interface&) = default;
};

/// Returns the interface properties of the code that calls this function.
[[nodiscard]] constexpr module_interface this_interface() noexcept {
  module_interface mine;
#if defined(_LIBCPP_VERSION)
  mine.library = 1U << 24 | _LIBCPP_ABI_VERSION;
#elif defined(_GLIBCXX_USE_CXX11_ABI)
  mine.library = 2U << 24 | _GLIBCXX_USE_CXX11_ABI;
#endif
  return mine;
}

/// Value that a module defines under the symbol named module_symbol.
struct transport_module {
  module_interface built_for = this_interface();
  std::uint32_t release = this_release; ///< of farcall's headers with which the module was built
  transport_entry (*entry)() = nullptr;
};

inline constexpr const char* module_symbol = "farcall_transport_module";

/// Makes a shared library a module, whose table row `function` returns. The module may be linked
/// with the static or the shared library of farcall.
#define FARCALL_TRANSPORT_MODULE(function)                                                         \
  extern "C" __attribute__((visibility("default")))                                                \
  const farcall::transport_module farcall_transport_module;                                        \
  const farcall::transport_module farcall_transport_module {                                       \
    farcall::this_interface(), farcall::this_release, function                                     \
  }

/// Adds the rows of modules to `rows`. `files` is a comma-separated list; each item is a path, or
/// the name of a transport ("ucx") whose module was installed with farcall. The modules stay loaded
/// until the process ends. Throws setting_error that names `what`, the file and the fault.
void add_modules(std::vector<transport_entry>& rows, std::string_view files,
                 const std::string& what);

/// Adds the row of a transport's module if the module was installed with farcall and can be loaded.
/// Otherwise logs the reason at level info.
void add_module_if_present(std::vector<transport_entry>& rows, const std::string& scheme);

/// Returns the absolute paths at which the module of a transport may be installed, the likeliest
/// first. Folders beside this library come first, or beside this program if the library is a part
/// of it. The last one is the folder in which farcall was to be installed.
[[nodiscard]] std::vector<std::string> module_files(const std::string& scheme);

} // namespace farcall
