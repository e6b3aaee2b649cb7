// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/memory_file.hpp>
#include <farcall/files/late_requests.hpp>

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

namespace farcall::files {
namespace {

/// Number of kept bytes above which writes of pages wait a little.
constexpr std::uint64_t many_bytes = std::uint64_t{64} << 20;
/// Longest wait for space. A thread that performs requests may wait for the writer itself.
constexpr std::chrono::milliseconds max_wait_for_space{20};

} // namespace

request_memory::request_memory(std::size_t bytes) : bytes_(bytes) {
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  (void)::madvise(mapped, bytes, MADV_DONTFORK);
  begin_ = static_cast<std::byte*>(mapped);
}

request_memory::~request_memory() { (void)::munmap(begin_, bytes_); }

late_requests::late_requests() : file_(make_memory_file("farcall-requests", MFD_CLOEXEC)) {
  if (!file_) throw std::system_error(errno, std::system_category());
  file_.close_on_fork();
}

/// Appends a request to the file. Returns false if the system has no memory.
bool late_requests::keep(std::span<const std::byte> request) noexcept {
  std::uint64_t bytes = request.size();
  const std::array<iovec, 2> parts{iovec{&bytes, sizeof bytes},
                                   iovec{const_cast<std::byte*>(request.data()), request.size()}};
  const auto all = static_cast<ssize_t>(sizeof bytes + request.size());
  if (::pwritev(file_.get(), parts.data(), 2, static_cast<off_t>(end_)) != all) return false;
  end_ += static_cast<std::uint64_t>(all);
  return true;
}

late_requests::fate late_requests::take(std::span<const std::byte> request, const page_write& pages,
                                        bool is_late) noexcept {
  std::unique_lock lock(mutex_);
  if (!is_late && !is_late_) {
    if (pages.unique == 0) return fate::now;
    const auto free = std::find_if(performed_.begin(), performed_.end(),
                                   [](const performed& each) { return each.pages.unique == 0; });
    // There are as many places as threads. Without a place, the write is never late.
    if (free != performed_.end()) *free = {pages};
    return fate::now;
  }
  if (!keep(request)) return fate::none;
  is_late_ = true;
  more_.notify_one();
  if (pages.unique != 0) {
    (void)space_.wait_for(lock, max_wait_for_space,
                          [&] { return is_stopping_ || end_ - begin_ <= many_bytes; });
  }
  return fate::late;
}

bool late_requests::end(std::uint64_t unique) noexcept {
  const std::lock_guard guard(mutex_);
  const auto at = std::find_if(performed_.begin(), performed_.end(),
                               [&](const performed& each) { return each.pages.unique == unique; });
  if (at == performed_.end()) return false;
  const bool is_replied = at->is_replied;
  *at = {};
  if (is_replied && --unfinished_ == 0) more_.notify_one();
  return !is_replied;
}

/// Takes the first request out of the file. Returns its size, or 0 if the file cannot be read.
std::size_t late_requests::take_first(std::span<std::byte> to) noexcept {
  const auto at = static_cast<off_t>(begin_);
  std::uint64_t bytes = 0;
  constexpr auto before = static_cast<ssize_t>(sizeof bytes);
  if (::pread(file_.get(), &bytes, sizeof bytes, at) != before || bytes > to.size()) {
    begin_ = end_;
    return 0;
  }
  const ssize_t got = ::pread(file_.get(), to.data(), bytes, at + before);
  // Gives the file's memory back before the file is empty.
  (void)::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at,
                    before + static_cast<off_t>(bytes));
  begin_ += sizeof bytes + bytes;
  space_.notify_all();
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

std::size_t late_requests::next(std::span<std::byte> to) noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (unfinished_ > 0) {
      more_.wait(lock);
    } else if (begin_ != end_) {
      if (const std::size_t bytes = take_first(to); bytes > 0) return bytes;
    } else {
      if (end_ != 0) (void)::ftruncate(file_.get(), 0);
      begin_ = end_ = 0;
      is_late_ = false;
      if (is_stopping_) return 0;
      more_.wait(lock);
    }
  }
}

late_requests::overdue late_requests::look() noexcept {
  overdue found{};
  const std::lock_guard guard(mutex_);
  for (performed& each : performed_) {
    if (each.pages.unique == 0 || each.is_replied) continue;
    if (each.is_seen) {
      each.is_replied = true;
      ++unfinished_;
      found.all.at(found.count++) = each.pages;
    }
    each.is_seen = true;
  }
  if (found.count > 0) {
    is_late_ = true;
    reading_.notify_one();
  }
  return found;
}

bool late_requests::pause(std::chrono::milliseconds time) noexcept {
  std::unique_lock lock(mutex_);
  return !stopping_.wait_for(lock, time, [&] { return is_stopping_; });
}

bool late_requests::wait_to_read() noexcept {
  std::unique_lock lock(mutex_);
  reading_.wait(lock, [&] { return is_stopping_ || is_late_ || is_reading_; });
  is_reading_ = false;
  return !is_stopping_;
}

void late_requests::wake_reader() noexcept {
  const std::lock_guard guard(mutex_);
  is_reading_ = true;
  reading_.notify_one();
}

void late_requests::stop() noexcept {
  const std::lock_guard guard(mutex_);
  is_stopping_ = true;
  more_.notify_all();
  space_.notify_all();
  reading_.notify_all();
  stopping_.notify_all();
}

} // namespace farcall::files
