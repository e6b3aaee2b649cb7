// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings_source.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/base/version.hpp>
#include <farcall/files/attach.hpp>
#include <farcall/files/child_server.hpp>
#include <farcall/files/io_socket.h>
#include <farcall/files/io_table.h>
#include <farcall/files/mount_client.hpp>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <dlfcn.h>

namespace farcall::files {
namespace {

struct attachment {
  std::shared_ptr<file_calls> files;
  std::unique_ptr<child_server> children;
  bool is_mounted = false;
};

/// Returns the process's attachment. It is never destroyed, because the library still writes
/// streams at exit, after static objects have been destroyed.
attachment& attached() {
  static auto* const one = new attachment;
  return *one;
}

constexpr farcall_io_table table{
    .version = FARCALL_IO_VERSION,
    .operations = farcall_io_operations,
    .perform = [](const farcall_io_request* asked) { return attached().children->perform(*asked); },
};

farcall_io_attach_function find_library() noexcept {
  return reinterpret_cast<farcall_io_attach_function>(::dlsym(RTLD_DEFAULT, FARCALL_IO_ATTACH));
}

farcall_io_attach_function require_library() {
  if (const farcall_io_attach_function found = find_library(); found != nullptr) return found;
  throw error("the host lets its targets use files of its own (host_files), and this target has "
              "not loaded the library that does so, while files are not the same for both: "
              "preload libfarcall-io.so, as 'farcall run --host-files' and, on other machines, "
              "'farcall serve --host-files' do, or leave host_files out");
}

/// Returns the release of the preloaded library as text. Libraries before 0.1.0 do not tell it.
std::string release_of_library() {
  const auto* const release =
      static_cast<const std::uint32_t*>(::dlsym(RTLD_DEFAULT, FARCALL_IO_RELEASE));
  return release_text(release != nullptr ? *release : 0);
}

/// Mounts the prefixes. Returns false if the preloaded library shall be used instead. Throws error
/// if the user wants mounts, and setting_error.
bool try_to_mount(const std::string& address) {
  const way_of_files way = chosen_way();
  if (way == way_of_files::preload) {
    leave_mount_helper();
    return false;
  }
  if (way == way_of_files::automatic && !has_mount_helper()) {
    log::info("files of the host are used through the preloaded library, because farcall-mount has "
              "not started this process");
    return false;
  }
  const std::string why_not = mount_by_helper(address);
  if (why_not.empty()) {
    log::info("files of the host are used through a mount");
    return true;
  }
  if (way == way_of_files::mount) {
    throw error("files of the host cannot be mounted, as host-files-by asks for: " + why_not +
                "; start targets by 'farcall serve --host-files' or 'farcall run --host-files', on "
                "a machine for which 'farcall info' shows mounts");
  }
  log::warning(
      "files of the host are used through the preloaded library, and not through a mount: " +
      why_not);
  return false;
}

void attach_library(const std::string& address) {
  const farcall_io_attach_function to_library = require_library();
  if (to_library(&table, address.c_str()) != 0) {
    throw error("libfarcall-io.so, which this target has preloaded, is of another version of "
                "farcall: farcall " +
                release_text(this_release) + " in the target, farcall " + release_of_library() +
                " in the library; preload the library of the target's farcall");
  }
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no handler has run yet
  if (::setenv(FARCALL_IO_SOCKET, address.c_str(), 1) != 0)
    throw error("cannot set " FARCALL_IO_SOCKET ": " + reason_text(errno));
  log::debug("files of the host are forwarded");
}

} // namespace

forwarding chosen_forwarding(bool is_here, bool are_same) {
  const setting& s = settings::row("io-forward");
  const std::string wanted = settings_source().text(s).value_or(settings::default_of(s));
  if (wanted == "never" || (wanted == "auto" && are_same)) return forwarding::nothing;
  return is_here && wanted != "always" ? forwarding::descriptors : forwarding::data;
}

void check_library(bool is_near) {
  if (has_mount_helper() && chosen_way() != way_of_files::preload) return;
  if (!is_near && chosen_forwarding(false, false) != forwarding::nothing) (void)require_library();
}

void attach(const std::shared_ptr<file_calls>& files, forwarding kind) {
  attachment& a = attached();
  a = {files, std::make_unique<child_server>(*files)};
  try {
    a.is_mounted = kind == forwarding::data && try_to_mount(a.children->address());
    if (!a.is_mounted) attach_library(a.children->address());
  } catch (...) {
    a = {};
    throw;
  }
}

void detach(const file_calls& files) noexcept {
  attachment& a = attached();
  if (a.files.get() != &files) return;
  if (a.is_mounted) {
    sync_mappings(files.prefixes());
    a.children->finish();
    return;
  }
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the last handler has ended
  (void)::unsetenv(FARCALL_IO_SOCKET);
  if (const farcall_io_attach_function to_library = find_library())
    (void)to_library(nullptr, nullptr);
  // Only finish the server and keep the objects, because another thread may be about to call them.
  a.children->finish();
}

} // namespace farcall::files
