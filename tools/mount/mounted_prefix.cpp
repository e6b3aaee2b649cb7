// SPDX-License-Identifier: Apache-2.0
#include "mounted_prefix.hpp"

#include "mount_point.hpp"

#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/mount.h>
#include <sys/socket.h>
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

mounted_prefix::mounted_prefix(target_process& target, target_link& link, waiting_requests& waiting,
                               const files::prefix& of, bool is_strict)
    : target_(target), waiting_(waiting), path_(of.path), is_strict_(is_strict),
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

void mounted_prefix::mount(target_link& link) {
  make_mount_point(path_, is_folder_);
  unique_fd device = mount_at(path_, is_folder_, is_writable_);
  is_mounted_ = true;
  const int number = device.release();
  const fuse_custom_io io{write_reply, read_request, nullptr, nullptr};
  if (::fuse_session_custom_io(session_, &io, number) != 0)
    throw error("libfuse cannot serve " + path_);
  backing_.emplace(number);
  start_thread();
  start_thread();
  wait_for_begin();
  widen_read_ahead();
  root_ = unique_fd(::open(path_.c_str(), O_PATH | O_CLOEXEC));
  // The helper itself waits for pipes and devices.
  if (!is_special_) give_device_to_target(link);
}

/// Lets the target read requests from the device, so that reads and writes do not pass this helper.
/// If that fails, the helper serves all requests.
void mounted_prefix::give_device_to_target(target_link& link) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
  requests_ = unique_fd(ends[0]);
  const unique_fd theirs(ends[1]);
  // A thread that waits for the device would take requests from the target, and never look at the
  // socket.
  stop_threads();
  const bool is_given = link.serve(::fuse_session_fd(session_), theirs.get(), reads_ahead()) == 0;
  // Release, paired with the acquire load in receive().
  has_requests_.store(is_given, std::memory_order_release);
  start_thread();
  start_thread();
}

/// Ends all threads. The system has no requests at this time, because no program knows the mount.
void mounted_prefix::stop_threads() {
  std::unique_lock lock(mutex_);
  is_handing_over_ = true;
  for (const pthread_t each : running_)
    (void)::pthread_cancel(each);
  ended_.wait(lock, [&] { return threads_ == 0; });
  is_handing_over_ = false;
  idle_ = 0;
}

void mounted_prefix::abort() noexcept {
  if (!root_) return;
  // By the descriptor, because another file system may be mounted at the path by now. The
  // descriptor also keeps the system from unmounting.
  const std::string root = "/proc/self/fd/" + std::to_string(root_.get());
  if (::umount2(root.c_str(), MNT_FORCE) == 0 || errno != EINVAL) return;
  // The mount has gone, for instance because its folder was removed in another namespace. Programs
  // may still wait for replies.
  const std::string folder = "/sys/fs/fuse/connections";
  const std::string file = folder + "/" + std::to_string(connection_) + "/abort";
  if (::access(file.c_str(), W_OK) != 0)
    (void)::mount("fusectl", folder.c_str(), "fusectl", 0, nullptr);
  const unique_fd aborts(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  if (aborts) (void)!::write(aborts.get(), "1", 1);
}

/// Makes the system read files ahead in larger pieces than 128 KiB, which it does if the user is
/// root.
void mounted_prefix::widen_read_ahead() {
  // Have the system ask for the owner at once. Until then it takes root for the owner, whom an
  // ordinary user's namespace lacks, and lets nobody write.
  struct stat s{};
  if (::stat(path_.c_str(), &s) != 0) return;
  connection_ = minor(s.st_dev);
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

/// Waits for a request. Returns its size, 0 or -errno. stop_threads() ends the wait for the device.
int mounted_prefix::receive(fuse_buf& request) {
  ssize_t got = 0;
  if (has_requests_.load(std::memory_order_acquire)) {
    got = ::recv(requests_.get(), request.mem, request.size, 0);
  } else {
    (void)::pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, nullptr);
    got = ::read(::fuse_session_fd(session_), request.mem, request.size);
    const int why = errno;
    (void)::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
    errno = why;
    // ENOENT: the request was interrupted before this thread could read it.
    if (got < 0 && errno == ENOENT) return -EINTR;
  }
  if (got < 0) return -errno;
  request.size = static_cast<std::size_t>(got);
  return static_cast<int>(got);
}

/// Counts a thread in serve(), which may end by a cancellation.
class mounted_prefix::presence {
 public:
  explicit presence(mounted_prefix& of) noexcept : of_(of) {}
  presence(const presence&) = delete;
  presence& operator=(const presence&) = delete;
  ~presence() {
    own_link() = nullptr;
    const std::lock_guard guard(of_.mutex_);
    std::erase_if(of_.running_,
                  [](pthread_t each) { return ::pthread_equal(each, ::pthread_self()) != 0; });
    --of_.threads_;
    of_.ended_.notify_all();
  }

 private:
  mounted_prefix& of_;
};

/// Adds the calling thread to the threads of the mount. Returns false if the thread must end.
bool mounted_prefix::begin_thread() {
  (void)::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
  const std::lock_guard guard(mutex_);
  running_.push_back(::pthread_self());
  return !is_handing_over_;
}

/// Serves requests until the mount ends.
void mounted_prefix::serve() {
  const presence here(*this);
  if (!begin_thread()) return;
  std::optional<target_link> link;
  try {
    link.emplace(target_);
  } catch (const error&) {
    const std::lock_guard guard(mutex_);
    --idle_;
    return;
  }
  own_link() = &*link;
  for (;;) {
    fuse_buf request{};
    request.mem = link->request_memory();
    request.size = target_link::max_request;
    const int got = receive(request);
    if (got == -EINTR) continue;
    if (got <= 0) break;
    bool was_last = false;
    {
      const std::lock_guard guard(mutex_);
      was_last = --idle_ == 0;
    }
    // Keep a thread that waits for requests, because this one may have to wait long.
    if (was_last) start_thread();
    fuse_in_header head{};
    fuse_init_in first{};
    if (request.size >= sizeof head + sizeof first) {
      std::memcpy(&head, request.mem, sizeof head);
      std::memcpy(&first, static_cast<const char*>(request.mem) + sizeof head, sizeof first);
      if (head.opcode == FUSE_INIT) note_first_request(first);
    }
    if (!serve_unknown(*this, request)) ::fuse_session_process_buf(session_, &request);
    const std::lock_guard guard(mutex_);
    ++idle_;
  }
  // The target no longer passes requests on, so nothing would reply to them.
  if (has_requests_.load(std::memory_order_relaxed)) abort();
}

} // namespace farcall::mount
