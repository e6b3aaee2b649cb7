// SPDX-License-Identifier: Apache-2.0

// Makes calls on files of the working folder, most of which fail. Prints a line for each call: its
// text without spaces, and its result. The result is the name of an error, "ok" for 0, or a number.
// suites.py compares the lines of a local folder with the lines of a folder of the host.

#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace {

struct row {
  const char* call;
  std::int64_t (*make)();
};

/// Returns 0 for a descriptor, which is closed, and -1 with errno otherwise.
int opened(int fd) {
  if (fd < 0) return -1;
  ::close(fd);
  return 0;
}

int open_of(const char* path, int flags, mode_t mode = 0644) {
  return opened(::open(path, flags, mode));
}
int open_at(int folder, const char* path, int flags, mode_t mode = 0644) {
  return opened(::openat(folder, path, flags, mode));
}

// Descriptors of the table, and a number that is no descriptor.
int both = -1;      // of `file`, for reading and writing
int reads = -1;     // of `file`
int writes = -1;    // of `file`
int appends = -1;   // of `appended`
int folder = -1;    // of `folder`
int path_only = -1; // of `file`, by O_PATH
int gone = -1;      // of a file without a name
constexpr int no_descriptor = 900;

struct stat status;
struct statvfs space;
std::array<char, 8192> bytes;
std::array<iovec, 2> parts{iovec{bytes.data(), 3}, iovec{bytes.data() + 3, 4}};
iovec negative{bytes.data(), SIZE_MAX};
const std::string long_name(NAME_MAX + 1, 'n');
const std::string longest_name(NAME_MAX, 'n');
const std::string long_path = [] {
  std::string made;
  while (made.size() < PATH_MAX)
    made += "folder/../";
  return made + "file";
}();
char* const unmapped = [] {
  // The second page cannot be read.
  auto* const at = static_cast<char*>(
      ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ::mprotect(at + 4096, 4096, PROT_NONE);
  return at + 4096;
}();
// A text without an end before memory that cannot be read.
const char* const endless = static_cast<char*>(std::memset(unmapped - 10, 'x', 10));

// Invalid arguments that the compiler does not know.
const char* volatile no_text = nullptr;
char* volatile no_space = nullptr;
struct stat* volatile no_status = nullptr;
const iovec* volatile no_parts = nullptr;
volatile int less_than_none = -1;
volatile int too_many = IOV_MAX + 1;

timespec times_of[2] = {{1'000'000, 5}, {2'000'000, 7}};
timespec wrong_times[2] = {{1, 2'000'000'000}, {1, 0}};
timespec omitted_times[2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}};
timeval micro_times[2] = {{1, 2'000'000}, {1, 0}};
struct flock whole_write = {F_WRLCK, SEEK_SET, 0, 0, 0};
struct flock wrong_range = {F_WRLCK, SEEK_SET, -5, 0, 0};
struct flock no_lock = {99, SEEK_SET, 0, 0, 0};
loff_t source = 0;
loff_t behind = 2;
off_t sent = 0;

std::int64_t listed(const char* path) {
  DIR* const all = ::opendir(path);
  if (all == nullptr) return -1;
  std::int64_t count = 0;
  while (::readdir(all) != nullptr)
    ++count;
  ::closedir(all);
  return count;
}

std::int64_t stream_of(const char* path, const char* mode) {
  std::FILE* const stream = std::fopen(path, mode);
  if (stream == nullptr) return -1;
  return std::fclose(stream);
}

std::int64_t mapped(std::size_t length, int rights, int flags, int fd, off_t offset) {
  void* const at = ::mmap(nullptr, length, rights, flags, fd, offset);
  if (at == MAP_FAILED) return -1;
  return ::munmap(at, length);
}

std::int64_t real_path(const char* path) {
  char* const found = ::realpath(path, nullptr);
  std::free(found);
  return found == nullptr ? -1 : 0;
}

/// Returns the position after a call, and sets it back.
std::int64_t position_after(std::int64_t /*result*/) {
  const std::int64_t at = ::lseek(both, 0, SEEK_CUR);
  ::lseek(both, 0, SEEK_SET);
  return at;
}

/// Makes the files of the table. Rows begin with the same files, because rows that change names
/// restore them.
void make_files() {
  for (const char* const name : {"file", "other", "appended", "folder/inner", "twice"}) {
    ::mkdir("folder", 0755);
    const int fd = ::open(name, O_RDWR | O_CREAT, 0644);
    if (::write(fd, "0123456789", 10) != 10) std::exit(2);
    ::close(fd);
  }
  ::mkdir("empty", 0755);
  ::mkdir("full", 0755);
  ::mkdir("full/in", 0755);
  ::chmod("folder", 0755);
  if (::symlink("file", "link") != 0 || ::symlink("none", "dangling") != 0 ||
      ::symlink("loop", "loop") != 0 || ::symlink("folder", "to_folder") != 0 ||
      ::link("twice", "twice2") != 0)
    std::exit(3);
  both = ::open("file", O_RDWR);
  reads = ::open("file", O_RDONLY);
  writes = ::open("file", O_WRONLY);
  appends = ::open("appended", O_RDWR | O_APPEND);
  folder = ::open("folder", O_RDONLY | O_DIRECTORY);
  path_only = ::open("file", O_PATH);
  gone = ::open("gone", O_RDWR | O_CREAT, 0644);
  ::unlink("gone");
}

#define ROW(...) {#__VA_ARGS__, [] { return static_cast<std::int64_t>(__VA_ARGS__); }}

const row rows[] = {
    // ---- opening ----
    ROW(open_of("none", O_RDONLY)),
    ROW(open_of("file", O_RDONLY)),
    ROW(open_of("", O_RDONLY)),
    ROW(open_of(no_text, O_RDONLY)),
    ROW(open_of(unmapped, O_RDONLY)),
    ROW(open_of(endless, O_RDONLY)),
    ROW(open_of("file/below", O_RDONLY)),
    ROW(open_of("file/", O_RDONLY)),
    ROW(open_of("none/below", O_RDONLY)),
    ROW(open_of("dangling", O_RDONLY)),
    ROW(open_of("dangling", O_WRONLY | O_CREAT | O_EXCL)),
    ROW(open_of("loop", O_RDONLY)),
    ROW(open_of("link", O_RDONLY | O_NOFOLLOW)),
    ROW(open_of("link", O_PATH | O_NOFOLLOW)),
    ROW(open_of("to_folder", O_RDONLY | O_DIRECTORY | O_NOFOLLOW)),
    ROW(open_of("folder", O_WRONLY)),
    ROW(open_of("folder", O_RDWR)),
    ROW(open_of("folder", O_RDONLY)),
    ROW(open_of("folder", O_RDONLY | O_CREAT)),
    ROW(open_of("folder", O_RDONLY | O_TRUNC)),
    ROW(open_of("file", O_RDONLY | O_DIRECTORY)),
    ROW(open_of("file", O_RDWR | O_CREAT | O_EXCL)),
    ROW(open_of("folder", O_RDONLY | O_CREAT | O_EXCL)),
    ROW(open_of("link", O_RDWR | O_CREAT | O_EXCL)),
    ROW(open_of("new/", O_WRONLY | O_CREAT)),
    ROW(open_of("none/new", O_WRONLY | O_CREAT)),
    ROW(open_of("file/new", O_WRONLY | O_CREAT)),
    ROW(open_of(long_name.c_str(), O_RDONLY)),
    ROW(open_of(long_name.c_str(), O_RDWR | O_CREAT)),
    ROW(open_of(longest_name.c_str(), O_RDONLY)),
    ROW(open_of(long_path.c_str(), O_RDONLY)),
    ROW(open_of("other", O_RDONLY | O_TRUNC)),
    ROW(open_of("other", O_WRONLY | O_TRUNC)),
    ROW(open_of("other", O_ACCMODE)),
    ROW(open_of("other", O_PATH | O_RDWR)),
    ROW(open_of("other/..", O_RDONLY)),
    ROW(open_of("folder/..", O_RDONLY)),
    ROW(open_of("./folder//inner", O_RDONLY)),
    ROW(open_of("folder/../file", O_RDONLY)),
    ROW(open_of("empty/../../none", O_RDONLY)),
    ROW(open_of("made", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC)),
    ROW(open_of("made", O_RDWR | O_APPEND | O_NONBLOCK | O_NOATIME)),
    ROW(open_of("made", O_RDWR | O_SYNC)),
    ROW(open_of("made", O_RDWR | O_DSYNC)),
    ROW(::unlink("made")),
    ROW(opened(::creat("made", 0600))),
    ROW(opened(::creat("folder", 0600))),
    ROW(::unlink("made")),
    ROW(open_at(folder, "inner", O_RDONLY)),
    ROW(open_at(folder, "none", O_RDONLY)),
    ROW(open_at(folder, "", O_RDONLY)),
    ROW(open_at(folder, ".", O_RDONLY)),
    ROW(open_at(both, "inner", O_RDONLY)),
    ROW(open_at(no_descriptor, "inner", O_RDONLY)),
    ROW(open_at(-7, "inner", O_RDONLY)),
    ROW(open_at(path_only, "inner", O_RDONLY)),
    ROW(open_at(folder, "../file", O_RDONLY)),
    ROW(open_at(folder, no_text, O_RDONLY)),
    ROW(listed("folder")),
    ROW(listed("none")),
    ROW(listed("file")),
    ROW(listed("dangling")),
    ROW(listed("")),
    ROW(stream_of("none", "r")),
    ROW(stream_of("file", "r")),
    ROW(stream_of("file", "rx")),
    ROW(stream_of("file", "wx")),
    ROW(stream_of("file", "q")),
    ROW(stream_of("folder", "w")),
    ROW(stream_of("folder", "r")),
    ROW(stream_of("", "r")),
    ROW(stream_of("file/below", "r")),

    // ---- reading ----
    ROW(::read(both, bytes.data(), 0)),
    ROW(::read(writes, bytes.data(), 1)),
    ROW(::read(no_descriptor, bytes.data(), 1)),
    ROW(::read(-1, bytes.data(), 1)),
    ROW(::read(folder, bytes.data(), 1)),
    ROW(::read(path_only, bytes.data(), 1)),
    ROW(::read(both, no_space, 1)),
    ROW(::read(both, unmapped, 1)),
    ROW(position_after(::read(both, unmapped, 5))),
    ROW(::read(both, unmapped - 3, 3)),
    ROW(position_after(0)),
    ROW(::pread(both, bytes.data(), 5, 0)),
    ROW(::pread(both, bytes.data(), 50, 3)),
    ROW(::pread(both, bytes.data(), 5, 10)),
    ROW(::pread(both, bytes.data(), 5, 1000)),
    ROW(::pread(both, bytes.data(), 5, -1)),
    ROW(::pread(both, bytes.data(), 5, INT64_MAX)),
    ROW(::pread(writes, bytes.data(), 5, 0)),
    ROW(::pread(no_descriptor, bytes.data(), 5, 0)),
    ROW(::pread(folder, bytes.data(), 5, 0)),
    ROW(::pread(both, unmapped, 5, 0)),
    ROW(::pread(both, unmapped, 5, 100)),
    ROW(::pread(both, nullptr, 0, 0)),
    ROW(::readv(both, parts.data(), 2)),
    ROW(position_after(0)),
    ROW(::readv(both, parts.data(), 0)),
    ROW(::readv(both, parts.data(), less_than_none)),
    ROW(::readv(both, parts.data(), too_many)),
    ROW(::readv(both, no_parts, 1)),
    ROW(::readv(both, &negative, 1)),
    ROW(::readv(writes, parts.data(), 2)),
    ROW(::preadv(both, parts.data(), 2, 6)),
    ROW(::preadv(both, parts.data(), 2, -1)),
    ROW(::preadv(no_descriptor, parts.data(), 2, 0)),
    ROW(::preadv2(both, parts.data(), 2, 0, 0)),
    ROW(::preadv2(both, parts.data(), 2, 0, 1 << 30)),

    // ---- writing ----
    ROW(::write(both, "", 0)),
    ROW(::write(reads, "x", 1)),
    ROW(::write(no_descriptor, "x", 1)),
    ROW(::write(folder, "x", 1)),
    ROW(::write(path_only, "x", 1)),
    ROW(::write(both, no_text, 1)),
    ROW(::write(both, unmapped, 1)),
    ROW(position_after(::write(both, unmapped, 5))),
    ROW(::pwrite(both, "0123", 4, 0)),
    ROW(::pwrite(both, "x", 1, -1)),
    ROW(::pwrite(reads, "x", 1, 0)),
    ROW(::pwrite(both, unmapped, 5, 0)),
    ROW(::pwrite(both, "x", 1, INT64_MAX)),
    ROW(::pwrite(both, nullptr, 0, 0)),
    ROW(::writev(both, parts.data(), 0)),
    ROW(::writev(both, parts.data(), less_than_none)),
    ROW(::writev(both, parts.data(), too_many)),
    ROW(::writev(both, no_parts, 1)),
    ROW(::writev(reads, parts.data(), 2)),
    ROW(::pwritev(both, parts.data(), 2, -1)),
    ROW(::pwritev(both, parts.data(), 0, 0)),
    ROW(::pwritev(reads, parts.data(), 2, 0)),
    ROW(::pwritev2(both, parts.data(), 2, 0, 1 << 30)),
    ROW(::write(appends, "end", 3)),
    ROW(::lseek(appends, 0, SEEK_CUR)),
    ROW(::pwrite(appends, "end", 3, 0)),
    ROW(::lseek(appends, 0, SEEK_END)),
    ROW(::read(appends, bytes.data(), 1)),
    ROW(::write(gone, "text", 4)),
    ROW(::pread(gone, bytes.data(), 10, 0)),

    // ---- positions and sizes ----
    ROW(::lseek(both, 4, SEEK_SET)),
    ROW(::lseek(both, -5, SEEK_CUR)),
    ROW(::lseek(both, 0, SEEK_CUR)),
    ROW(::lseek(both, -1, SEEK_SET)),
    ROW(::lseek(both, 0, 99)),
    ROW(::lseek(both, 0, -1)),
    ROW(::lseek(both, -11, SEEK_END)),
    ROW(::lseek(both, 5, SEEK_END)),
    ROW(::lseek(both, 5, SEEK_SET)),
    ROW(::lseek(both, INT64_MAX, SEEK_CUR)),
    ROW(position_after(0)),
    ROW(::lseek(no_descriptor, 0, SEEK_SET)),
    ROW(::lseek(path_only, 0, SEEK_SET)),
    ROW(::lseek(both, 100, SEEK_DATA)),
    ROW(::lseek(both, 100, SEEK_HOLE)),
    ROW(::lseek(both, 0, SEEK_HOLE)),
    ROW(position_after(0)),
    ROW(::ftruncate(both, -1)),
    ROW(::ftruncate(reads, 5)),
    ROW(::ftruncate(folder, 5)),
    ROW(::ftruncate(no_descriptor, 5)),
    ROW(::ftruncate(path_only, 5)),
    ROW(::ftruncate(both, 10)),
    ROW(::truncate("none", 5)),
    ROW(::truncate("folder", 5)),
    ROW(::truncate("file", -1)),
    ROW(::truncate("file/below", 5)),
    ROW(::truncate("dangling", 5)),
    ROW(::truncate("loop", 5)),
    ROW(::truncate("", 5)),
    ROW(::truncate(no_text, 5)),
    ROW(::truncate("file", 10)),
    ROW(::truncate("file", INT64_MAX)),
    ROW(::posix_fallocate(both, 0, 0)),
    ROW(::posix_fallocate(both, -1, 5)),
    ROW(::posix_fallocate(both, 0, -5)),
    ROW(::posix_fallocate(reads, 0, 5)),
    ROW(::posix_fallocate(no_descriptor, 0, 5)),
    ROW(::fallocate(both, 0, -1, 5)),
    ROW(::fallocate(both, 0, 0, 0)),
    ROW(::fallocate(reads, 0, 0, 5)),
    ROW(::fallocate(folder, 0, 0, 5)),
    ROW(::fallocate(both, FALLOC_FL_PUNCH_HOLE, 0, 5)),
    ROW(::fallocate(both, 0, 0, 5)),
    ROW(::fallocate(both, FALLOC_FL_KEEP_SIZE, 0, 100)),
    ROW(::fallocate(both, 0, INT64_MAX - 5, 100)),
    ROW(::fsync(both)),
    ROW(::fsync(reads)),
    ROW(::fsync(folder)),
    ROW(::fsync(no_descriptor)),
    ROW(::fsync(path_only)),
    ROW(::fdatasync(both)),
    ROW(::fdatasync(no_descriptor)),
    ROW(::syncfs(both)),
    ROW(::syncfs(no_descriptor)),
    ROW(::sync_file_range(both, 0, 5, 0)),
    ROW(::sync_file_range(both, -1, 5, 0)),
    ROW(::sync_file_range(both, 0, 5, 64)),
    ROW(::posix_fadvise(both, 0, 0, POSIX_FADV_NORMAL)),
    ROW(::posix_fadvise(both, 0, 0, 99)),
    ROW(::posix_fadvise(no_descriptor, 0, 0, 0)),

    // ---- status ----
    ROW(::stat("none", &status)),
    ROW(::stat("file", &status)),
    ROW(status.st_size),
    ROW(status.st_nlink),
    ROW(::stat("file", no_status)),
    ROW(::stat(no_text, &status)),
    ROW(::stat("", &status)),
    ROW(::stat("file/", &status)),
    ROW(::stat("file/.", &status)),
    ROW(::stat("dangling", &status)),
    ROW(::stat("loop", &status)),
    ROW(::stat("loop/x", &status)),
    ROW(::stat(long_name.c_str(), &status)),
    ROW(::stat(long_path.c_str(), &status)),
    ROW(::stat("folder/", &status)),
    ROW(::lstat("dangling", &status)),
    ROW(status.st_size),
    ROW(status.st_mode),
    ROW(::lstat("to_folder/", &status)),
    ROW(::lstat("none", &status)),
    ROW(::fstat(no_descriptor, &status)),
    ROW(::fstat(both, no_status)),
    ROW(::fstat(path_only, &status)),
    ROW(::fstat(gone, &status)),
    ROW(status.st_nlink),
    ROW(::stat("twice", &status)),
    ROW(status.st_nlink),
    ROW(::fstatat(folder, "inner", &status, 0)),
    ROW(::fstatat(folder, "", &status, 0)),
    ROW(::fstatat(folder, "", &status, AT_EMPTY_PATH)),
    ROW(::fstatat(both, "x", &status, 0)),
    ROW(::fstatat(no_descriptor, "x", &status, 0)),
    ROW(::fstatat(folder, "inner", &status, 1 << 30)),
    ROW(::fstatat(AT_FDCWD, "link", &status, AT_SYMLINK_NOFOLLOW)),
    ROW(status.st_size),
    ROW(::access("none", F_OK)),
    ROW(::access("file", R_OK | W_OK)),
    ROW(::access("file", 99)),
    ROW(::access("file", X_OK)),
    ROW(::access("dangling", F_OK)),
    ROW(::access("file/x", F_OK)),
    ROW(::access(no_text, F_OK)),
    ROW(::access("", F_OK)),
    ROW(::faccessat(folder, "inner", R_OK, 0)),
    ROW(::faccessat(both, "inner", R_OK, 0)),
    ROW(::faccessat(AT_FDCWD, "dangling", F_OK, AT_SYMLINK_NOFOLLOW)),
    ROW(::faccessat(folder, "inner", R_OK, 1 << 30)),
    ROW(::readlink("link", bytes.data(), 100)),
    ROW(::readlink("link", bytes.data(), 2)),
    ROW(::readlink("link", bytes.data(), 0)),
    ROW(::readlink("file", bytes.data(), 100)),
    ROW(::readlink("none", bytes.data(), 100)),
    ROW(::readlink("folder", bytes.data(), 100)),
    ROW(::readlink("link", no_space, 100)),
    ROW(::readlinkat(folder, "inner", bytes.data(), 100)),
    ROW(::readlinkat(no_descriptor, "inner", bytes.data(), 100)),
    ROW(real_path("none")),
    ROW(real_path("file/x")),
    ROW(real_path("")),
    ROW(real_path("loop")),
    ROW(real_path("link")),
    ROW(real_path("to_folder/inner")),
    ROW(::statvfs("none", &space)),
    ROW(::statvfs("file", &space)),
    ROW(::fstatvfs(both, &space)),
    ROW(::fstatvfs(no_descriptor, &space)),
    ROW(::pathconf("file", _PC_NAME_MAX)),
    ROW(::fpathconf(both, _PC_NAME_MAX)),

    // ---- names ----
    ROW(::mkdir("folder", 0755)),
    ROW(::mkdir("file", 0755)),
    ROW(::mkdir("none/x", 0755)),
    ROW(::mkdir("file/x", 0755)),
    ROW(::mkdir("", 0755)),
    ROW(::mkdir(no_text, 0755)),
    ROW(::mkdir("dangling", 0755)),
    ROW(::mkdir(".", 0755)),
    ROW(::mkdir("..", 0755)),
    ROW(::mkdir(long_name.c_str(), 0755)),
    ROW(::mkdirat(folder, "made", 0755)),
    ROW(::mkdirat(both, "made", 0755)),
    ROW(::mkdirat(no_descriptor, "made", 0755)),
    ROW(::rmdir("folder/made/")),
    ROW(::rmdir("none")),
    ROW(::rmdir("file")),
    ROW(::rmdir("full")),
    ROW(::rmdir("to_folder")),
    ROW(::rmdir("")),
    ROW(::rmdir("empty/.")),
    ROW(::rmdir("full/in/..")),
    ROW(::unlink("none")),
    ROW(::unlink("folder")),
    ROW(::unlink("file/")),
    ROW(::unlink("file/x")),
    ROW(::unlink("")),
    ROW(::unlink(no_text)),
    ROW(::unlink(long_name.c_str())),
    ROW(::unlinkat(folder, "none", 0)),
    ROW(::unlinkat(AT_FDCWD, "folder", AT_REMOVEDIR)),
    ROW(::unlinkat(AT_FDCWD, "file", AT_REMOVEDIR)),
    ROW(::unlinkat(folder, "inner", 1 << 30)),
    ROW(std::remove("none")),
    ROW(std::remove("full")),
    ROW(::rename("none", "x")),
    ROW(::rename("file", "folder")),
    ROW(::rename("folder", "file")),
    ROW(::rename("folder", "full")),
    ROW(::rename("full", "full/in/x")),
    ROW(::rename("file", "file")),
    ROW(::rename("twice", "twice2")),
    ROW(::rename("file", "none/x")),
    ROW(::rename("file", "file/x")),
    ROW(::rename("", "x")),
    ROW(::rename("file", "")),
    ROW(::rename(no_text, "x")),
    ROW(::rename(".", "x")),
    ROW(::rename("folder/.", "x")),
    ROW(::rename("file", "x/")),
    ROW(::rename("file/", "x")),
    ROW(::rename("file", long_name.c_str())),
    ROW(::rename("empty", "emptied")),
    ROW(::rename("emptied", "empty")),
    ROW(::renameat(folder, "inner", folder, "moved")),
    ROW(::renameat(folder, "moved", folder, "inner")),
    ROW(::renameat2(AT_FDCWD, "file", AT_FDCWD, "other", RENAME_NOREPLACE)),
    ROW(::renameat2(AT_FDCWD, "file", AT_FDCWD, "none", RENAME_EXCHANGE)),
    ROW(::renameat2(AT_FDCWD, "file", AT_FDCWD, "other", RENAME_NOREPLACE | RENAME_EXCHANGE)),
    ROW(::renameat2(AT_FDCWD, "file", AT_FDCWD, "other", 1 << 20)),
    ROW(::link("none", "x")),
    ROW(::link("file", "other")),
    ROW(::link("folder", "x")),
    ROW(::link("file", "none/x")),
    ROW(::link("", "x")),
    ROW(::link("file", "")),
    ROW(::link("dangling", "hard")),
    ROW(::unlink("hard")),
    ROW(::link("file", "folder/hard")),
    ROW(::unlink("folder/hard")),
    ROW(::linkat(AT_FDCWD, "dangling", AT_FDCWD, "x", AT_SYMLINK_FOLLOW)),
    ROW(::linkat(no_descriptor, "file", AT_FDCWD, "x", 0)),
    ROW(::linkat(AT_FDCWD, "file", AT_FDCWD, "x", 1 << 30)),
    ROW(::symlink("x", "file")),
    ROW(::symlink("", "empty_link")),
    ROW(::symlink("x", "none/link")),
    ROW(::symlink("x", "")),
    ROW(::symlink(no_text, "new_link")),
    ROW(::symlink("x", no_text)),
    ROW(::symlink("x", "new_link")),
    ROW(::unlink("new_link")),
    ROW(::symlinkat("x", both, "new_link")),
    ROW(::mknod("node", S_IFREG | 0600, 0)),
    ROW(::unlink("node")),
    ROW(::mkfifo("file", 0600)),
    ROW(::chdir("none")),
    ROW(::chdir("file")),
    ROW(::chdir("")),
    ROW(::chdir("loop")),
    ROW(::chdir(no_text)),
    ROW(::fchdir(both)),
    ROW(::fchdir(no_descriptor)),
    ROW(::chroot("none")),
    ROW(::chroot("file")),

    // ---- attributes ----
    ROW(::chmod("none", 0600)),
    ROW(::chmod("file", 0640)),
    ROW(::chmod("dangling", 0600)),
    ROW(::chmod("file/x", 0600)),
    ROW(::chmod(no_text, 0600)),
    ROW(::fchmod(both, 0644)),
    ROW(::fchmod(no_descriptor, 0600)),
    ROW(::fchmod(path_only, 0600)),
    ROW(::fchmodat(folder, "inner", 0600, 0)),
    ROW(::fchmodat(folder, "inner", 0600, 1 << 30)),
    ROW(::chown("none", 0, 0)),
    ROW(::chown("file", -1, -1)),
    ROW(::lchown("dangling", -1, -1)),
    ROW(::chown("dangling", -1, -1)),
    ROW(::fchown(both, -1, -1)),
    ROW(::fchown(no_descriptor, 0, 0)),
    ROW(::fchownat(folder, "inner", -1, -1, 1 << 30)),
    ROW(::fchownat(both, "", -1, -1, AT_EMPTY_PATH)),
    ROW(::utimensat(AT_FDCWD, "none", times_of, 0)),
    ROW(::utimensat(AT_FDCWD, "file", times_of, 0)),
    ROW(::utimensat(AT_FDCWD, "file", wrong_times, 0)),
    ROW(::utimensat(AT_FDCWD, "none", omitted_times, 0)),
    ROW(::utimensat(AT_FDCWD, "file", times_of, 1 << 30)),
    ROW(::utimensat(AT_FDCWD, "dangling", times_of, AT_SYMLINK_NOFOLLOW)),
    ROW(::utimensat(AT_FDCWD, "dangling", times_of, 0)),
    ROW(::stat("file", &status)),
    ROW(status.st_mtim.tv_nsec),
    ROW(::futimens(both, nullptr)),
    ROW(::futimens(no_descriptor, times_of)),
    ROW(::utimes("file", micro_times)),
    ROW(::utimes("none", nullptr)),
    ROW(::futimes(both, nullptr)),
    ROW(::getxattr("none", "user.x", bytes.data(), 10)),
    ROW(::getxattr("file", "user.x", bytes.data(), 10)),
    ROW(::listxattr("none", bytes.data(), 10)),
    ROW(::setxattr("none", "user.x", "v", 1, 0)),
    ROW(::setxattr("file", "user.x", "v", 1, 0)),
    ROW(::removexattr("none", "user.x")),
    ROW(::fgetxattr(no_descriptor, "user.x", bytes.data(), 10)),

    // ---- descriptors ----
    ROW(opened(::dup(both))),
    ROW(opened(::dup(no_descriptor))),
    ROW(::dup2(both, both) == both),
    ROW(::dup2(no_descriptor, both)),
    ROW(::dup2(both, -1)),
    ROW(::dup2(both, INT_MAX)),
    ROW(::dup3(both, both, 0)),
    ROW(::dup3(both, 800, 1 << 30)),
    ROW(::dup3(both, 800, O_CLOEXEC)),
    ROW(::close(800)),
    ROW(::close(800)),
    ROW(::close(-1)),
    ROW(::fcntl(both, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK)),
    ROW(::fcntl(appends, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK)),
    ROW(::fcntl(reads, F_GETFL) & O_ACCMODE),
    ROW(::fcntl(no_descriptor, F_GETFL)),
    ROW(::fcntl(both, F_SETFL, O_NONBLOCK)),
    ROW(::fcntl(both, F_SETFL, 0)),
    ROW(::fcntl(both, F_GETFD)),
    ROW(::fcntl(both, F_SETFD, FD_CLOEXEC)),
    ROW(::fcntl(both, F_GETFD)),
    ROW(opened(::fcntl(both, F_DUPFD, 100))),
    ROW(::fcntl(both, F_DUPFD, -1)),
    ROW(::fcntl(both, F_DUPFD, INT_MAX)),
    ROW(::fcntl(both, 9999)),
    ROW(::fcntl(both, F_SETLK, &whole_write)),
    ROW(::fcntl(reads, F_SETLK, &whole_write)),
    ROW(::fcntl(both, F_SETLK, &wrong_range)),
    ROW(::fcntl(both, F_SETLK, &no_lock)),
    ROW(::fcntl(both, F_SETLK, nullptr)),
    ROW(::fcntl(no_descriptor, F_SETLK, &whole_write)),
    ROW(::flock(both, LOCK_EX | LOCK_NB)),
    ROW(::flock(both, LOCK_UN)),
    ROW(::flock(both, 99)),
    ROW(::flock(no_descriptor, LOCK_UN)),
    ROW(::lockf(both, F_TLOCK, 0)),
    ROW(::lockf(both, F_ULOCK, 0)),
    ROW(::lockf(both, 99, 0)),
    ROW(::isatty(both)),
    ROW(::isatty(no_descriptor)),
    ROW(::ioctl(both, TCGETS, bytes.data())),
    ROW(::ioctl(both, FIONREAD, bytes.data())),
    ROW(::ioctl(no_descriptor, FIONREAD, bytes.data())),
    ROW(::recv(both, bytes.data(), 5, 0)),
    ROW(::getsockname(both, nullptr, nullptr)),
    ROW(::listen(both, 1)),

    // ---- copies and mappings ----
    ROW(::copy_file_range(both, &source, writes, &behind, 3, 0)),
    ROW(::copy_file_range(both, nullptr, appends, nullptr, 3, 0)),
    ROW(::copy_file_range(both, nullptr, reads, nullptr, 3, 0)),
    ROW(::copy_file_range(writes, nullptr, both, nullptr, 3, 0)),
    ROW(::copy_file_range(folder, nullptr, both, nullptr, 3, 0)),
    ROW(::copy_file_range(both, nullptr, no_descriptor, nullptr, 3, 0)),
    ROW(::copy_file_range(both, nullptr, gone, nullptr, 3, 1)),
    ROW(position_after(0)),
    ROW(::sendfile(gone, both, &sent, 3)),
    ROW(sent),
    ROW(::sendfile(reads, both, nullptr, 3)),
    ROW(::sendfile(gone, writes, nullptr, 3)),
    ROW(::sendfile(appends, both, nullptr, 3)),
    ROW(::sendfile(gone, folder, nullptr, 3)),
    ROW(position_after(0)),
    ROW(mapped(10, PROT_READ, MAP_PRIVATE, both, 0)),
    ROW(mapped(10, PROT_READ, MAP_SHARED, both, 0)),
    ROW(mapped(10, PROT_READ, MAP_PRIVATE, writes, 0)),
    ROW(mapped(10, PROT_READ | PROT_WRITE, MAP_SHARED, reads, 0)),
    ROW(mapped(10, PROT_READ, MAP_PRIVATE, folder, 0)),
    ROW(mapped(0, PROT_READ, MAP_PRIVATE, both, 0)),
    ROW(mapped(10, PROT_READ, MAP_PRIVATE, both, 5)),
    ROW(mapped(10, PROT_READ, 0, both, 0)),
    ROW(mapped(10, PROT_READ, MAP_PRIVATE, no_descriptor, 0)),
    ROW(mapped(10, PROT_READ, MAP_PRIVATE, path_only, 0)),
};

std::string result_text(std::int64_t result, int why) {
  if (result < 0) return ::strerrorname_np(why) != nullptr ? ::strerrorname_np(why) : "unknown";
  return result == 0 ? "ok" : std::to_string(result);
}

} // namespace

int main() {
  make_files();
  std::map<std::string, int> seen;
  for (const row& each : rows) {
    errno = 0;
    const std::int64_t result = each.make();
    const std::string text = result_text(result, errno);
    std::string name;
    for (const char* at = each.call; *at != '\0'; ++at) {
      if (*at != ' ' && *at != '\n') name += *at;
    }
    if (const int before = seen[name]++; before > 0) name += "." + std::to_string(before + 1);
    std::printf("%s %s\n", name.c_str(), text.c_str());
  }
  return 0;
}
