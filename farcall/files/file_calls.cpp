// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings_source.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/files/attach.hpp>
#include <farcall/files/file_calls.hpp>
#include <farcall/files/file_view.hpp>
#include <farcall/files/mount_client.hpp>
#include <farcall/offload/job_state.hpp>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <sys/eventfd.h>

namespace farcall::files {
namespace {

/// Maximum time to wait for a descriptor after the host's reply has said that it is passed.
/// Descriptor and reply are sent separately, and the descriptor usually arrives a little later, in
/// about the time that a thread needs to wake up.
constexpr std::chrono::seconds max_on_its_way{5};

request to_request(const farcall_io_request& asked) noexcept {
  return {.what = static_cast<operation>(asked.operation),
          .file = asked.file,
          .offset = asked.offset,
          .bytes = asked.bytes,
          .flags = static_cast<std::uint32_t>(asked.flags),
          .mode = asked.mode,
          .path = {asked.path.at, asked.path.bytes},
          .to = {asked.to.at, asked.to.bytes},
          .data = {static_cast<const std::byte*>(asked.data), asked.data_bytes}};
}

/// Sends an operation by to.ask() and returns its result. The bytes of the reply go to `memory`.
template <class To>
std::int64_t ask_for(To& to, request what, void* memory, std::size_t bytes) {
  if (bytes == 0) return to.ask(what);
  const landing_place landing(memory, bytes);
  what.landing = landing.number();
  return to.ask(what);
}

/// True if a setting has this value.
bool is_set(const setting& s, std::string_view value) {
  return settings_source().text(s).value_or(settings::default_of(s)) == value;
}

} // namespace

file_calls::file_calls(detail::job_core& job, std::vector<prefix> prefixes, forwarding kind,
                       bool passes_to_mounts)
    : prefixes_(std::move(prefixes)), buffers_(is_set(settings::row("io-buffer"), "on")),
      reads_ahead_(!is_set(settings::row("host-files-cache"), "strict")), kind_(kind),
      passes_to_mounts_(passes_to_mounts), host_(job) {}

void file_calls::begin() {
  if (kind_ != forwarding::data) leave_mount_helper();
  if (kind_ != forwarding::nothing) attach(shared_from_this(), kind_);
}

file_calls::file_ref file_calls::find(std::uint64_t number) {
  const std::shared_lock guard(mutex_);
  const auto at = files_.find(number);
  return at == files_.end() ? nullptr : at->second;
}

template <class F>
std::vector<file_calls::file_ref> file_calls::choose(const F& is_chosen) {
  std::vector<file_ref> chosen;
  const std::shared_lock guard(mutex_);
  for (const auto& [number, file] : files_) {
    if (is_chosen(*file)) chosen.push_back(file);
  }
  return chosen;
}

void file_calls::keep(const file_ref& opened) {
  {
    const std::lock_guard guard(mutex_);
    files_.emplace(opened->number(), opened);
  }
  // Choose after the file was added, so that one of two threads that open a file finds the other's.
  for (const file_ref& other : same_as(*opened)) {
    if (other->can_write() || opened->can_write()) {
      opened->stop_buffering();
      other->stop_buffering();
    } else {
      other->drop_read_ahead();
    }
  }
}

std::vector<file_calls::file_ref> file_calls::same_as(const buffered_file& file) {
  return choose([&](const buffered_file& other) {
    return &other != &file && other.is_regular() && other.is_same_as(file);
  });
}

/// Returns f(file) for the open file with the given number, or -EBADF if there is none.
template <class F>
std::int64_t file_calls::on_file(std::uint64_t file, const F& f) noexcept {
  return host_.guarded([&]() -> std::int64_t {
    const file_ref found = find(file);
    return found == nullptr ? -EBADF : f(*found);
  });
}

/// Waits for all writes to open files, and returns f(), which performs an operation on a path. The
/// wait is needed because the path may name one of the open files.
template <class F>
std::int64_t file_calls::on_path(const F& f) noexcept {
  return host_.guarded([&]() -> std::int64_t {
    // Pipes and devices have no writes under way, and may be locked for long.
    const std::vector<file_ref> written =
        choose([](const buffered_file& f) { return f.is_regular() && f.can_write(); });
    for (const file_ref& file : written)
      file->wait_for_writes();
    return f();
  });
}

std::int64_t file_calls::perform(const farcall_io_request& asked) noexcept {
  if (asked.operation >= farcall_io_operations) return -ENOSYS;
  void* const to = asked.result;
  const bool is_at_position = asked.offset == at_position;
  switch (static_cast<operation>(asked.operation)) {
  case operation::open:
  case operation::reopen:
    return open_at_host(asked, nullptr);
  case operation::close:
    return close_at_host(asked.file);
  case operation::read:
    return on_file(asked.file, [&](buffered_file& f) {
      return is_at_position ? f.read(to, asked.result_bytes)
                            : f.pread(to, asked.result_bytes, asked.offset);
    });
  case operation::write:
    return on_file(asked.file, [&](buffered_file& f) {
      return is_at_position ? f.write(asked.data, asked.data_bytes)
                            : f.pwrite(asked.data, asked.data_bytes, asked.offset);
    });
  case operation::seek:
    return on_file(asked.file, [&](buffered_file& f) { return f.seek(asked.offset, asked.flags); });
  case operation::set_flags:
    return on_file(asked.file, [&](buffered_file& f) { return f.set_flags(asked.flags); });
  default:
    return ask(asked);
  }
}

/// Performs an operation that perform() does not treat specially: sends it to the host, and waits
/// for its result.
std::int64_t file_calls::ask(const farcall_io_request& asked) noexcept {
  const request what = to_request(asked);
  const unsigned traits = traits_of(what.what);
  const bool is_on_path = (traits & FARCALL_IO_ON_FILE) == 0 ||
                          ((traits & FARCALL_IO_ON_PATH) != 0 && !what.path.empty());
  if (!is_on_path) {
    if (what.what == operation::copy_range) wait_for_source(what);
    return on_file(asked.file, [&](buffered_file& f) {
      const std::int64_t result = ask_for(f, what, asked.result, asked.result_bytes);
      // With a lock, the program expects what others wrote before, by each of its descriptors.
      if (what.what == operation::lock) {
        f.drop_read_ahead();
        for (const file_ref& other : same_as(f))
          other->drop_read_ahead();
      }
      return result;
    });
  }
  return on_path([&] {
    if ((traits & FARCALL_IO_CHANGES) != 0) {
      for (const file_ref& file : choose([](const buffered_file& f) { return f.is_regular(); }))
        file->drop_read_ahead();
    }
    const auto once = [&] { return ask_for(host_, what, asked.result, asked.result_bytes); };
    return what.what == operation::truncate ? host_.until_ready(once) : once();
  });
}

/// Waits for writes to the source of a copy, because they may be in another lane than the copy.
void file_calls::wait_for_source(const request& copy) noexcept {
  farcall_io_source source{};
  if (copy.data.size() != sizeof source) return;
  std::memcpy(&source, copy.data.data(), sizeof source);
  (void)on_file(source.file, [](buffered_file& f) -> std::int64_t {
    f.wait_for_writes();
    return 0;
  });
}

std::int64_t file_calls::open_at_host(const farcall_io_request& asked,
                                      unique_fd* passed_too) noexcept {
  const bool wants_status = asked.result_bytes == sizeof(farcall_io_opened_status);
  if (!wants_status && asked.result_bytes != sizeof(farcall_io_opened)) return -EINVAL;
  auto& opened = *static_cast<farcall_io_opened*>(asked.result);
  return on_path([&]() -> std::int64_t {
    request what = to_request(asked);
    what.flags = to_open_flags(asked.flags);
    std::optional<passed_files::ticket> wanted;
    if (kind_ == forwarding::descriptors || passed_too != nullptr) {
      // Check here that the process may have another descriptor. If not, the kernel would drop the
      // file that the host passes, and the wait for it would end with an error of another kind.
      if (!unique_fd(::eventfd(0, EFD_CLOEXEC))) return -errno;
      wanted.emplace(passed_);
      what.flags |= open_wishes::descriptor;
      what.transfer = wanted->number();
      if (passed_too != nullptr) what.flags |= open_wishes::number_too;
    }
    opened_file there;
    const auto once = [&] { return ask_for(host_, what, &there, sizeof there); };
    // The host does not wait for the end of a lease, nor for the reader of a pipe.
    const std::int64_t result = (asked.flags & O_NONBLOCK) != 0 ? once() : host_.until_ready(once);
    if (result < 0) return result;
    if ((there.file & opened_file::passed_too) != 0) {
      there.file &= ~opened_file::passed_too;
      if (passed_too != nullptr) *passed_too = wanted->wait(deadline_after(max_on_its_way));
    }
    opened = {there.file, there.status.mode, -1};
    if (wants_status) static_cast<farcall_io_opened_status*>(asked.result)->status = there.status;
    if (wanted && there.file == 0) {
      unique_fd file = wanted->wait(deadline_after(max_on_its_way));
      opened.descriptor = file.release();
      return opened.descriptor < 0 ? -EIO : 0;
    }
    try {
      keep(std::make_shared<buffered_file>(host_, there, asked.flags, buffers_, reads_ahead_));
    } catch (...) {
      (void)host_.ask({.what = operation::close, .file = there.file});
      throw;
    }
    return 0;
  });
}

std::int64_t file_calls::close_at_host(std::uint64_t file) noexcept {
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

void file_calls::take_file(std::uint64_t number, unique_fd file) noexcept {
  passed_.put(number, std::move(file));
}

std::int64_t file_calls::write_through(const farcall_io_request& asked) noexcept {
  return on_file(asked.file, [&](buffered_file& f) {
    return f.write_through(asked.data, asked.data_bytes, asked.offset);
  });
}

std::int64_t file_calls::read_through(const farcall_io_request& asked) noexcept {
  return on_file(asked.file, [&](buffered_file& f) {
    return f.read_through(asked.result, asked.result_bytes, asked.offset);
  });
}

std::int64_t file_calls::read_to(std::uint64_t file, landing_sink& to, std::size_t bytes,
                                 std::int64_t offset) noexcept {
  return on_file(file, [&](buffered_file& f) { return f.read_to(to, bytes, offset); });
}

std::int64_t file_calls::flush(std::uint64_t file) noexcept {
  return on_file(file, [](buffered_file& f) {
    f.wait_for_writes();
    return f.take_error();
  });
}

void file_calls::finish() noexcept {
  // Before detach(), which waits for threads that serve other programs.
  host_.stop_waiting();
  detach(*this);
  host_.end([this] {
    // Use the files without a lock, because all calls have ended, and so other threads do not use
    // the files any more.
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
  const bool is_here = way != nullptr && way->traits().shares_memory;
  const bool is_same =
      is_here && parse_file_view(std::string_view(told).substr(0, end_of_view)) == own_file_view();
  forwarding kind = chosen_forwarding(is_here, is_same);
  // Descriptors are passed to the preloaded library, which is missing if the user wants mounts.
  const bool passes_to_mounts =
      kind == forwarding::descriptors && has_mount_helper() && chosen_way() == way_of_files::mount;
  if (passes_to_mounts) kind = forwarding::data;
  return std::make_shared<file_calls>(
      job, parse_prefixes(std::string_view(told).substr(end_of_view + 1), "the host's files"), kind,
      passes_to_mounts);
}

} // namespace farcall::files
