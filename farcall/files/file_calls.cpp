#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings_source.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/files/attach.hpp>
#include <farcall/files/file_calls.hpp>
#include <farcall/files/file_view.hpp>
#include <farcall/offload/job_state.hpp>

#include <cerrno>
#include <chrono>
#include <mutex>
#include <optional>
#include <utility>

namespace farcall::files {
namespace {

/// A file that the host has passed comes by another way than its reply, from which it is behind by
/// what a thread takes to wake up.
constexpr std::chrono::seconds longest_on_its_way{5};

bool are_buffered() {
  const setting& s = settings::row("io-buffer");
  return settings_source().text(s).value_or(settings::default_of(s)) == "on";
}

} // namespace

file_calls::file_calls(detail::job_core& job, std::vector<prefix> prefixes, bool wants_descriptors)
    : prefixes_(std::move(prefixes)), buffers_(are_buffered()),
      wants_descriptors_(wants_descriptors), host_(job) {}

bool file_calls::is_hosts(std::string_view path) const noexcept {
  try {
    return find_prefix(prefixes_, path).has_value();
  } catch (const std::bad_alloc&) {
    // Opening it there fails likewise.
    return true;
  }
}

file_calls::file_ref file_calls::find(std::uint64_t number) {
  const std::shared_lock guard(mutex_);
  const auto at = files_.find(number);
  return at == files_.end() ? nullptr : at->second;
}

void file_calls::keep(const file_ref& opened) {
  std::vector<file_ref> same;
  {
    const std::lock_guard guard(mutex_);
    for (const auto& [number, other] : files_) {
      if (other->is_same_as(*opened) && (other->can_write() || opened->can_write()))
        same.push_back(other);
    }
    files_.emplace(opened->number(), opened);
  }
  if (same.empty()) return;
  opened->stop_buffering();
  for (const file_ref& other : same)
    other->stop_buffering();
}

/// What `f` returns of the file.
template <class F>
std::int64_t file_calls::on_file(std::uint64_t file, const F& f) noexcept {
  return host_.guarded([&]() -> std::int64_t {
    const file_ref found = find(file);
    return found == nullptr ? -EBADF : f(*found);
  });
}

/// What `f` returns, after everything that was written: the path may be of a file that is open.
template <class F>
std::int64_t file_calls::on_path(const F& f) noexcept {
  return host_.guarded([&]() -> std::int64_t {
    std::vector<file_ref> written;
    {
      const std::shared_lock guard(mutex_);
      for (const auto& [number, file] : files_) {
        if (file->can_write()) written.push_back(file);
      }
    }
    for (const file_ref& file : written)
      file->wait_for_writes();
    return f();
  });
}

std::int64_t file_calls::ask_file(request what, void* to, std::size_t bytes) noexcept {
  return on_file(what.file, [&](buffered_file& file) {
    if (to == nullptr) return file.ask(what);
    const landing_place landing(to, bytes);
    what.landing = landing.number();
    return file.ask(what);
  });
}

std::int64_t file_calls::ask_path(request what, void* to, std::size_t bytes) noexcept {
  return on_path([&] {
    if (to == nullptr) return host_.ask(what);
    const landing_place landing(to, bytes);
    what.landing = landing.number();
    return host_.ask(what);
  });
}

std::int64_t file_calls::ask_either(const request& what, void* to, std::size_t bytes) noexcept {
  return what.path.empty() ? ask_file(what, to, bytes) : ask_path(what, to, bytes);
}

std::int64_t file_calls::ask_to_open(const request& what, opened_file& there) {
  const landing_place landing(&there, sizeof there);
  request r = what;
  r.landing = landing.number();
  return host_.ask(r);
}

std::int64_t file_calls::open(std::string_view path, int flags, std::uint32_t mode,
                              farcall_io_opened& opened) noexcept {
  return on_path([&]() -> std::int64_t {
    request what{
        .what = operation::open, .flags = to_open_flags(flags), .mode = mode, .path = path};
    std::optional<passed_files::ticket> wanted;
    if (wants_descriptors_) {
      wanted.emplace(passed_);
      what.flags |= open_wishes::descriptor;
      what.transfer = wanted->number();
    }
    opened_file there;
    if (const std::int64_t result = ask_to_open(what, there); result < 0) return result;
    opened = {there.file, there.mode, -1};
    if (wanted && there.file == 0) {
      unique_fd file = wanted->wait(deadline_after(longest_on_its_way));
      opened.descriptor = file.release();
      return opened.descriptor < 0 ? -EIO : 0;
    }
    try {
      keep(std::make_shared<buffered_file>(host_, there, flags, buffers_));
    } catch (...) {
      (void)host_.ask({.what = operation::close, .file = there.file});
      throw;
    }
    return 0;
  });
}

void file_calls::take_file(std::uint64_t number, unique_fd file) noexcept {
  passed_.put(number, std::move(file));
}

std::int64_t file_calls::close(std::uint64_t file) noexcept {
  return host_.guarded([&]() -> std::int64_t {
    file_ref gone;
    {
      const std::lock_guard guard(mutex_);
      const auto at = files_.find(file);
      if (at == files_.end()) return -EBADF;
      gone = std::move(at->second);
      files_.erase(at);
    }
    return gone->ask({.what = operation::close, .file = file});
  });
}

std::int64_t file_calls::flush(std::uint64_t file) noexcept {
  return on_file(file, [](buffered_file& f) {
    f.wait_for_writes();
    return f.take_error();
  });
}

std::int64_t file_calls::read(std::uint64_t file, void* to, std::size_t bytes) noexcept {
  return on_file(file, [&](buffered_file& f) { return f.read(to, bytes); });
}

std::int64_t file_calls::write(std::uint64_t file, const void* from, std::size_t bytes) noexcept {
  return on_file(file, [&](buffered_file& f) { return f.write(from, bytes); });
}

std::int64_t file_calls::pread(std::uint64_t file, void* to, std::size_t bytes,
                               std::int64_t offset) noexcept {
  return on_file(file, [&](buffered_file& f) { return f.pread(to, bytes, offset); });
}

std::int64_t file_calls::pwrite(std::uint64_t file, const void* from, std::size_t bytes,
                                std::int64_t offset) noexcept {
  return on_file(file, [&](buffered_file& f) { return f.pwrite(from, bytes, offset); });
}

std::int64_t file_calls::seek(std::uint64_t file, std::int64_t offset, int whence) noexcept {
  return on_file(file, [&](buffered_file& f) { return f.seek(offset, whence); });
}

std::int64_t file_calls::set_flags(std::uint64_t file, int flags) noexcept {
  return on_file(file, [&](buffered_file& f) { return f.set_flags(flags); });
}

std::int64_t file_calls::fstat(std::uint64_t file, farcall_io_status& status) noexcept {
  return ask_file({.what = operation::fstat, .file = file}, &status, sizeof status);
}

std::int64_t file_calls::ftruncate(std::uint64_t file, std::int64_t size) noexcept {
  return ask_file({.what = operation::ftruncate, .file = file, .offset = size});
}

std::int64_t file_calls::fsync(std::uint64_t file, bool data_only) noexcept {
  return ask_file({.what = operation::fsync, .file = file, .flags = data_only ? 1U : 0U});
}

std::int64_t file_calls::list(std::uint64_t file, void* to, std::size_t bytes) noexcept {
  return ask_file({.what = operation::list, .file = file, .bytes = bytes}, to, bytes);
}

std::int64_t file_calls::stat(std::string_view path, bool follows_link,
                              farcall_io_status& status) noexcept {
  return ask_path({.what = operation::stat, .flags = follows_link ? 1U : 0U, .path = path}, &status,
                  sizeof status);
}

std::int64_t file_calls::access(std::string_view path, int mode) noexcept {
  return ask_path(
      {.what = operation::access, .flags = static_cast<std::uint32_t>(mode), .path = path});
}

std::int64_t file_calls::truncate(std::string_view path, std::int64_t size) noexcept {
  return on_path([&] {
    {
      const std::shared_lock guard(mutex_);
      for (const auto& [number, file] : files_)
        file->drop_read_ahead();
    }
    return host_.ask({.what = operation::truncate, .offset = size, .path = path});
  });
}

std::int64_t file_calls::unlink(std::string_view path) noexcept {
  return ask_path({.what = operation::unlink, .path = path});
}

std::int64_t file_calls::rmdir(std::string_view path) noexcept {
  return ask_path({.what = operation::rmdir, .path = path});
}

std::int64_t file_calls::mkdir(std::string_view path, std::uint32_t mode) noexcept {
  return ask_path({.what = operation::mkdir, .mode = mode, .path = path});
}

std::int64_t file_calls::rename(std::string_view from, std::string_view to,
                                std::uint32_t flags) noexcept {
  return ask_path({.what = operation::rename, .flags = flags, .path = from, .to = to});
}

std::int64_t file_calls::read_link(std::string_view path, char* to, std::size_t bytes) noexcept {
  return ask_path({.what = operation::read_link, .bytes = bytes, .path = path}, to, bytes);
}

std::int64_t file_calls::link(std::string_view from, std::string_view to,
                              bool follows_link) noexcept {
  return ask_either(
      {.what = operation::link, .flags = follows_link ? 1U : 0U, .path = from, .to = to});
}

std::int64_t file_calls::symlink(std::string_view content, std::string_view path) noexcept {
  return ask_path({.what = operation::symlink, .path = path, .to = content});
}

std::int64_t file_calls::allocate(std::uint64_t file, int mode, std::int64_t offset,
                                  std::int64_t bytes) noexcept {
  if (offset < 0 || bytes <= 0) return -EINVAL;
  return ask_file({.what = operation::allocate,
                   .file = file,
                   .offset = offset,
                   .bytes = static_cast<std::uint64_t>(bytes),
                   .flags = static_cast<std::uint32_t>(mode)});
}

std::int64_t file_calls::set_mode(std::uint64_t file, std::string_view path,
                                  std::uint32_t mode) noexcept {
  return ask_either(
      {.what = operation::set_mode, .file = file, .flags = 1, .mode = mode, .path = path});
}

std::int64_t file_calls::set_owner(std::uint64_t file, std::string_view path, bool follows_link,
                                   std::uint32_t user, std::uint32_t group) noexcept {
  return ask_either({.what = operation::set_owner,
                     .file = file,
                     .offset = group,
                     .bytes = user,
                     .flags = follows_link ? 1U : 0U,
                     .path = path});
}

std::int64_t file_calls::set_times(std::uint64_t file, std::string_view path, bool follows_link,
                                   const farcall_io_times& times) noexcept {
  return ask_either({.what = operation::set_times,
                     .file = file,
                     .flags = follows_link ? 1U : 0U,
                     .path = path,
                     .data = std::as_bytes(std::span(&times, 1))});
}

std::int64_t file_calls::space(std::uint64_t file, std::string_view path,
                               farcall_io_space& space) noexcept {
  return ask_either({.what = operation::space, .file = file, .flags = 1, .path = path}, &space,
                    sizeof space);
}

void file_calls::finish() noexcept {
  detach(*this);
  host_.end([this] {
    // Nobody uses them any more.
    for (const auto& [number, file] : files_) {
      file->wait_for_writes();
      if (const std::int64_t error = file->take_error(); error < 0) {
        log::warning("a file of the host that was still open at the end could not be written: " +
                     reason_text(static_cast<int>(-error)));
      }
    }
    files_.clear();
  });
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
  const std::size_t end_of_view = told.find(';');
  if (end_of_view == std::string::npos) throw error("the host does not say how it sees files");
  const transport* const way = job.members->route_to(host_id).via;
  const bool is_here = way != nullptr && way->scheme() == "shm";
  const bool is_same =
      is_here && parse_file_view(std::string_view(told).substr(0, end_of_view)) == own_file_view();
  const forwarding kind = chosen_forwarding(is_here, is_same);
  const auto files = std::make_shared<file_calls>(
      job, parse_prefixes(std::string_view(told).substr(end_of_view + 1), "the host's files"),
      kind == forwarding::descriptors);
  if (kind != forwarding::nothing) attach(files);
  return files;
}

} // namespace farcall::files
