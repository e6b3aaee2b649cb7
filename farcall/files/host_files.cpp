#include <farcall/base/error.hpp>
#include <farcall/call/result.hpp>
#include <farcall/files/file_view.hpp>
#include <farcall/files/host_files.hpp>
#include <farcall/offload/job_state.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace farcall::files {
namespace {

/// Bytes of a read that are copied once more, into a record, instead of read into a block that the
/// target fetches.
constexpr std::size_t most_copied = 16384;

template <class T>
std::int64_t result_of(T result) noexcept {
  return result < 0 ? -errno : static_cast<std::int64_t>(result);
}

/// As `call`, again where a signal ended it before it did anything.
template <class Call>
std::int64_t retried(const Call& call) noexcept {
  for (;;) {
    const std::int64_t result = result_of(call());
    if (result != -EINTR) return result;
  }
}

/// The reply, with `bytes` behind its head.
void reply_with(am::request_context& to, reply_head head, std::span<const std::byte> bytes) {
  head.bytes = bytes.size();
  constexpr std::size_t gap = detail::short_reply_gap;
  const std::size_t all = sizeof head + bytes.size();
  const auto write = [&](std::byte* at) {
    std::memcpy(at, &head, sizeof head);
    if (!bytes.empty()) std::memcpy(at + sizeof head, bytes.data(), bytes.size());
  };
  if (gap + all <= to.largest_reply()) {
    std::byte* const at = to.reserve_reply(static_cast<std::uint32_t>(gap + all));
    write(at + gap);
    to.commit_reply(at, static_cast<std::uint32_t>(gap + all));
    return;
  }
  std::byte* const at = to.reserve_rendezvous_reply(all);
  write(at);
  to.commit_rendezvous_reply(at, all);
}

farcall_io_status status_of(const struct stat& s) {
  farcall_io_status r{};
  r.device = s.st_dev;
  r.inode = s.st_ino;
  r.mode = s.st_mode;
  r.links = s.st_nlink;
  r.user = s.st_uid;
  r.group = s.st_gid;
  r.special = s.st_rdev;
  r.size = s.st_size;
  r.block_size = s.st_blksize;
  r.blocks = s.st_blocks;
  r.accessed = s.st_atim.tv_sec;
  r.accessed_ns = s.st_atim.tv_nsec;
  r.modified = s.st_mtim.tv_sec;
  r.modified_ns = s.st_mtim.tv_nsec;
  r.changed = s.st_ctim.tv_sec;
  r.changed_ns = s.st_ctim.tv_nsec;
  return r;
}

template <class T>
void put_bytes(std::vector<std::byte>& to, const T& value) {
  to.resize(sizeof value);
  std::memcpy(to.data(), &value, sizeof value);
}

std::int64_t status_of_file(int fd, std::vector<std::byte>& bytes) {
  struct stat s{};
  if (::fstat(fd, &s) != 0) return -errno;
  put_bytes(bytes, status_of(s));
  return 0;
}

/// No device, pipe or socket.
bool is_plain(const struct stat& s) noexcept {
  return S_ISREG(s.st_mode) || S_ISDIR(s.st_mode) || S_ISLNK(s.st_mode);
}

/// By which functions that take a path, and no descriptor that only names, reach what it names.
std::string path_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

std::int64_t space_at(int fd, std::vector<std::byte>& bytes) {
  struct statvfs s{};
  struct statfs t{};
  if (::fstatvfs(fd, &s) != 0 || ::fstatfs(fd, &t) != 0) return -errno;
  farcall_io_space r{};
  r.type = static_cast<std::uint64_t>(t.f_type);
  r.block_size = s.f_bsize;
  r.fragment_size = s.f_frsize;
  r.blocks = s.f_blocks;
  r.free_blocks = s.f_bfree;
  r.available_blocks = s.f_bavail;
  r.files = s.f_files;
  r.free_files = s.f_ffree;
  r.available_files = s.f_favail;
  r.device = s.f_fsid;
  r.flags = s.f_flag;
  r.longest_name = s.f_namemax;
  put_bytes(bytes, r);
  return 0;
}

/// Of what was found; -ENOTDIR where the path ends with a slash and it is no folder.
std::int64_t check_slash(const access_list::parent& at) {
  if (!at.wants_folder) return 0;
  struct stat s{};
  if (::fstatat(at.folder.get(), at.name.c_str(), &s, AT_SYMLINK_NOFOLLOW) != 0) return -errno;
  return S_ISDIR(s.st_mode) ? 0 : -ENOTDIR;
}

} // namespace

host_files::open_file::~open_file() {
  if (descriptor)
    closed->store(result_of(::close(descriptor.release())), std::memory_order_relaxed);
}

host_files::host_files(access_list allowed) : allowed_(std::move(allowed)) {}

std::string host_files::for_targets() const {
  return text_of(own_file_view()) + ';' + text_of(allowed_.prefixes());
}

void host_files::node_ended(node_id node) noexcept {
  std::map<std::uint64_t, file_ref> gone;
  {
    const std::lock_guard guard(mutex_);
    try {
      target& t = targets_[node];
      t.has_ended = true;
      gone.swap(t.files);
    } catch (const std::bad_alloc&) {
      // It has never opened anything, then.
    }
  }
}

host_files::file_ref host_files::find(node_id node, std::uint64_t file) {
  const std::lock_guard guard(mutex_);
  const auto t = targets_.find(node);
  if (t == targets_.end()) return nullptr;
  const auto at = t->second.files.find(file);
  return at == t->second.files.end() ? nullptr : at->second;
}

std::int64_t host_files::keep(node_id node, unique_fd opened, bool is_writable) {
  auto file = std::make_shared<open_file>();
  file->descriptor = std::move(opened);
  file->is_writable = is_writable;
  const std::lock_guard guard(mutex_);
  target& t = targets_[node];
  if (t.has_ended) return -EIO;
  if (t.files.size() >= most_open_files) return -EMFILE;
  t.files.emplace(++t.last, std::move(file));
  return static_cast<std::int64_t>(t.last);
}

std::int64_t host_files::open(const detail::job_state& job, node_id node, const request& what,
                              opened_file& opened) {
  const int fd = allowed_.open(what.path, to_system_flags(what.flags), what.mode);
  if (fd < 0) return fd;
  unique_fd file(fd);
  struct stat s{};
  if (::fstat(fd, &s) != 0) return -errno;
  if ((what.flags & open_flags::nonblock) == 0) {
    // It was opened so, in case it was a pipe.
    const int flags = ::fcntl(fd, F_GETFL);
    (void)::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
  }
  // Not a folder, from which ".." leads to others.
  if ((what.flags & open_wishes::descriptor) != 0 && S_ISREG(s.st_mode) &&
      job.members->send_file(node, what.transfer, fd)) {
    opened = {0, s.st_mode, s.st_dev, s.st_ino};
    return 0;
  }
  const std::int64_t number = keep(node, std::move(file), allowed_.is_writable(what.path));
  if (number < 0) return number;
  opened = {static_cast<std::uint64_t>(number), s.st_mode, s.st_dev, s.st_ino};
  return 0;
}

std::int64_t host_files::close(node_id node, std::uint64_t file) {
  file_ref gone;
  {
    const std::lock_guard guard(mutex_);
    const auto t = targets_.find(node);
    if (t == targets_.end()) return -EBADF;
    const auto at = t->second.files.find(file);
    if (at == t->second.files.end()) return -EBADF;
    gone = std::move(at->second);
    t->second.files.erase(at);
  }
  // Where another thread still uses it, it closes later, and nobody hears of its error.
  const auto closed = gone->closed;
  gone.reset();
  return closed->load(std::memory_order_relaxed);
}

std::int64_t host_files::write(open_file& file, const request& what) {
  const bool is_piece = what.transfer != 0;
  // Relaxed: pieces of one transfer come one after the other, in one lane.
  if (is_piece && file.stopped.load(std::memory_order_relaxed) == what.transfer) return 0;
  const int fd = file.descriptor.get();
  const auto write_from = [&](std::size_t begun) {
    const std::span<const std::byte> left = what.data.subspan(begun);
    return retried([&] {
      return what.offset == at_position ? ::write(fd, left.data(), left.size())
                                        : ::pwrite(fd, left.data(), left.size(),
                                                   what.offset + static_cast<std::int64_t>(begun));
    });
  };
  std::int64_t done = write_from(0);
  if ((what.flags & write_flags::whole) != 0) {
    while (done > 0 && static_cast<std::size_t>(done) < what.data.size()) {
      const std::int64_t more = write_from(static_cast<std::size_t>(done));
      done = more > 0 ? done + more : more < 0 ? more : -EIO;
    }
  }
  if (is_piece && (done < 0 || static_cast<std::uint64_t>(done) < what.data.size()))
    file.stopped.store(what.transfer, std::memory_order_relaxed);
  return done;
}

void host_files::read(am::request_context& to, open_file& file, const request& what) {
  const std::size_t bytes = std::min<std::uint64_t>(what.bytes, largest_piece);
  const bool is_piece = what.transfer != 0;
  const int fd = file.descriptor.get();
  const auto read_to = [&](std::byte* at) -> std::int64_t {
    if (is_piece && file.stopped.load(std::memory_order_relaxed) == what.transfer) return 0;
    const std::int64_t done = retried([&] {
      return what.offset == at_position ? ::read(fd, at, bytes)
                                        : ::pread(fd, at, bytes, what.offset);
    });
    if (is_piece && (done < 0 || static_cast<std::uint64_t>(done) < bytes))
      file.stopped.store(what.transfer, std::memory_order_relaxed);
    return done;
  };
  if (bytes <= most_copied) {
    std::array<std::byte, most_copied> near; // NOLINT(cppcoreguidelines-pro-type-member-init)
    const std::int64_t done = read_to(near.data());
    reply_with(to, {done, what.landing, 0},
               std::span(near).first(done > 0 ? static_cast<std::size_t>(done) : 0));
    return;
  }
  std::byte* const block = to.reserve_rendezvous_reply(sizeof(reply_head) + bytes);
  const std::int64_t done = read_to(block + sizeof(reply_head));
  if (done < static_cast<std::int64_t>(most_copied)) {
    // Little of it has come: the record holds it.
    const auto got = static_cast<std::size_t>(std::max<std::int64_t>(done, 0));
    std::array<std::byte, most_copied> near; // NOLINT(cppcoreguidelines-pro-type-member-init)
    std::memcpy(near.data(), block + sizeof(reply_head), got);
    to.cancel_rendezvous_reply(block);
    reply_with(to, {done, what.landing, 0}, std::span(near).first(got));
    return;
  }
  const reply_head head{done, what.landing, static_cast<std::uint64_t>(done)};
  std::memcpy(block, &head, sizeof head);
  to.commit_rendezvous_reply(block, sizeof head + head.bytes);
}

std::int64_t host_files::on_file(open_file& file, const request& what,
                                 std::vector<std::byte>& bytes) {
  const int fd = file.descriptor.get();
  switch (what.what) {
  case operation::write:
    return write(file, what);
  case operation::seek:
    return result_of(::lseek(fd, what.offset, static_cast<int>(what.flags)));
  case operation::set_flags:
    return result_of(::fcntl(fd, F_SETFL, to_system_flags(what.flags)));
  case operation::fstat:
    return status_of_file(fd, bytes);
  case operation::ftruncate:
    return retried([&] { return ::ftruncate(fd, what.offset); });
  case operation::fsync:
    return retried([&] { return what.flags != 0 ? ::fdatasync(fd) : ::fsync(fd); });
  case operation::allocate:
    return retried([&] {
      return ::fallocate(fd, static_cast<int>(what.flags), what.offset,
                         static_cast<off_t>(what.bytes));
    });
  case operation::list: {
    bytes.resize(std::min<std::uint64_t>(what.bytes, largest_piece));
    const std::int64_t got = result_of(::syscall(SYS_getdents64, fd, bytes.data(), bytes.size()));
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return got;
  }
  default:
    return -ENOSYS;
  }
}

std::int64_t host_files::on_either(node_id node, const request& what,
                                   std::vector<std::byte>& bytes) {
  file_ref file;
  unique_fd name;
  bool is_writable = false;
  if (what.path.empty()) {
    file = find(node, what.file);
    if (file == nullptr) return -EBADF;
    is_writable = file->is_writable;
  } else {
    name = unique_fd(allowed_.open_name(what.path, what.flags != 0));
    if (name.get() < 0) return name.get();
    is_writable = allowed_.is_writable(what.path);
  }
  const int fd = file != nullptr ? file->descriptor.get() : name.get();
  if (what.what == operation::space) return space_at(fd, bytes);
  if (!is_writable) return -EACCES;
  struct stat s{};
  if (::fstat(fd, &s) != 0) return -errno;
  if (!is_plain(s)) return -EACCES;
  switch (what.what) {
  case operation::set_mode: {
    // It would run as the host's user, by whoever starts it.
    if (!S_ISDIR(s.st_mode) && (what.mode & (S_ISUID | S_ISGID)) != 0) return -EPERM;
    return result_of(::chmod(path_of(fd).c_str(), what.mode & 07777));
  }
  case operation::set_owner:
    return result_of(::fchownat(fd, "", static_cast<uid_t>(what.bytes),
                                static_cast<gid_t>(what.offset), AT_EMPTY_PATH));
  case operation::set_times: {
    farcall_io_times times{};
    if (what.data.size() != sizeof times) return -EINVAL;
    std::memcpy(&times, what.data.data(), sizeof times);
    const std::array<timespec, 2> both{timespec{times.accessed, times.accessed_ns},
                                       timespec{times.modified, times.modified_ns}};
    return result_of(::utimensat(AT_FDCWD, path_of(fd).c_str(), both.data(), 0));
  }
  default:
    return -ENOSYS;
  }
}

std::int64_t host_files::on_path(const request& what, std::vector<std::byte>& bytes) {
  switch (what.what) {
  case operation::stat: {
    const unique_fd name(allowed_.open_name(what.path, what.flags != 0));
    return name ? status_of_file(name.get(), bytes) : name.get();
  }
  case operation::access: {
    const unique_fd name(allowed_.open_name(what.path, true));
    if (!name) return name.get();
    if ((what.flags & W_OK) != 0 && !allowed_.is_writable(what.path)) return -EACCES;
    return result_of(::access(path_of(name.get()).c_str(), static_cast<int>(what.flags)));
  }
  case operation::read_link: {
    const unique_fd name(allowed_.open_name(what.path, false));
    if (!name) return name.get();
    bytes.resize(std::min<std::uint64_t>(what.bytes, PATH_MAX));
    const std::int64_t got = result_of(
        ::readlinkat(name.get(), "", reinterpret_cast<char*>(bytes.data()), bytes.size()));
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    // As the kernel says it of a path that is no link.
    return got == -ENOENT ? -EINVAL : got;
  }
  case operation::truncate: {
    const unique_fd file(allowed_.open(what.path, O_WRONLY, 0));
    if (!file) return file.get();
    return retried([&] { return ::ftruncate(file.get(), what.offset); });
  }
  case operation::unlink:
  case operation::rmdir: {
    const bool is_folder = what.what == operation::rmdir;
    access_list::parent at;
    if (const int why_not = allowed_.open_parent(what.path, at); why_not < 0) {
      return why_not == -EBUSY && !is_folder ? -EISDIR : why_not;
    }
    if (const std::int64_t why_not = check_slash(at); why_not < 0) return why_not;
    return result_of(::unlinkat(at.folder.get(), at.name.c_str(), is_folder ? AT_REMOVEDIR : 0));
  }
  case operation::mkdir: {
    access_list::parent at;
    if (const int why_not = allowed_.open_parent(what.path, at); why_not < 0)
      return why_not == -EBUSY || why_not == -EINVAL ? -EEXIST : why_not;
    return result_of(::mkdirat(at.folder.get(), at.name.c_str(), what.mode & 07777));
  }
  case operation::rename: {
    constexpr std::uint32_t known = RENAME_NOREPLACE | RENAME_EXCHANGE;
    if ((what.flags & ~known) != 0) return -EINVAL;
    access_list::parent from;
    access_list::parent to;
    if (const int why_not = allowed_.open_parent(what.path, from); why_not < 0) return why_not;
    if (const int why_not = allowed_.open_parent(what.to, to); why_not < 0) return why_not;
    if (const std::int64_t why_not = check_slash(from); why_not < 0) return why_not;
    if (to.wants_folder && !from.wants_folder) {
      from.wants_folder = true;
      if (const std::int64_t why_not = check_slash(from); why_not < 0) return why_not;
    }
    return result_of(::renameat2(from.folder.get(), from.name.c_str(), to.folder.get(),
                                 to.name.c_str(), what.flags));
  }
  case operation::link: {
    // Not of what is read-only: by the new name it could be written.
    if (!allowed_.is_writable(what.path)) return -EACCES;
    const unique_fd from(allowed_.open_name(what.path, what.flags != 0));
    if (from.get() < 0) return from.get();
    struct stat s{};
    if (::fstat(from.get(), &s) != 0) return -errno;
    if (!is_plain(s)) return -EACCES;
    access_list::parent to;
    if (const int why_not = allowed_.open_parent(what.to, to); why_not < 0)
      return why_not == -EBUSY || why_not == -EINVAL ? -EEXIST : why_not;
    if (to.wants_folder) return -ENOENT;
    return result_of(::linkat(AT_FDCWD, path_of(from.get()).c_str(), to.folder.get(),
                              to.name.c_str(), AT_SYMLINK_FOLLOW));
  }
  case operation::symlink: {
    access_list::parent at;
    if (const int why_not = allowed_.open_parent(what.path, at); why_not < 0)
      return why_not == -EBUSY || why_not == -EINVAL ? -EEXIST : why_not;
    if (at.wants_folder) return -ENOENT;
    // Wherever it leads: who opens it is held to the prefixes.
    return result_of(::symlinkat(std::string(what.to).c_str(), at.folder.get(), at.name.c_str()));
  }
  default:
    return -ENOSYS;
  }
}

void host_files::serve(const detail::job_state& job, am::request_context& to, const request& what) {
  const node_id node = to.source();
  reply_head head{0, what.landing, 0};
  std::vector<std::byte> bytes;
  if (what.path.find('\0') != std::string_view::npos ||
      what.to.find('\0') != std::string_view::npos) {
    head.result = -EINVAL;
  } else if (what.what == operation::open) {
    opened_file opened{};
    head.result = open(job, node, what, opened);
    if (head.result == 0) put_bytes(bytes, opened);
  } else if (what.what == operation::close) {
    head.result = close(node, what.file);
  } else if (what.what >= operation::set_mode && what.what < operation::stat) {
    head.result = on_either(node, what, bytes);
  } else if (what.what >= operation::stat) {
    head.result = on_path(what, bytes);
  } else if (const file_ref file = find(node, what.file); file == nullptr) {
    head.result = -EBADF;
  } else if (what.what == operation::read) {
    return read(to, *file, what);
  } else {
    head.result = on_file(*file, what, bytes);
  }
  reply_with(to, head, head.result < 0 ? std::span<const std::byte>() : bytes);
}

std::shared_ptr<detail::job_service> make_host_files(const job_options& options) {
  if (options.host_files.empty()) return nullptr;
  return std::make_shared<host_files>(
      access_list(parse_prefixes(options.host_files, "host_files")));
}

served_request serve(files::request what) { return {what}; }

} // namespace farcall::files

namespace farcall {

void later_result<files::served_request>::give(am::request_context& to, files::served_request r) {
  const detail::job_state& job = detail::current_job();
  auto* const served = dynamic_cast<files::host_files*>(job.service.get());
  if (served == nullptr) throw error("this node lets nobody use its files");
  served->serve(job, to, r.what);
}

} // namespace farcall
