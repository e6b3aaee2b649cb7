#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings_source.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/files/attach.hpp>

#include <cerrno>

#include <dlfcn.h>

namespace farcall::files {
namespace {

/// Never destroyed: what is written at exit comes later than static objects go.
std::shared_ptr<file_calls>& attached() {
  static auto* const one = new std::shared_ptr<file_calls>;
  return *one;
}

file_calls& files() { return *attached(); }

constexpr farcall_io_table table{
    .version = FARCALL_IO_VERSION,
    .bytes = sizeof(farcall_io_table),
    .is_hosts = [](const char* path) { return files().is_hosts(path) ? 1 : 0; },
    .open = [](const char* path, int flags, std::uint32_t mode,
               farcall_io_opened* opened) { return files().open(path, flags, mode, *opened); },
    .close = [](std::uint64_t file) { return files().close(file); },
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
};

farcall_io_attach_function find_library() noexcept {
  return reinterpret_cast<farcall_io_attach_function>(::dlsym(RTLD_DEFAULT, FARCALL_IO_ATTACH));
}

} // namespace

void attach(const std::shared_ptr<file_calls>& files, bool is_here) {
  const setting& s = settings::row("io-forward");
  const std::string forwards = settings_source().text(s).value_or(settings::default_of(s));
  if (forwards == "never" || (forwards == "auto" && is_here)) return;
  const farcall_io_attach_function to_library = find_library();
  if (to_library == nullptr) {
    throw error("the host lets its targets use files of its own (host_files), and this target has "
                "not loaded the library that does so: start the server by 'farcall serve "
                "--host-files', which preloads libfarcall-io.so, or leave host_files out");
  }
  attached() = files;
  if (to_library(&table) != 0) {
    attached().reset();
    throw error("libfarcall-io.so, which this target has preloaded, is of another version of "
                "farcall; preload the one that was built with it");
  }
  log::debug("files of the host are forwarded");
}

void detach(const file_calls& files) noexcept {
  if (attached().get() != &files) return;
  // The object stays: a call may be on its way to it.
  if (const farcall_io_attach_function to_library = find_library()) (void)to_library(nullptr);
}

} // namespace farcall::files
