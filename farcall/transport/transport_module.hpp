#pragma once

#include <farcall/transport/transport_entry.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Rows of the table of transports that come from shared libraries, so that what a transport is
/// made of (UCX, MPI) is needed only where it is used.
namespace farcall {

/// What a program and its modules must agree on. They are C++ on both sides, so they are built by
/// compilers with one ABI from one version of farcall.
struct module_interface {
  std::uint32_t version = 3; ///< raised with each change of transport_entry.hpp or transport.hpp
  std::uint32_t entry_bytes = sizeof(transport_entry);
  std::uint32_t site_bytes = sizeof(transport_site);
  std::uint32_t library = 0; ///< which standard library, and which layout of it

  friend bool operator==(const module_interface&, const module_interface&) = default;
};

/// That of the code which calls it.
[[nodiscard]] constexpr module_interface this_interface() noexcept {
  module_interface mine;
#if defined(_LIBCPP_VERSION)
  mine.library = 1U << 24 | _LIBCPP_ABI_VERSION;
#elif defined(_GLIBCXX_USE_CXX11_ABI)
  mine.library = 2U << 24 | _GLIBCXX_USE_CXX11_ABI;
#endif
  return mine;
}

/// What a module defines under module_symbol.
struct transport_module {
  module_interface built_for = this_interface();
  transport_entry (*entry)() = nullptr;
};

inline constexpr const char* module_symbol = "farcall_transport_module";

/// Makes a shared library a module: its row is what the function returns. It may be linked with
/// either kind of farcall's library.
#define FARCALL_TRANSPORT_MODULE(function)                                                         \
  extern "C" __attribute__((visibility("default")))                                                \
  const farcall::transport_module farcall_transport_module;                                        \
  const farcall::transport_module farcall_transport_module { farcall::this_interface(), function }

/// Adds the rows of the modules in `files` to `rows`: paths, or names of transports ("ucx"), whose
/// modules were installed with farcall; comma separated. They stay loaded until the process ends.
/// Throws setting_error that names `what`, the file and what is wrong with it.
void add_modules(std::vector<transport_entry>& rows, std::string_view files,
                 const std::string& what);

/// Adds the row of the module of that transport, where one was installed with farcall and can be
/// loaded. Where not, says why in the log, at level info.
void add_module_if_present(std::vector<transport_entry>& rows, const std::string& scheme);

/// Where the module of a transport may be, the likeliest first: beside this library, or this
/// program where the library is a part of it, and where farcall was to be installed. Absolute
/// paths.
[[nodiscard]] std::vector<std::string> module_files(const std::string& scheme);

} // namespace farcall
