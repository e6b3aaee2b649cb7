// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/request_context.hpp>
#include <farcall/call/callable.hpp>
#include <farcall/call/pack.hpp>
#include <farcall/files/io_operations.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

/// Messages by which targets request operations on files of their host. Host and target find a
/// handler by its name, so the types of handlers must have external linkage and the same names in
/// all builds. copy/memory_handlers.hpp has the same restriction.
namespace farcall::files {

/// Operations on files. An operation's number is its row in the table.
enum class operation : std::uint8_t {
#define FARCALL_IO_NAME(name, ...) name,
  FARCALL_IO_OPERATIONS(FARCALL_IO_NAME)
#undef FARCALL_IO_NAME
};

/// Returns the traits of an operation from its row in the table. Returns 0 for a number without a
/// row.
[[nodiscard]] constexpr unsigned traits_of(operation what) noexcept {
#define FARCALL_IO_TRAITS(name, traits, ...) unsigned{traits},
  constexpr std::array all{FARCALL_IO_OPERATIONS(FARCALL_IO_TRAITS)};
#undef FARCALL_IO_TRAITS
  const auto number = static_cast<std::size_t>(what);
  return number < all.size() ? all[number] : 0;
}

/// Flags of open(2) in messages. They are not the system's numbers, which differ between processor
/// architectures.
namespace open_flags {
inline constexpr std::uint32_t access_mode = 3; ///< O_RDONLY, O_WRONLY, O_RDWR: the same everywhere
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

/// Translates the system's flags into the flags of messages. Leaves out flags that have no meaning
/// for files on another machine.
[[nodiscard]] std::uint32_t to_open_flags(int system_flags) noexcept;
[[nodiscard]] int to_system_flags(std::uint32_t flags) noexcept;

/// Additional flags of an open, by which the target says how the host shall return the open file.
namespace open_wishes {
inline constexpr std::uint32_t descriptor = 1U << 31;
/// Only with `descriptor`: the host also keeps the file open for further operations, and returns
/// its number.
inline constexpr std::uint32_t number_too = 1U << 30;
} // namespace open_wishes

/// Flags of a write request. With `whole`, the host must either write all of the bytes or return an
/// error. Without it, the host may write fewer bytes.
namespace write_flags {
inline constexpr std::uint32_t whole = 1;
}

/// Result of opening a file.
struct opened_file {
  /// Number of the open file at the host, or 0 if the host passes the open file itself as a
  /// descriptor. If the host passes the file and also keeps it open, its number with the bit
  /// `passed_too`.
  std::uint64_t file = 0;
  static constexpr std::uint64_t passed_too = std::uint64_t{1} << 63;
  farcall_io_status status{};
};

/// Offset that means the file's own position instead of a given one.
inline constexpr std::int64_t at_position = FARCALL_IO_AT_POSITION;

/// Maximum number of bytes that one request reads, writes or lists.
inline constexpr std::size_t max_piece = std::size_t{1} << 20;

/// One request of a target. Members that its operation does not need stay 0.
struct request {
  operation what{};
  std::uint64_t file = 0;
  std::int64_t offset = 0; ///< position or size; for set_owner, the group
  std::uint64_t bytes = 0; ///< number of bytes to read or allocate; for set_owner, the user
  std::uint32_t flags =
      /// Depends on the operation: flags of open(), rename() or a write; whence of seek(); mode of
      /// access(); or 1 to follow a link.
      0;
  std::uint32_t mode = 0; ///< mode of the file that is made or changed
  /// Number of the landing_place in which the host puts the reply's bytes.
  std::uint64_t landing = 0;
  /// For a read or write in several pieces, a number that all pieces share; 0 for a single piece.
  /// By this number, the host recognises and skips the pieces that follow a short one. For an open
  /// that asks for a descriptor, the number that is sent with the descriptor.
  std::uint64_t transfer = 0;
  std::string_view path{};
  std::string_view to{}; ///< of rename(), link(), symlink()
  std::span<const std::byte> data{};
};

/// Reply of the host, as the caller on the target gets it. The bytes of the reply have already been
/// copied to the request's landing place.
struct reply {
  std::int64_t result = 0; ///< result of the system call, or -errno
};

/// Beginning of a reply's message. After it come the `bytes` bytes of the reply.
struct reply_head {
  std::int64_t result = 0;
  std::uint64_t landing = 0;
  std::uint64_t bytes = 0;
};

/// Receiver of a reply's bytes, which are not copied: take() reads them in the memory of the reply.
class landing_sink {
 public:
  landing_sink() noexcept = default;
  landing_sink(const landing_sink&) = delete;
  landing_sink& operator=(const landing_sink&) = delete;
  virtual ~landing_sink() = default;

  /// Called at most once, on the thread that receives the reply. `from` is valid during the call.
  /// Returns 0, or -errno.
  [[nodiscard]] virtual std::int64_t take(const std::byte* from, std::size_t bytes) noexcept = 0;
};

/// Memory of this process to which the bytes of a reply are copied. A request tells the host only
/// the number of the landing place, and not its address. So the host can write to the memory only
/// while this object exists, and to no other memory.
class landing_place {
 public:
  /// `to` must stay valid until this object is destroyed.
  landing_place(void* to, std::size_t bytes);
  /// Passes up to `bytes` bytes to `to` instead of copying them. `to` must stay valid until this
  /// object is destroyed.
  landing_place(landing_sink& to, std::size_t bytes);
  landing_place(const landing_place&) = delete;
  landing_place& operator=(const landing_place&) = delete;
  ~landing_place();

  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

  /// Makes the bytes of the reply go to `to` instead, which must have the same size as the first
  /// memory. Returns false if the bytes have already arrived.
  [[nodiscard]] bool redirect(void* to) noexcept;

  /// Copies a reply's bytes to the landing place with the given number. Returns 0, -EFAULT if the
  /// memory cannot be written to, or -EIO if the number is unknown or there are too many bytes. Any
  /// thread may call it.
  [[nodiscard]] static std::int64_t put(std::uint64_t number, const std::byte* from,
                                        std::size_t bytes) noexcept;

 private:
  std::uint64_t number_;
};

/// Result of the host's handler serve(), which only holds the request. later_result then performs
/// the operation and makes the reply.
struct served_request {
  files::request what;
};

/// The handler that targets call to send a request to their host.
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
  /// Packs a reply that has no bytes. Replies with bytes are written by host_reply.
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
  /// Performs the operation on the calling thread, and sends the reply. Throws error if the job has
  /// no files.
  static void give(am::request_context& to, files::served_request r);
};
