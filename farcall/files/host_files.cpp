// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/files/file_view.hpp>
#include <farcall/files/host_files.hpp>
#include <farcall/job/host_side.hpp>
#include <farcall/offload/job_state.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::files {

host_files::open_file::~open_file() {
  if (descriptor)
    closed->store(::close(descriptor.release()) != 0 ? -errno : 0, std::memory_order_relaxed);
}

host_files::host_files(access_list allowed) : allowed_(std::move(allowed)) {}

std::string host_files::for_targets() const {
  return text_of(own_file_view()) + ';' + text_of(allowed_.prefixes());
}

void host_files::node_ended(node_id node) noexcept {
  std::map<std::uint64_t, file_ref> gone;
  std::shared_ptr<host_locks> released;
  {
    const std::lock_guard guard(mutex_);
    try {
      target& t = targets_[node];
      t.has_ended = true;
      gone.swap(t.files);
      released.swap(t.locks);
    } catch (const std::bad_alloc&) {
      // Ignore the lack of memory, which occurs only if the target has no entry yet. Such a target
      // has opened no file.
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

std::shared_ptr<host_locks> host_files::locks_of(node_id node) {
  const std::lock_guard guard(mutex_);
  return targets_[node].locks;
}

descriptor_share host_files::share(const detail::job_state& job) {
  // The host is a node, too.
  return share_of_target(std::max<std::size_t>(job.members->live_nodes(), 2) - 1,
                         most_descriptors());
}

class host_files::place {
 public:
  place(host_files& from, const detail::job_state& job, node_id node) : from_(from), node_(node) {
    const std::size_t most = from.share(job).files;
    const std::lock_guard guard(from_.mutex_);
    target& t = from_.targets_[node_];
    why_not_ = t.has_ended ? -EIO : t.files.size() + t.reserved >= most ? -EMFILE : 0;
    is_taken_ = why_not_ == 0;
    if (is_taken_) ++t.reserved;
  }
  place(const place&) = delete;
  place& operator=(const place&) = delete;
  ~place() {
    if (!is_taken_) return;
    const std::lock_guard guard(from_.mutex_);
    --from_.targets_[node_].reserved;
  }

  /// Returns 0, or -errno if the target may open no more files.
  [[nodiscard]] std::int64_t why_not() const noexcept { return why_not_; }

  /// Adds an open file in this place. May be called once. Returns the file's number, or -errno.
  [[nodiscard]] std::int64_t keep(const file_ref& file) {
    if (why_not_ < 0) return why_not_;
    const std::lock_guard guard(from_.mutex_);
    target& t = from_.targets_[node_];
    if (t.has_ended) return -EIO;
    t.files.emplace(++t.last, file);
    is_taken_ = false;
    --t.reserved;
    return static_cast<std::int64_t>(t.last);
  }

 private:
  host_files& from_;
  node_id node_;
  std::int64_t why_not_ = 0;
  bool is_taken_ = false;
};

std::int64_t host_files::follow(node_id node, std::uint64_t folder, std::string& path) {
  if (folder == 0) return 0;
  const file_ref file = find(node, folder);
  if (file == nullptr || file->path.empty() || !path.starts_with(file->path + '/')) return 0;
  std::string now;
  const int why_not = allowed_.find_path(file->descriptor.get(), now);
  if (why_not == -ENOSYS) return 0;
  if (why_not == 0) path.replace(0, file->path.size(), now);
  return why_not;
}

std::int64_t host_files::open(call& c) {
  const request& what = c.what;
  place reserved(*this, c.job, c.node);
  // A file that is only passed to the target needs no place.
  constexpr std::uint32_t wishes = open_wishes::descriptor | open_wishes::number_too;
  if (reserved.why_not() < 0 && (what.flags & wishes) != open_wishes::descriptor)
    return reserved.why_not();
  unique_fd file(allowed_.open(what.path, to_system_flags(what.flags), what.mode));
  if (!file) return file.get();
  return give(c, reserved, std::move(file), allowed_.is_writable(what.path));
}

std::int64_t host_files::reopen(call& c) {
  struct stat s{};
  place reserved(*this, c.job, c.node);
  if (reserved.why_not() < 0) return reserved.why_not();
  if (::fstat(c.fd(), &s) != 0) return -errno;
  const int flags = to_system_flags(c.what.flags) & ~(O_CREAT | O_EXCL | O_NOFOLLOW | O_DIRECTORY);
  const bool changes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0;
  if (!S_ISREG(s.st_mode) || (changes && !c.file->is_writable)) return -EACCES;
  const std::string itself = "/proc/self/fd/" + std::to_string(c.fd());
  unique_fd file(::open(itself.c_str(), flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  return file ? give(c, reserved, std::move(file), c.file->is_writable) : -errno;
}

/// Gives an opened file to the target that has requested it.
std::int64_t host_files::give(call& c, place& reserved, unique_fd file, bool is_writable) {
  const request& what = c.what;
  struct stat s{};
  keep_spare_descriptors(file.get());
  if (::fstat(file.get(), &s) != 0) return -errno;
  const bool is_regular = S_ISREG(s.st_mode) || S_ISDIR(s.st_mode);
  if (is_regular && (what.flags & open_flags::nonblock) == 0) {
    // Clear O_NONBLOCK again, with which access_list::open() opens all files. Pipes and devices
    // keep it, because a read or write that waits would hold up the thread that serves the lane.
    // The target tries again instead.
    const int flags = ::fcntl(file.get(), F_GETFL);
    (void)::fcntl(file.get(), F_SETFL, flags & ~O_NONBLOCK);
  }
  opened_file opened{0, status_of(s)};
  // Don't pass folders, because a target could open ".." of a folder's descriptor, and so leave the
  // prefix.
  const bool is_passed = (what.flags & open_wishes::descriptor) != 0 && S_ISREG(s.st_mode) &&
                         c.job.host->send_file(c.node, what.transfer, file.get());
  if (!is_passed || (what.flags & open_wishes::number_too) != 0) {
    auto kept = std::make_shared<open_file>();
    kept->descriptor = std::move(file);
    kept->is_writable = is_writable;
    kept->is_regular = is_regular;
    kept->is_pipe = S_ISFIFO(s.st_mode);
    if (S_ISDIR(s.st_mode)) kept->path = c.asked_path;
    const std::int64_t number = reserved.keep(kept);
    if (number < 0) return number;
    opened.file = static_cast<std::uint64_t>(number);
    if (is_passed) opened.file |= opened_file::passed_too;
  }
  c.reply.put(opened);
  return 0;
}

std::int64_t host_files::close(call& c) {
  {
    const std::lock_guard guard(mutex_);
    if (targets_[c.node].files.erase(c.what.file) == 0) return -EBADF;
  }
  // Close the file now, unless another thread still uses it. In that case the other thread closes
  // it later, and an error of closing is lost.
  const auto closed = c.file->closed;
  c.file.reset();
  return closed->load(std::memory_order_relaxed);
}

std::int64_t host_files::find_file(call& c) {
  const unsigned traits = traits_of(c.what.what);
  if ((traits & FARCALL_IO_ON_FILE) == 0) return 0;
  if ((traits & FARCALL_IO_ON_PATH) != 0 && !c.what.path.empty()) {
    c.name = unique_fd(allowed_.open_name(c.what.path, c.what.flags != 0));
    return c.name ? 0 : c.name.get();
  }
  c.file = find(c.node, c.what.file);
  return c.file != nullptr ? 0 : -EBADF;
}

std::int64_t host_files::perform(call& c) {
#define FARCALL_IO_FUNCTION(name, ...) &host_files::name,
  static constexpr std::array functions{FARCALL_IO_OPERATIONS(FARCALL_IO_FUNCTION)};
#undef FARCALL_IO_FUNCTION
  const auto number = static_cast<std::size_t>(c.what.what);
  if (number >= functions.size()) return -ENOSYS;
  if (c.what.path.find('\0') != std::string_view::npos ||
      c.what.to.find('\0') != std::string_view::npos)
    return -EINVAL;
  if (const std::int64_t why_not = find_file(c); why_not < 0) return why_not;
  return (this->*functions[number])(c);
}

void host_files::serve(const detail::job_state& job, am::request_context& to, const request& what) {
  host_reply reply(to, what.landing);
  if ((traits_of(what.what) & FARCALL_IO_ON_PATH) == 0 || what.path.empty()) {
    call c{job, to.source(), what, {}, reply};
    reply.send(perform(c));
    return;
  }
  const bool has_two = what.what == operation::rename || what.what == operation::link;
  std::string path(what.path);
  std::string second(what.to);
  std::int64_t result = follow(to.source(), what.file, path);
  if (result == 0 && has_two)
    result = follow(to.source(), static_cast<std::uint64_t>(what.offset), second);
  request now = what;
  now.path = path;
  if (has_two) now.to = second;
  call c{job, to.source(), now, what.path, reply};
  reply.send(result == 0 ? perform(c) : result);
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
