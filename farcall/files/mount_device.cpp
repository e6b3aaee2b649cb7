// SPDX-License-Identifier: Apache-2.0
#include <farcall/files/file_messages.hpp>
#include <farcall/files/mount_device.hpp>
#include <farcall/files/mounted_files.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include <linux/fuse.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

namespace farcall::files {
namespace {

/// Bytes of memory for one request. The system demands space for the largest write with its header.
/// The result of a read goes to the same memory.
constexpr std::size_t memory_bytes = max_piece + (std::size_t{64} << 10);

/// Reads and writes of more bytes may take long.
constexpr std::uint32_t max_short = 64U << 10;
/// Average time of short reads and writes above which they may take long, too.
constexpr std::chrono::nanoseconds long_average = std::chrono::microseconds(200);

/// Number of bytes of a write before its data.
constexpr std::size_t before_data = sizeof(fuse_in_header) + sizeof(fuse_write_in);

/// Time between two looks if requests are late.
constexpr std::chrono::milliseconds look_every{500};

/// Reads a structure at an offset. Returns nothing if the request is shorter.
template <class T>
std::optional<T> structure_at(std::span<const std::byte> request, std::size_t offset) noexcept {
  if (request.size() < offset + sizeof(T)) return std::nullopt;
  T found;
  std::memcpy(&found, request.data() + offset, sizeof found);
  return found;
}

/// Returns the number of bytes of a read or write, and nothing for other requests.
std::optional<std::uint32_t> size_of_data(std::span<const std::byte> request) noexcept {
  const auto head = structure_at<fuse_in_header>(request, 0);
  if (!head || (head->opcode != FUSE_READ && head->opcode != FUSE_WRITE)) return std::nullopt;
  // Reads and writes have the size at the same place.
  static_assert(offsetof(fuse_read_in, size) == offsetof(fuse_write_in, size));
  const auto wanted = structure_at<fuse_read_in>(request, sizeof(fuse_in_header));
  return wanted ? wanted->size : 0;
}

/// Returns a write of changed pages of a mapping. Returns none for other and malformed requests.
page_write pages_of(std::span<const std::byte> request) noexcept {
  const auto head = structure_at<fuse_in_header>(request, 0);
  if (!head || head->opcode != FUSE_WRITE) return {};
  const auto wanted = structure_at<fuse_write_in>(request, sizeof(fuse_in_header));
  if (!wanted || (wanted->write_flags & FUSE_WRITE_CACHE) == 0 ||
      request.size() - before_data < wanted->size || wanted->size > max_piece)
    return {};
  return {head->unique, wanted->size};
}

/// Reads a byte of each page. If a page were absent, the system would need the lock of the
/// process's memory to copy the bytes, and a thread that waits for a page of the mount may have
/// that lock. A page fault of this thread needs no such lock.
void touch_pages(const std::byte* from, std::size_t bytes) noexcept {
  constexpr std::size_t page = 4096;
  const volatile std::byte* const all = from;
  for (std::size_t offset = 0; offset < bytes; offset += page)
    (void)all[offset];
  if (bytes > 0) (void)all[bytes - 1];
}

/// Lets malloc() get memory for this thread, from which short blocks are allocated later.
void prepare_malloc() noexcept {
  constexpr std::size_t block = std::size_t{16} << 10;
  std::array<std::unique_ptr<std::byte[]>, 7> blocks; // less than what free() gives back
  for (auto& each : blocks)
    each.reset(new (std::nothrow) std::byte[block]);
}

/// True if a write has failed for lack of space, or because of the storage.
bool is_of_storage(std::int64_t result) noexcept {
  return result == -ENOSPC || result == -EDQUOT || result == -EIO;
}

/// Makes the calling thread end in a system call if another thread cancels it, as long as the
/// object lives.
class cancellable {
 public:
  cancellable() noexcept { (void)::pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, nullptr); }
  cancellable(const cancellable&) = delete;
  cancellable& operator=(const cancellable&) = delete;
  ~cancellable() { (void)::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr); }
};

} // namespace

/// Counts a thread that uses the device. The last thread to leave closes the device, so that the
/// system ends requests without a reply.
class mount_device::presence {
 public:
  explicit presence(mount_device& of) noexcept : of_(of) {}
  presence(const presence&) = delete;
  presence& operator=(const presence&) = delete;
  ~presence() {
    const std::lock_guard guard(of_.mutex_);
    std::erase_if(of_.running_,
                  [](pthread_t each) { return ::pthread_equal(each, ::pthread_self()) != 0; });
    if (of_.is_stopping_ && of_.running_.empty()) of_.device_.reset();
  }

 private:
  mount_device& of_;
};

/// Replies to a read with the bytes where they arrive, without a copy to memory of this process.
class mount_device::reply_of_read final : public landing_sink {
 public:
  reply_of_read(mount_device& by, std::uint64_t unique) noexcept : by_(by), unique_(unique) {}

  std::int64_t take(const std::byte* from, std::size_t bytes) noexcept override {
    is_sent_ = true;
    touch_pages(from, bytes);
    by_.reply(unique_, 0, from, bytes);
    return 0;
  }

  [[nodiscard]] bool is_sent() const noexcept { return is_sent_; }

 private:
  mount_device& by_;
  std::uint64_t unique_;
  bool is_sent_ = false;
};

mount_device::mount_device(mounted_files& files, unique_fd device, unique_fd helper,
                           bool reads_ahead)
    : files_(files), device_(std::move(device)), helper_(std::move(helper)),
      reads_ahead_(reads_ahead), loop_(common_event_loop()), memory_(max_threads * memory_bytes),
      memory_to_read_(memory_bytes), memory_to_perform_(memory_bytes) {
  device_.close_on_fork();
  helper_.close_on_fork();
  running_.reserve(threads_.size() + late_threads_.size());
  try {
    late_threads_[0] = library_thread("farcall-service", [this] { look_for_overdue(); });
    late_threads_[1] = library_thread("farcall-service", [this] { read_late(); });
    late_threads_[2] = library_thread("farcall-service", [this] { perform_late(); });
    for (std::size_t i = 0; i < max_threads; ++i) {
      const std::span<std::byte> memory = memory_.bytes().subspan(i * memory_bytes, memory_bytes);
      threads_.at(i) = library_thread("farcall-service", [this, memory] { run(memory); });
    }
    // Without events, because epoll always reports EPOLLHUP.
    loop_->add(helper_.get(), EPOLLET, std::make_shared<function_handler>([this] { stop(); }));
    std::unique_lock lock(mutex_);
    prepared_.wait(lock, [&] { return is_stopping_ || unprepared_ == 0; });
  } catch (...) {
    stop();
    threads_ = {};
    late_threads_ = {};
    throw;
  }
}

/// Makes all threads leave run(), even if the mount has ended. Threads that wait for a request are
/// cancelled as they read, because a device cannot be closed while a thread reads from it.
void mount_device::stop() noexcept {
  const std::lock_guard guard(mutex_);
  if (std::exchange(is_stopping_, true)) return;
  for (const pthread_t each : running_)
    (void)::pthread_cancel(each);
  next_reader_.notify_all();
  prepared_.notify_all();
  late_.stop();
  // Wakes a thread that waits until the helper takes a message.
  if (helper_) (void)::shutdown(helper_.get(), SHUT_RDWR);
  if (running_.empty()) device_.reset();
}

void mount_device::finish() noexcept {
  stop();
  if (helper_) loop_->remove(helper_.get());
  loop_->drain();
  threads_ = {};
  late_threads_ = {};
  helper_.reset();
}

/// Gets what the calling thread needs to serve requests: memory, and a lane to the host. This needs
/// the lock of the process's memory, which the system may later keep until a request has its reply.
void mount_device::prepare() noexcept {
  prepare_malloc();
  // The result does not matter.
  (void)files_.perform({.operation = farcall_io_op_access, .path = {"/", 1}});
  const std::lock_guard guard(mutex_);
  if (--unprepared_ == 0) prepared_.notify_all();
}

/// Adds the calling thread to the threads that use the device. Returns false if it must end.
bool mount_device::enter() {
  (void)::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
  const std::lock_guard guard(mutex_);
  if (is_stopping_) return false;
  running_.push_back(::pthread_self());
  return true;
}

void mount_device::run(std::span<std::byte> memory) {
  if (!enter()) return;
  const presence here(*this);
  prepare();
  bool is_reader = false;
  for (;;) {
    if (!is_reader && !become_reader()) return;
    const std::size_t bytes = next_request(memory);
    if (bytes == 0) return stop();
    const std::span<std::byte> request = memory.first(bytes);
    is_reader = take_late(request, false);
    if (is_reader) continue;
    is_reader = !may_take_long(request);
    if (!is_reader) leave_reading();
    const auto begun = std::chrono::steady_clock::now();
    serve(request, memory);
    const std::chrono::nanoseconds taken = std::chrono::steady_clock::now() - begun;
    const std::int64_t before = average_ns_.load(std::memory_order_relaxed);
    if (size_of_data(request).value_or(UINT32_MAX) <= max_short)
      average_ns_.store(before + (taken.count() - before) / 8, std::memory_order_relaxed);
  }
}

/// Replies to writes of pages that take long. Has requests read if no thread reads them.
void mount_device::look_for_overdue() {
  if (!enter()) return;
  const presence here(*this);
  bool was_waiting = false;
  std::uint64_t before = 0;
  while (late_.pause(look_every)) {
    const late_requests::overdue found = late_.look();
    for (std::size_t i = 0; i < found.count; ++i)
      reply_written(found.all.at(i).unique, found.all.at(i).bytes);
    pollfd more{device_.get(), POLLIN, 0};
    const bool is_waiting = ::poll(&more, 1, 0) != 0;
    const std::uint64_t now = requests_.load(std::memory_order_relaxed);
    if (is_waiting && was_waiting && now == before) late_.wake_reader();
    was_waiting = is_waiting;
    before = now;
  }
}

/// Reads requests as long as requests are late, or if no other thread reads them.
void mount_device::read_late() {
  if (!enter()) return;
  const presence here(*this);
  while (late_.wait_to_read()) {
    const std::size_t bytes = next_request(memory_to_read_.bytes());
    if (bytes == 0) return stop();
    (void)take_late(memory_to_read_.bytes().first(bytes), true);
  }
}

/// Performs late requests.
void mount_device::perform_late() {
  if (!enter()) return;
  const presence here(*this);
  const std::span<std::byte> memory = memory_to_perform_.bytes();
  prepare();
  while (const std::size_t bytes = late_.next(memory))
    serve(memory.first(bytes), memory);
}

/// Returns false if the calling thread must perform the request. Makes the request late otherwise,
/// always with `is_late`.
bool mount_device::take_late(std::span<const std::byte> request, bool is_late) noexcept {
  const page_write pages = pages_of(request);
  switch (late_.take(request, pages, is_late)) {
  case late_requests::fate::now:
    return false;
  case late_requests::fate::late:
    if (pages.unique != 0) reply_written(pages.unique, pages.bytes);
    return true;
  default:
    if (const auto head = structure_at<fuse_in_header>(request, 0))
      reply(head->unique, -ENOMEM, nullptr, 0);
    return true;
  }
}

/// Waits until no other thread is the reader, and becomes the reader. Returns false if the mount
/// ends.
bool mount_device::become_reader() {
  std::unique_lock lock(mutex_);
  next_reader_.wait(lock, [&] { return is_stopping_ || !has_reader_; });
  has_reader_ = true;
  return !is_stopping_;
}

/// Lets another thread wait for requests.
void mount_device::leave_reading() {
  const std::lock_guard guard(mutex_);
  has_reader_ = false;
  next_reader_.notify_one();
}

/// True if another thread must wait for requests while this one is served: the request may take
/// long, or there are more requests.
bool mount_device::may_take_long(std::span<const std::byte> request) const noexcept {
  if (const auto bytes = size_of_data(request)) {
    if (*bytes > max_short || average_ns_.load(std::memory_order_relaxed) > long_average.count())
      return true;
  }
  pollfd more{device_.get(), POLLIN, 0};
  return ::poll(&more, 1, 0) != 0;
}

/// Waits for a request. Returns its size, or 0 if the mount has ended.
std::size_t mount_device::next_request(std::span<std::byte> to) {
  for (;;) {
    ssize_t got = 0;
    {
      // After a cancellation in read(), ThreadSanitizer ignores the locks of the thread.
      const iovec all{to.data(), to.size()};
      const cancellable now;
      got = ::preadv2(device_.get(), &all, 1, -1, 0);
    }
    if (got > 0) {
      requests_.fetch_add(1, std::memory_order_relaxed);
      return static_cast<std::size_t>(got);
    }
    // ENOENT: the request was interrupted before this thread could read it.
    if (got == 0 || (errno != EINTR && errno != ENOENT && errno != EAGAIN)) return 0;
  }
}

void mount_device::serve(std::span<std::byte> request, std::span<std::byte> memory) {
  const auto head = structure_at<fuse_in_header>(request, 0);
  if (!head) return;
  switch (head->opcode) {
  case FUSE_READ:
    return read(request, memory);
  case FUSE_WRITE:
    return write(request);
  case FUSE_BATCH_FORGET:
    return pass_on_forgets(request);
  default:
    return pass_on(request);
  }
}

void mount_device::read(std::span<const std::byte> request, std::span<std::byte> memory) {
  const auto head = structure_at<fuse_in_header>(request, 0);
  const auto wanted = structure_at<fuse_read_in>(request, sizeof(fuse_in_header));
  if (!wanted) return reply(head->unique, -EINVAL, nullptr, 0);
  const std::size_t bytes = std::min<std::size_t>(wanted->size, max_piece);
  const auto offset = static_cast<std::int64_t>(wanted->offset);
  if (reads_ahead_ && files_.is_cached(wanted->fh, static_cast<int>(wanted->flags))) {
    reply_of_read to(*this, head->unique);
    const std::int64_t result = files_.read_to(wanted->fh, bytes, offset, to);
    if (!to.is_sent()) reply(head->unique, result, nullptr, 0);
    return;
  }
  const std::int64_t result = files_.perform({.operation = farcall_io_op_read,
                                              .file = wanted->fh,
                                              .offset = offset,
                                              .bytes = bytes,
                                              .result = memory.data(),
                                              .result_bytes = bytes});
  reply(head->unique, result, memory.data(),
        result > 0 ? std::min(bytes, static_cast<std::size_t>(result)) : 0);
}

void mount_device::write(std::span<const std::byte> request) {
  const auto head = structure_at<fuse_in_header>(request, 0);
  const auto wanted = structure_at<fuse_write_in>(request, sizeof(fuse_in_header));
  if (!wanted || request.size() - before_data < wanted->size || wanted->size > max_piece)
    return reply(head->unique, -EINVAL, nullptr, 0);
  // The system writes a page of a shared mapping by any of the file's open files. The page has its
  // place in the file, so the flags, such as O_APPEND, do not count.
  const bool is_page = pages_of(request).unique != 0;
  const std::int64_t result = files_.write(
      wanted->fh, is_page ? 0 : static_cast<int>(wanted->flags),
      request.subspan(before_data, wanted->size), static_cast<std::int64_t>(wanted->offset));
  const bool is_replied = is_page && !late_.end(head->unique);
  // The result may be the error of an earlier write. If the system has divided one write of a
  // program, it drops the error of a later part.
  if (is_replied ? result < 0 : is_of_storage(result)) files_.note_late_error(wanted->fh, result);
  if (!is_replied) reply_written(head->unique, result);
}

/// Replies to a write with its result.
void mount_device::reply_written(std::uint64_t unique, std::int64_t result) noexcept {
  const fuse_write_out done{static_cast<std::uint32_t>(std::max<std::int64_t>(result, 0)), 0};
  reply(unique, result, &done, sizeof done);
}

/// Sends a request to the helper, which replies to it.
void mount_device::pass_on(std::span<const std::byte> request) noexcept {
  ssize_t sent = 0;
  do {
    sent = ::send(helper_.get(), request.data(), request.size(), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  // If the helper has ended, the device is closed soon, which ends all requests.
  if (sent >= 0 || errno == EPIPE || errno == ECONNRESET) return;
  const auto head = structure_at<fuse_in_header>(request, 0);
  reply(head->unique, -EIO, nullptr, 0);
}

/// Sends the helper a request that has no reply and may be longer than a message, in parts.
void mount_device::pass_on_forgets(std::span<const std::byte> request) noexcept {
  constexpr std::size_t before = sizeof(fuse_in_header) + sizeof(fuse_batch_forget_in);
  constexpr std::size_t most = (max_message - before) / sizeof(fuse_forget_one);
  auto head = structure_at<fuse_in_header>(request, 0);
  const auto all = structure_at<fuse_batch_forget_in>(request, sizeof(fuse_in_header));
  if (!all) return;
  const std::size_t count =
      std::min<std::size_t>(all->count, (request.size() - before) / sizeof(fuse_forget_one));
  std::array<std::byte, max_message> part; // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (std::size_t begun = 0; begun < count; begun += most) {
    const std::size_t some = std::min(most, count - begun);
    const std::size_t bytes = some * sizeof(fuse_forget_one);
    const fuse_batch_forget_in of_part{static_cast<std::uint32_t>(some), 0};
    head->len = static_cast<std::uint32_t>(before + bytes);
    std::memcpy(part.data(), &*head, sizeof *head);
    std::memcpy(part.data() + sizeof *head, &of_part, sizeof of_part);
    std::memcpy(part.data() + before, request.data() + before + begun * sizeof(fuse_forget_one),
                bytes);
    pass_on(std::span(part).first(before + bytes));
  }
}

/// Replies with a result, and with bytes if the result is no error.
void mount_device::reply(std::uint64_t unique, std::int64_t result, const void* bytes,
                         std::size_t count) noexcept {
  // The system accepts no numbers above 511, which some file systems use inside the kernel.
  constexpr std::int64_t most = 511;
  fuse_out_header head{};
  head.unique = unique;
  head.error = result >= 0 ? 0 : result >= -most ? static_cast<std::int32_t>(result) : -EIO;
  if (head.error != 0) count = 0;
  head.len = static_cast<std::uint32_t>(sizeof head + count);
  const std::array<iovec, 2> parts{iovec{&head, sizeof head},
                                   iovec{const_cast<void*>(bytes), count}};
  // Fails if the program was interrupted meanwhile, or if the mount has ended.
  (void)!::writev(device_.get(), parts.data(), count > 0 ? 2 : 1);
}

} // namespace farcall::files
