#pragma once

#include <farcall/am/request_context.hpp>
#include <farcall/call/callable.hpp>
#include <farcall/call/pack.hpp>
#include <farcall/files/io_table.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

/// What a target asks of its host's files. The names must be the same in all builds of this file,
/// and known to other files; as in offload/memory_handlers.hpp.
namespace farcall::files {

enum class operation : std::uint8_t {
  open,
  close,
  read,
  write,
  seek,
  set_flags,
  fstat,
  ftruncate,
  fsync,
  list,
  allocate,
  set_mode, ///< from here on of a file, or of a path where there is one
  set_owner,
  set_times,
  space,
  stat, ///< from here on of a path
  access,
  truncate,
  unlink,
  rmdir,
  mkdir,
  rename,
  read_link,
  link,
  symlink,
};

/// Flags of open(2): their numbers differ between processors.
namespace open_flags {
inline constexpr std::uint32_t access_mode = 3; ///< O_RDONLY, O_WRONLY, O_RDWR, which do not
inline constexpr std::uint32_t create = 1U << 2;
inline constexpr std::uint32_t exclusive = 1U << 3;
inline constexpr std::uint32_t truncate = 1U << 4;
inline constexpr std::uint32_t append = 1U << 5;
inline constexpr std::uint32_t nonblock = 1U << 6;
inline constexpr std::uint32_t sync = 1U << 7;
inline constexpr std::uint32_t data_sync = 1U << 8;
inline constexpr std::uint32_t directory = 1U << 9;
inline constexpr std::uint32_t no_follow = 1U << 10;
inline constexpr std::uint32_t temporary = 1U << 11;
} // namespace open_flags

/// Those that have a meaning for files elsewhere; others are left out.
[[nodiscard]] std::uint32_t to_open_flags(int system_flags) noexcept;
[[nodiscard]] int to_system_flags(std::uint32_t flags) noexcept;

/// Of open: the target would rather have the open file itself.
namespace open_wishes {
inline constexpr std::uint32_t descriptor = 1U << 31;
}

/// Of a write: all of it, or an error.
namespace write_flags {
inline constexpr std::uint32_t whole = 1;
}

/// What opening a file gives.
struct opened_file {
  std::uint64_t file = 0; ///< its number at the host; 0 where the file itself is passed
  std::uint64_t mode = 0; ///< as in farcall_io_status
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
};

/// At the file's position instead of an offset.
inline constexpr std::int64_t at_position = -1;

/// Most bytes that one request reads, writes or lists.
inline constexpr std::size_t largest_piece = std::size_t{1} << 20;

/// One request. Members that an operation does not need stay 0.
struct request {
  operation what{};
  std::uint64_t file = 0;
  std::int64_t offset = 0; ///< a position, a size; a group
  std::uint64_t bytes = 0; ///< to read, to allocate; a user
  std::uint32_t flags =
      0; ///< of open(), rename(), a write; whence; a mode of access(); 1: follow a link
  std::uint32_t mode = 0;    ///< of what is made or changed
  std::uint64_t landing = 0; ///< where the target wants the bytes of the reply: see landing_places
  /// A number for all pieces of one read or write, of which those behind one that was not whole are
  /// not done; 0: it has one piece. Of open, with a wish for a descriptor: by which it comes.
  std::uint64_t transfer = 0;
  std::string_view path{};
  std::string_view to{}; ///< of rename(), link(), symlink()
  std::span<const std::byte> data{};
};

/// The reply, as it is read. Its bytes are where the request wanted them.
struct reply {
  std::int64_t result = 0; ///< of the system call, or -errno
};

/// What a reply begins with; behind it are `bytes` bytes.
struct reply_head {
  std::int64_t result = 0;
  std::uint64_t landing = 0;
  std::uint64_t bytes = 0;
};

/// Memory of this process in which replies may put bytes, by number: a host can name what it was
/// told, as long as somebody waits for it, and nothing else.
class landing_place {
 public:
  /// `to` stays valid until the end of this object.
  landing_place(void* to, std::size_t bytes);
  landing_place(const landing_place&) = delete;
  landing_place& operator=(const landing_place&) = delete;
  ~landing_place();

  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

  /// Bytes that arrive from now on go to `to`, where there is as much room. False: they have
  /// arrived.
  [[nodiscard]] bool redirect(void* to) noexcept;

  /// 0; -EFAULT where the memory cannot be written to; -EIO for a number that is none, or too many
  /// bytes. Any thread.
  [[nodiscard]] static std::int64_t put(std::uint64_t number, const std::byte* from,
                                        std::size_t bytes) noexcept;

 private:
  std::uint64_t number_;
};

/// What the host's handler returns: the request, which its reply is then made of.
struct served_request {
  files::request what;
};

/// The handler.
[[nodiscard]] served_request serve(files::request what);

} // namespace farcall::files

template <>
struct farcall::packer<farcall::files::request> {
  static constexpr bool has_views = true;
  static void pack(writer& w, const files::request& r) {
    w(r.what, r.file, r.offset, r.bytes, r.flags, r.mode, r.landing, r.transfer, r.path, r.to,
      r.data);
  }
  static files::request unpack(reader& r) {
    files::request q;
    q.what = static_cast<files::operation>(r.number<std::uint8_t>());
    q.file = r.read<std::uint64_t>();
    q.offset = r.read<std::int64_t>();
    q.bytes = r.read<std::uint64_t>();
    q.flags = r.read<std::uint32_t>();
    q.mode = r.read<std::uint32_t>();
    q.landing = r.read<std::uint64_t>();
    q.transfer = r.read<std::uint64_t>();
    q.path = r.read<std::string_view>();
    q.to = r.read<std::string_view>();
    q.data = r.read<std::span<const std::byte>>();
    return q;
  }
};

template <>
struct farcall::packer<farcall::files::reply> {
  /// Hosts write replies themselves (host_files.cpp); this is for one that has no bytes.
  static void pack(writer& w, const files::reply& r) { w(files::reply_head{r.result, 0, 0}); }
  static files::reply unpack(reader& r) {
    const auto head = r.read<files::reply_head>();
    const std::byte* const bytes = r.bytes(head.bytes);
    if (head.bytes == 0 || head.result < 0) return {head.result};
    const std::int64_t put = files::landing_place::put(head.landing, bytes, head.bytes);
    return {put < 0 ? put : head.result};
  }
};

template <>
inline constexpr bool farcall::has_fixed_layout<farcall::files::reply_head> = true;

template <>
struct farcall::later_result<farcall::files::served_request> {
  using value = files::reply;
  /// Does what was asked, on the calling thread, and replies. Throws error where the job has no
  /// files.
  static void give(am::request_context& to, files::served_request r);
};
