#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/files/attach.hpp>
#include <farcall/files/file_calls.hpp>
#include <farcall/memory/copy.hpp>
#include <farcall/offload/job_state.hpp>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <deque>
#include <optional>
#include <utility>

namespace farcall::files {
namespace {

/// Bytes of a write that are copied once before they are sent, by the system, which finds out
/// whether they are there.
constexpr std::size_t most_checked = 16384;

/// Most bytes that Linux reads or writes in one call.
constexpr std::size_t largest_transfer = 0x7ffff000;

/// Whether it seems to be there: for what is too long to be copied for that.
bool is_readable(const void* from, std::size_t bytes) noexcept {
  const auto* const first = static_cast<const std::byte*>(from);
  std::byte seen{};
  return is_mapped(first, bytes) && copy_if_mapped(&seen, first, 1) &&
         copy_if_mapped(&seen, first + bytes - 1, 1);
}

/// As the kernel wants it: the end has a position, too.
bool ends_in_range(std::int64_t offset, std::size_t bytes) noexcept {
  return offset >= 0 && std::min(bytes, largest_transfer) <= static_cast<std::uint64_t>(INT64_MAX) -
                                                                 static_cast<std::uint64_t>(offset);
}

/// Which of the lanes a thread uses.
std::size_t number_of_thread() noexcept {
  static std::atomic<std::size_t> last{0};
  // Relaxed: it only has to differ.
  thread_local const std::size_t mine = last.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

} // namespace

/// One read or write.
struct file_calls::transfer {
  operation what;
  std::uint64_t file;
  std::byte* to;         ///< of a read
  const std::byte* from; ///< of a write
  std::size_t bytes;
  std::int64_t offset; ///< or at_position

  [[nodiscard]] request part(std::size_t done, std::size_t length) const {
    request r{.what = what,
              .file = file,
              .offset = offset == at_position ? offset : offset + static_cast<std::int64_t>(done)};
    if (what == operation::read) {
      r.bytes = length;
    } else {
      r.data = {from + done, length};
    }
    return r;
  }
};

file_calls::file_calls(detail::job_core& job, std::vector<prefix> prefixes)
    : job_(job), prefixes_(std::move(prefixes)) {}

bool file_calls::is_hosts(std::string_view path) const noexcept {
  try {
    return find_prefix(prefixes_, path).has_value();
  } catch (const std::bad_alloc&) {
    // Opening it there fails likewise.
    return true;
  }
}

std::shared_ptr<lane> file_calls::own_lane() {
  lane_slot& slot = lanes_[number_of_thread() % most_lanes];
  const std::lock_guard guard(slot.mutex);
  // Another one where the connection has ended, and the host has not.
  if (!slot.open || slot.open->messages().is_lost())
    slot.open = std::make_shared<lane>(node(job_, host_id));
  return slot.open;
}

/// What `f` returns; -errno for what it throws.
template <class F>
std::int64_t file_calls::guarded(const F& f) noexcept {
  const int errno_before = errno;
  const std::shared_lock guard(ending_);
  std::int64_t result = -EIO;
  try {
    if (!has_ended_) result = f();
  } catch (const out_of_memory&) {
    result = -ENOMEM;
  } catch (const std::bad_alloc&) {
    result = -ENOMEM;
  } catch (const std::exception& e) {
    log::info(std::string("a file of the host cannot be used: ") + e.what());
  }
  errno = errno_before;
  return result;
}

std::int64_t file_calls::wait(const lane& way, future<reply> sent) {
  am::completion* const state = detail::future_access::state(sent);
  if (!state->ready()) {
    (void)way.messages().owner().wait_alone(static_cast<am::pending_call&>(*state));
  }
  return sent.get().result;
}

std::int64_t file_calls::ask(const request& what) {
  const std::shared_ptr<lane> way = own_lane();
  return wait(*way, async(*way, fn<&serve>, what));
}

std::int64_t file_calls::call(const request& what) noexcept {
  return guarded([&] { return ask(what); });
}

std::int64_t file_calls::call(request what, void* to, std::size_t bytes) noexcept {
  return guarded([&] {
    const landing_place landing(to, bytes);
    what.landing = landing.number();
    return ask(what);
  });
}

std::int64_t file_calls::in_pieces(const transfer& t) {
  struct piece {
    std::unique_ptr<landing_place> landing;
    future<reply> sent;
    std::size_t bytes;
  };
  const std::shared_ptr<lane> way = own_lane();
  // Relaxed: it only has to differ.
  const std::uint64_t number = last_transfer_.fetch_add(1, std::memory_order_relaxed) + 1;
  std::deque<piece> under_way;
  std::optional<std::int64_t> failed; // of the first that did not do all of its bytes
  std::int64_t done = 0;
  const auto take_one = [&] {
    // Gone from the queue only afterwards: it is waited for in any case.
    const std::int64_t got = wait(*way, std::move(under_way.front().sent));
    const bool is_whole = got == static_cast<std::int64_t>(under_way.front().bytes);
    under_way.pop_front();
    if (failed) return;
    if (got > 0) done += got;
    if (!is_whole) failed = got;
  };
  try {
    for (std::size_t begun = 0; begun < t.bytes && !failed;) {
      if (under_way.size() == pieces_in_flight) {
        take_one();
        continue;
      }
      const std::size_t length = std::min(largest_piece, t.bytes - begun);
      request r = t.part(begun, length);
      r.transfer = number;
      piece next{nullptr, {}, length};
      if (t.what == operation::read) {
        next.landing = std::make_unique<landing_place>(t.to + begun, length);
        r.landing = next.landing->number();
      }
      next.sent = async(*way, fn<&serve>, r);
      under_way.push_back(std::move(next));
      begun += length;
    }
    while (!under_way.empty())
      take_one();
  } catch (...) {
    // What is sent uses the caller's memory until it has ended.
    for (piece& p : under_way) {
      if (p.sent.valid() && !p.sent.test()) {
        am::completion* const state = detail::future_access::state(p.sent);
        (void)way->messages().owner().wait_alone(static_cast<am::pending_call&>(*state));
      }
    }
    if (done > 0) return done;
    throw;
  }
  return done > 0 || !failed ? done : *failed;
}

std::int64_t file_calls::read_at(std::uint64_t file, void* to, std::size_t bytes,
                                 std::int64_t offset) noexcept {
  bytes = std::min(bytes, largest_transfer);
  const transfer t{operation::read, file, static_cast<std::byte*>(to), nullptr, bytes, offset};
  if (bytes <= largest_piece) return call(t.part(0, bytes), to, bytes);
  // Before the file's position moves.
  if (!is_readable(to, bytes)) return -EFAULT;
  return guarded([&] { return in_pieces(t); });
}

std::int64_t file_calls::write_at(std::uint64_t file, const void* from, std::size_t bytes,
                                  std::int64_t offset) noexcept {
  bytes = std::min(bytes, largest_transfer);
  const auto* const first = static_cast<const std::byte*>(from);
  transfer t{operation::write, file, nullptr, first, bytes, offset};
  if (bytes <= most_checked) {
    std::array<std::byte, most_checked> copied; // NOLINT(cppcoreguidelines-pro-type-member-init)
    if (!copy_if_mapped(copied.data(), from, bytes)) return -EFAULT;
    t.from = copied.data();
    return call(t.part(0, bytes));
  }
  if (!is_readable(from, bytes)) return -EFAULT;
  if (bytes <= largest_piece) return call(t.part(0, bytes));
  return guarded([&] { return in_pieces(t); });
}

std::int64_t file_calls::open(std::string_view path, int flags, std::uint32_t mode,
                              farcall_io_opened& opened) noexcept {
  return call({.what = operation::open, .flags = to_open_flags(flags), .mode = mode, .path = path},
              &opened, sizeof opened);
}

std::int64_t file_calls::close(std::uint64_t file) noexcept {
  return call({.what = operation::close, .file = file});
}

std::int64_t file_calls::read(std::uint64_t file, void* to, std::size_t bytes) noexcept {
  return read_at(file, to, bytes, at_position);
}

std::int64_t file_calls::write(std::uint64_t file, const void* from, std::size_t bytes) noexcept {
  return write_at(file, from, bytes, at_position);
}

std::int64_t file_calls::pread(std::uint64_t file, void* to, std::size_t bytes,
                               std::int64_t offset) noexcept {
  return ends_in_range(offset, bytes) ? read_at(file, to, bytes, offset) : -EINVAL;
}

std::int64_t file_calls::pwrite(std::uint64_t file, const void* from, std::size_t bytes,
                                std::int64_t offset) noexcept {
  return ends_in_range(offset, bytes) ? write_at(file, from, bytes, offset) : -EINVAL;
}

std::int64_t file_calls::seek(std::uint64_t file, std::int64_t offset, int whence) noexcept {
  return call({.what = operation::seek,
               .file = file,
               .offset = offset,
               .flags = static_cast<std::uint32_t>(whence)});
}

std::int64_t file_calls::set_flags(std::uint64_t file, int flags) noexcept {
  return call({.what = operation::set_flags, .file = file, .flags = to_open_flags(flags)});
}

std::int64_t file_calls::fstat(std::uint64_t file, farcall_io_status& status) noexcept {
  return call({.what = operation::fstat, .file = file}, &status, sizeof status);
}

std::int64_t file_calls::ftruncate(std::uint64_t file, std::int64_t size) noexcept {
  return call({.what = operation::ftruncate, .file = file, .offset = size});
}

std::int64_t file_calls::fsync(std::uint64_t file, bool data_only) noexcept {
  return call({.what = operation::fsync, .file = file, .flags = data_only ? 1U : 0U});
}

std::int64_t file_calls::list(std::uint64_t file, void* to, std::size_t bytes) noexcept {
  return call({.what = operation::list, .file = file, .bytes = bytes}, to, bytes);
}

std::int64_t file_calls::stat(std::string_view path, bool follows_link,
                              farcall_io_status& status) noexcept {
  return call({.what = operation::stat, .flags = follows_link ? 1U : 0U, .path = path}, &status,
              sizeof status);
}

std::int64_t file_calls::access(std::string_view path, int mode) noexcept {
  return call({.what = operation::access, .flags = static_cast<std::uint32_t>(mode), .path = path});
}

std::int64_t file_calls::truncate(std::string_view path, std::int64_t size) noexcept {
  return call({.what = operation::truncate, .offset = size, .path = path});
}

std::int64_t file_calls::unlink(std::string_view path) noexcept {
  return call({.what = operation::unlink, .path = path});
}

std::int64_t file_calls::rmdir(std::string_view path) noexcept {
  return call({.what = operation::rmdir, .path = path});
}

std::int64_t file_calls::mkdir(std::string_view path, std::uint32_t mode) noexcept {
  return call({.what = operation::mkdir, .mode = mode, .path = path});
}

std::int64_t file_calls::rename(std::string_view from, std::string_view to,
                                std::uint32_t flags) noexcept {
  return call({.what = operation::rename, .flags = flags, .path = from, .to = to});
}

std::int64_t file_calls::read_link(std::string_view path, char* to, std::size_t bytes) noexcept {
  return call({.what = operation::read_link, .bytes = bytes, .path = path}, to, bytes);
}

void file_calls::finish() noexcept {
  detach(*this);
  const std::unique_lock guard(ending_);
  has_ended_ = true;
  for (lane_slot& slot : lanes_)
    slot.open.reset();
}

file_calls& of_this_target() {
  auto* const files = dynamic_cast<file_calls*>(detail::current_job().service.get());
  if (files == nullptr) {
    throw error("this node has no files of its host: either it is none of its targets, or the host "
                "lets them use none (job_options::host_files, FARCALL_HOST_FILES)");
  }
  return *files;
}

std::shared_ptr<detail::job_service> join_files(detail::job_state& job, const std::string& told) {
  const auto files = std::make_shared<file_calls>(job, parse_prefixes(told, "the host's files"));
  const transport* const way = job.members->route_to(host_id).via;
  attach(files, way != nullptr && way->scheme() == "shm");
  return files;
}

} // namespace farcall::files
