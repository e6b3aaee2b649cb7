// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/settings_source.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/offload/trace_file.hpp>
#include <farcall/trace/archive.hpp>
#include <farcall/trace/chrome_trace.hpp>
#include <farcall/transport/transport_module.hpp>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::detail {
namespace {

namespace fs = std::filesystem;

constexpr mode_t mode_of_new_files = 0666; // reduced by the umask
constexpr std::string_view archive_ending = ".otf2";

/// While an object of this class exists, the signal SIGPIPE is blocked in this thread. A write to a
/// pipe without a reader then fails with EPIPE instead of ending the process.
class without_pipe_signals {
 public:
  without_pipe_signals() noexcept {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    sigset_t waiting;
    (void)::sigpending(&waiting);
    was_waiting_ = ::sigismember(&waiting, SIGPIPE) == 1;
    (void)::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  without_pipe_signals(const without_pipe_signals&) = delete;
  without_pipe_signals& operator=(const without_pipe_signals&) = delete;
  ~without_pipe_signals() {
    constexpr timespec at_once{};
    if (!was_waiting_) (void)::sigtimedwait(&pipe_, nullptr, &at_once);
    (void)::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_{};
  sigset_t before_{};
  bool was_waiting_ = false;
};

constexpr const setting& module_setting = settings::row("otf2-module");

std::vector<std::string> archive_modules() {
  const auto given = settings_source().text(module_setting);
  return given ? std::vector{*given} : module_files("otf2");
}

/// Loads the module that writes archives. The module is never unloaded.
farcall_archive_writer* find_archive_writer(const std::string& path) {
  std::string looked_at;
  for (const std::string& file : archive_modules()) {
    std::error_code ignored;
    if (!fs::exists(file, ignored)) {
      looked_at += (looked_at.empty() ? "" : ", ") + file;
      continue;
    }
    void* const module = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    void* const found =
        module == nullptr ? nullptr : ::dlsym(module, FARCALL_ARCHIVE_WRITER_SYMBOL);
    if (found == nullptr) {
      const char* const why = ::dlerror();
      refuse_trace(path,
                   file + " cannot be used: " + (why != nullptr ? why : "no reason is known"));
    }
    return reinterpret_cast<farcall_archive_writer*>(found);
  }
  refuse_trace(path,
               "OTF2 is written by a module that is not installed: there is no " + looked_at +
                   "; name its file (" + settings::variable_of(module_setting) +
                   "=/path/of/libfarcall-otf2.so), build farcall where OTF2 is "
                   "(libopen-trace-format2-dev), or give a name that ends otherwise, as in .json");
}

} // namespace

void refuse_trace(const std::string& path, const std::string& why) {
  throw setting_error("the timeline cannot be written to \"" + path + "\": " + why + " (" +
                      settings::variable_of(settings::row("trace")) + ", farcall run --trace)");
}

trace_file::trace_file(std::string path) : path_(std::move(path)) {
  if (path_.ends_with(archive_ending)) {
    write_archive_ = find_archive_writer(path_);
    try_archive();
  } else {
    try_file();
  }
}

/// Throws an exception if the timeline cannot be written to the file, for instance if the file is a
/// pipe without a reader.
void trace_file::try_file() {
  constexpr int flags = O_WRONLY | O_CLOEXEC | O_NONBLOCK;
  int opened = ::open(path_.c_str(), flags | O_CREAT | O_EXCL, mode_of_new_files);
  const bool is_new = opened >= 0;
  if (!is_new && errno == EEXIST) opened = ::open(path_.c_str(), flags);
  if (opened < 0) refuse_trace(path_, std::strerror(errno));
  unique_fd file(opened);
  if (is_new) {
    ::unlink(path_.c_str());
    return;
  }
  // Close a regular file now, and open it by its name when the timeline is written, because it may
  // be deleted or replaced in the meantime. Keep a pipe open, because its reader might otherwise
  // take it for ended.
  struct stat status{};
  if (::fstat(opened, &status) == 0 && S_ISREG(status.st_mode)) return;
  (void)::fcntl(opened, F_SETFL, O_WRONLY);
  file_ = std::move(file);
}

void trace_file::try_archive() {
  const fs::path path(path_);
  std::error_code ignored;
  for (const char* const ending : {".otf2", ".def", ""}) {
    fs::path part = path;
    part.replace_extension(ending);
    if (fs::exists(fs::symlink_status(part, ignored)))
      refuse_trace(path_, part.string() + " is there already; remove it, or give another name");
  }
  fs::path folder = path;
  folder.replace_extension();
  std::error_code why;
  if (path.stem().empty() || !fs::create_directory(folder, why)) refuse_trace(path_, why.message());
  fs::remove(folder, ignored);
}

void trace_file::write(const trace::timeline& from, const trace::host_clock& clock,
                       const std::function<std::string(node_id)>& name_of_node) {
  if (write_archive_ != nullptr) {
    write_archive(from, clock, name_of_node);
    return;
  }
  const without_pipe_signals quiet;
  const std::string doing = "writing the timeline to \"" + path_ + "\"";
  if (!file_) {
    file_ = unique_fd(
        ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode_of_new_files));
    if (!file_) throw_system_error(doing, errno);
  }
  std::FILE* const to = ::fdopen(file_.get(), "w");
  if (to == nullptr) throw_system_error(doing, errno);
  (void)file_.release();
  // Empty the file, because its old content may be longer than the timeline. Ignore the error for
  // pipes and terminals, which cannot be shortened.
  (void)!::ftruncate(::fileno(to), 0);
  const bool is_written = trace::write_chrome_trace(to, from, clock, name_of_node);
  const int why = errno;
  const bool is_closed = std::fclose(to) == 0;
  if (!is_written || !is_closed) throw_system_error(doing, is_written ? errno : why);
}

void trace_file::write_archive(const trace::timeline& from, const trace::host_clock& clock,
                               const std::function<std::string(node_id)>& name_of_node) const {
  const trace::archive made = trace::archive_of(from, clock, name_of_node);
  std::vector<const char*> processes;
  for (const std::string& name : made.processes)
    processes.push_back(name.c_str());
  std::vector<farcall_archive_region> regions;
  for (const trace::archive::region& r : made.regions)
    regions.push_back({r.name.c_str(), static_cast<std::uint32_t>(r.role)});
  std::vector<std::vector<farcall_archive_event>> events;
  std::vector<farcall_archive_location> locations;
  for (const trace::archive::location& l : made.locations) {
    std::vector<farcall_archive_event>& of = events.emplace_back();
    for (const trace::archive::event& e : l.events)
      of.push_back({e.ns, static_cast<std::uint32_t>(e.type), e.region, e.peer, e.tag});
    locations.push_back({l.name.c_str(), l.process, of.data(), of.size()});
  }
  const farcall_archive all{processes.data(), processes.size(), locations.data(), locations.size(),
                            regions.data(),   regions.size(),   made.length_ns};
  const fs::path path(path_);
  const char* const why = write_archive_(&all, path.parent_path().c_str(), path.stem().c_str());
  if (why != nullptr) throw error("writing the timeline to \"" + path_ + "\": " + why);
}

} // namespace farcall::detail
