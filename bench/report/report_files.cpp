#include "report_files.hpp"
#include "page.hpp"

#include <farcall/base/error.hpp>
#include <tools/common/outcome.hpp>

#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

constexpr mode_t mode_of_new_files = 0666; // which the umask lessens

/// A file that is to be written, as it was found. One that was made to see whether it can be is
/// removed again.
class probe {
 public:
  probe(const char* option, const std::string& path)
      : path_(path),
        fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode_of_new_files)),
        is_new_(static_cast<bool>(fd_)) {
    // Not to wait for somebody who reads a pipe, it does not block.
    if (!is_new_ && errno == EEXIST)
      fd_ = unique_fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    if (!fd_ || ::fstat(fd_.get(), &state_) != 0) {
      throw usage_problem(fmt::format("{} {}: it cannot be written: {}; name a file in a folder "
                                      "that you may write to",
                                      option, path, reason_text(errno)));
    }
    struct stat out{};
    if (S_ISREG(state_.st_mode) && ::fstat(STDOUT_FILENO, &out) == 0 && is_same(out)) {
      throw usage_problem(
          fmt::format("{} {}: standard output goes to the same file; name another", option, path));
    }
  }
  ~probe() {
    if (is_new_) ::unlink(path_.c_str());
  }
  probe(const probe&) = delete;
  probe& operator=(const probe&) = delete;
  probe(probe&&) = delete;
  probe& operator=(probe&&) = delete;

  [[nodiscard]] bool is_same(const struct stat& other) const {
    return state_.st_dev == other.st_dev && state_.st_ino == other.st_ino;
  }
  [[nodiscard]] bool is_same(const probe& other) const { return is_same(other.state_); }

  /// The open file, if it was there before.
  [[nodiscard]] unique_fd kept() { return is_new_ ? unique_fd() : std::move(fd_); }

 private:
  const std::string& path_;
  unique_fd fd_;
  bool is_new_;
  struct stat state_{};
};

[[noreturn]] void fail_to_write(const std::string& path) {
  throw failed_run(fmt::format("cannot write {}: {}", path, reason_text(errno)));
}

void write_file(const std::string& path, int kept, std::string_view text) {
  unique_fd made;
  if (kept < 0) {
    made = unique_fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, mode_of_new_files));
    if (!made) fail_to_write(path);
    kept = made.get();
  }
  struct stat s{};
  if (::fstat(kept, &s) != 0) fail_to_write(path);
  if (S_ISREG(s.st_mode) && ::ftruncate(kept, 0) != 0) fail_to_write(path);
  const int flags = ::fcntl(kept, F_GETFL);
  (void)::fcntl(kept, F_SETFL, flags & ~O_NONBLOCK);
  while (!text.empty()) {
    const ssize_t written = ::write(kept, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_to_write(path);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

} // namespace

void report_files::check() {
  std::optional<probe> page;
  std::optional<probe> picture;
  if (!html.empty()) page.emplace("--html", html);
  if (!svg.empty()) picture.emplace("--svg", svg);
  if (page && picture && page->is_same(*picture)) {
    throw usage_problem(
        fmt::format("--html and --svg name the same file, {}; give each its own", svg));
  }
  if (page) open_[0] = page->kept();
  if (picture) open_[1] = picture->kept();
}

void report_files::write(const report& r) const {
  if (!has_figures(r)) {
    throw failed_run(fmt::format("nothing was measured, so there is nothing to draw in {}",
                                 html.empty() ? svg : html));
  }
  if (!html.empty()) write_file(html, open_[0].get(), html_page(r));
  if (!svg.empty()) write_file(svg, open_[1].get(), svg_picture(r));
}

} // namespace farcall::tool
