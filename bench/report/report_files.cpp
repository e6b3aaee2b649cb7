#include "report_files.hpp"
#include "page.hpp"

#include <farcall/base/error.hpp>
#include <tools/common/outcome.hpp>
#include <tools/common/output_probe.hpp>

#include <cerrno>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

[[noreturn]] void fail_to_write(const std::string& path) {
  throw failed_run(fmt::format("cannot write {}: {}", path, reason_text(errno)));
}

void write_file(const std::string& path, int kept, std::string_view text) {
  unique_fd made;
  if (kept < 0) {
    made = unique_fd(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, output_probe::mode_of_new_files));
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
  std::optional<output_probe> page;
  std::optional<output_probe> picture;
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
