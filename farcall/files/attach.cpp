#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings_source.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/files/attach.hpp>
#include <farcall/files/child_server.hpp>
#include <farcall/files/io_socket.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include <dlfcn.h>

namespace farcall::files {
namespace {

struct attachment {
  std::shared_ptr<file_calls> files;
  std::unique_ptr<child_server> children;
};

/// Never destroyed: what is written at exit comes later than static objects go.
attachment& attached() {
  static auto* const one = new attachment;
  return *one;
}

file_calls& files() { return *attached().files; }

std::string_view words(const char* path) { return path != nullptr ? path : std::string_view(); }

constexpr farcall_io_table table{
    .version = FARCALL_IO_VERSION,
    .bytes = sizeof(farcall_io_table),
    .is_hosts = [](const char* path) { return files().is_hosts(path) ? 1 : 0; },
    .open =
        [](const char* path, int flags, std::uint32_t mode, farcall_io_opened* opened) {
          return attached().children->open(path, flags, mode, *opened);
        },
    .close = [](std::uint64_t file) { return attached().children->close(file); },
    .read = [](std::uint64_t file, void* to,
               std::size_t bytes) { return files().read(file, to, bytes); },
    .write = [](std::uint64_t file, const void* from,
                std::size_t bytes) { return files().write(file, from, bytes); },
    .pread = [](std::uint64_t file, void* to, std::size_t bytes,
                std::int64_t offset) { return files().pread(file, to, bytes, offset); },
    .pwrite = [](std::uint64_t file, const void* from, std::size_t bytes,
                 std::int64_t offset) { return files().pwrite(file, from, bytes, offset); },
    .seek = [](std::uint64_t file, std::int64_t offset,
               int whence) { return files().seek(file, offset, whence); },
    .set_flags = [](std::uint64_t file, int flags) { return files().set_flags(file, flags); },
    .fstat = [](std::uint64_t file,
                farcall_io_status* status) { return files().fstat(file, *status); },
    .ftruncate = [](std::uint64_t file,
                    std::int64_t size) { return files().ftruncate(file, size); },
    .fsync = [](std::uint64_t file, int data_only) { return files().fsync(file, data_only != 0); },
    .list = [](std::uint64_t file, void* to,
               std::size_t bytes) { return files().list(file, to, bytes); },
    .stat =
        [](const char* path, int follows_link, farcall_io_status* status) {
          return files().stat(path, follows_link != 0, *status);
        },
    .access = [](const char* path, int mode) { return files().access(path, mode); },
    .truncate = [](const char* path, std::int64_t size) { return files().truncate(path, size); },
    .unlink = [](const char* path) { return files().unlink(path); },
    .rmdir = [](const char* path) { return files().rmdir(path); },
    .mkdir = [](const char* path, std::uint32_t mode) { return files().mkdir(path, mode); },
    .rename = [](const char* from, const char* to,
                 std::uint32_t flags) { return files().rename(from, to, flags); },
    .read_link = [](const char* path, char* to,
                    std::size_t bytes) { return files().read_link(path, to, bytes); },
    .link = [](const char* from, const char* to,
               int follows_link) { return files().link(from, to, follows_link != 0); },
    .symlink = [](const char* content, const char* path) { return files().symlink(content, path); },
    .allocate = [](std::uint64_t file, int mode, std::int64_t offset,
                   std::int64_t bytes) { return files().allocate(file, mode, offset, bytes); },
    .set_mode = [](std::uint64_t file, const char* path,
                   std::uint32_t mode) { return files().set_mode(file, words(path), mode); },
    .set_owner =
        [](std::uint64_t file, const char* path, int follows_link, std::uint32_t user,
           std::uint32_t group) {
          return files().set_owner(file, words(path), follows_link != 0, user, group);
        },
    .set_times =
        [](std::uint64_t file, const char* path, int follows_link, const farcall_io_times* times) {
          return files().set_times(file, words(path), follows_link != 0, *times);
        },
    .space = [](std::uint64_t file, const char* path,
                farcall_io_space* space) { return files().space(file, words(path), *space); },
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

} // namespace

forwarding chosen_forwarding(bool is_here, bool are_same) {
  const setting& s = settings::row("io-forward");
  const std::string wanted = settings_source().text(s).value_or(settings::default_of(s));
  if (wanted == "never" || (wanted == "auto" && are_same)) return forwarding::nothing;
  return is_here && wanted != "always" ? forwarding::descriptors : forwarding::data;
}

void check_library(std::string_view scheme) {
  if (scheme != "shm" && chosen_forwarding(false, false) != forwarding::nothing)
    (void)require_library();
}

void attach(const std::shared_ptr<file_calls>& files) {
  const farcall_io_attach_function to_library = require_library();
  attachment& a = attached();
  a = {files, std::make_unique<child_server>(*files)};
  const std::string& address = a.children->address();
  if (to_library(&table, address.c_str()) != 0) {
    a = {};
    throw error("libfarcall-io.so, which this target has preloaded, is of another version of "
                "farcall; preload the one that was built with it");
  }
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no handler has run yet
  if (::setenv(FARCALL_IO_SOCKET, address.c_str(), 1) != 0)
    throw error("cannot set " FARCALL_IO_SOCKET ": " + reason_text(errno));
  log::debug("files of the host are forwarded");
}

void detach(const file_calls& files) noexcept {
  attachment& a = attached();
  if (a.files.get() != &files) return;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the last handler has ended
  (void)::unsetenv(FARCALL_IO_SOCKET);
  if (const farcall_io_attach_function to_library = find_library())
    (void)to_library(nullptr, nullptr);
  // The objects stay: a call may be on its way to them.
  a.children->finish();
}

} // namespace farcall::files
