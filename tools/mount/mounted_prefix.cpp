// SPDX-License-Identifier: Apache-2.0
#include "mounted_prefix.hpp"

#include "mount_point.hpp"

#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace farcall::mount {
namespace {

constexpr std::chrono::seconds max_begin{10};

/// Number of KiB that the system reads ahead in a file, as a text.
constexpr char read_ahead_kib[] = "4096";

std::string text_of_failure(const std::string& path, const char* action, int number) {
  return path + " cannot be " + action + ": " + reason_text(number);
}

/// Returns the size of a device of the host, or 0 if it cannot be read.
std::int64_t size_of_device(target_link& link, const std::string& path) {
  farcall_io_opened_status opened{};
  if (link.open(path, O_RDONLY | O_NONBLOCK, 0, opened) < 0) return 0;
  const std::int64_t size = link.seek(opened.opened.file, 0, SEEK_END);
  (void)link.close(opened.opened.file);
  return std::max<std::int64_t>(size, 0);
}

/// Makes the system mount a folder or file, and returns the descriptor for its requests.
unique_fd mount_at(const std::string& path, bool is_folder, bool is_writable) {
  unique_fd device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!device) throw error("/dev/fuse cannot be opened: " + reason_text(errno));
  const std::string options = "fd=" + std::to_string(device.get()) +
                              ",rootmode=" + (is_folder ? "40000" : "100000") +
                              ",user_id=" + std::to_string(::geteuid()) +
                              ",group_id=" + std::to_string(::getegid()) + ",allow_other";
  const unsigned long flags = MS_NOSUID | MS_NODEV | (is_writable ? 0 : MS_RDONLY);
  if (::mount("farcall", path.c_str(), "fuse.farcall", flags, options.c_str()) != 0)
    throw error(text_of_failure(path, "mounted", errno));
  return device;
}

fuse_session* make_session(mounted_prefix* of) {
  std::array<char, 14> name{"farcall-mount"};
  std::array<char*, 2> words{name.data(), nullptr};
  fuse_args arguments FUSE_ARGS_INIT(1, words.data());
  return ::fuse_session_new(&arguments, &operations(), sizeof operations(), of);
}

} // namespace

target_link*& own_link() noexcept {
  thread_local target_link* link = nullptr;
  return link;
}

mounted_prefix::mounted_prefix(target_process& target, target_link& link, waiting_locks& locks,
                               const files::prefix& of, bool is_strict)
    : target_(target), locks_(locks), path_(of.path), is_strict_(is_strict),
      is_writable_(of.is_writable) {
  farcall_io_status root{};
  if (const std::int64_t result = link.stat(path_, 1, &root); result < 0)
    throw error(text_of_failure(path_, "used at the host", static_cast<int>(-result)));
  is_folder_ = S_ISDIR(root.mode);
  is_special_ = !is_folder_ && !S_ISREG(root.mode);
  is_pipe_ = S_ISFIFO(root.mode);
  if (S_ISBLK(root.mode)) device_bytes_ = size_of_device(link, path_);
  device_ = root.device;
  nodes_.emplace(path_, root);
  session_ = make_session(this);
  if (session_ == nullptr) throw error("libfuse makes no session for " + path_);
}

void mounted_prefix::mount() {
  make_mount_point(path_, is_folder_);
  unique_fd device = mount_at(path_, is_folder_, is_writable_);
  is_mounted_ = true;
  const std::string place = "/dev/fd/" + std::to_string(device.release());
  if (::fuse_session_mount(session_, place.c_str()) != 0)
    throw error("libfuse cannot serve " + path_);
  start_thread();
  start_thread();
  wait_for_begin();
  widen_read_ahead();
}

/// Makes the system read files ahead in larger pieces than 128 KiB, which it does if the user is
/// root.
void mounted_prefix::widen_read_ahead() {
  // Have the system ask for the owner at once. Until then it takes root for the owner, whom an
  // ordinary user's namespace lacks, and lets nobody write.
  struct stat s{};
  if (::stat(path_.c_str(), &s) != 0) return;
  const std::string setting = "/sys/class/bdi/" + std::to_string(major(s.st_dev)) + ":" +
                              std::to_string(minor(s.st_dev)) + "/read_ahead_kb";
  const unique_fd file(::open(setting.c_str(), O_WRONLY | O_CLOEXEC));
  const bool is_set = file && ::write(file.get(), read_ahead_kib, sizeof read_ahead_kib - 1) > 0;
  reads_ahead_.store(is_set, std::memory_order_relaxed);
}

std::uint64_t mounted_prefix::shown_inode(const farcall_io_status& of) const noexcept {
  // Entries without a status have no device.
  if (of.device == device_ || of.device == 0) return of.inode;
  constexpr std::uint64_t factor = 0x9e3779b97f4a7c15;
  constexpr std::uint64_t highest = std::uint64_t{1} << 63;
  return (of.inode ^ of.device * factor) | highest;
}

void mounted_prefix::wait_for_begin() {
  std::unique_lock lock(mutex_);
  if (!begun_.wait_for(lock, max_begin, [&] { return has_begun_; }))
    throw error("the system does not begin to use " + path_);
}

void mounted_prefix::note_begin() noexcept {
  const std::lock_guard guard(mutex_);
  has_begun_ = true;
  begun_.notify_all();
}

void mounted_prefix::start_thread() {
  {
    const std::lock_guard guard(mutex_);
    if (threads_ == max_threads) return;
    ++threads_;
    ++idle_;
  }
  try {
    std::thread([this] { serve(); }).detach();
  } catch (const std::system_error&) {
    // The threads that exist serve all requests.
    const std::lock_guard guard(mutex_);
    --threads_;
    --idle_;
  }
}

/// Serves requests until the mount ends.
void mounted_prefix::serve() noexcept {
  std::optional<target_link> link;
  try {
    link.emplace(target_);
  } catch (const error&) {
    const std::lock_guard guard(mutex_);
    --threads_;
    --idle_;
    return;
  }
  own_link() = &*link;
  for (;;) {
    fuse_buf request{};
    request.mem = link->request_memory();
    request.size = target_link::max_request;
    const int got = ::fuse_session_receive_buf(session_, &request);
    if (got == -EINTR) continue;
    if (got <= 0) break;
    bool was_last = false;
    {
      const std::lock_guard guard(mutex_);
      was_last = --idle_ == 0;
    }
    // Keep a thread that waits for requests, because this one may have to wait long.
    if (was_last) start_thread();
    if (!serve_unknown(*this, request)) ::fuse_session_process_buf(session_, &request);
    const std::lock_guard guard(mutex_);
    ++idle_;
  }
  own_link() = nullptr;
}

} // namespace farcall::mount
