// SPDX-License-Identifier: Apache-2.0
#include "report_files.hpp"
#include "report_json.hpp"

#include <farcall/base/error.hpp>
#include <farcall/base/memory_file.hpp>
#include <farcall/transport/process.hpp>
#include <tools/common/forked_process.hpp>
#include <tools/common/outcome.hpp>
#include <tools/common/output_probe.hpp>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

[[noreturn]] void fail_to_write(const std::string& path) {
  throw failed_run(fmt::format("cannot write {}: {}", path, reason_text(errno)));
}

void write_all(int file, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_to_write(path);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
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
  write_all(kept, text, path);
}

/// Checks that charts can be drawn. Throws failed_run.
void check_drawing(const std::string& script) {
  if (::access(script.c_str(), R_OK) != 0) {
    throw failed_run(fmt::format("there is no {}, which draws --html and --svg; install it beside "
                                 "this program, or build it: cmake --build <folder> --target "
                                 "farcall_bench",
                                 script));
  }
  try {
    (void)find_command("python3");
  } catch (const start_failed&) {
    throw failed_run("--html and --svg need python3, which is in no folder of PATH; install it, or "
                     "leave these options out");
  }
}

/// Returns the document of a kind ("html" or "svg") that the script draws.
std::string drawn(const report& r, const std::string& script, const char* kind) {
  constexpr std::chrono::seconds limit{60};
  const unique_fd input(make_memory_file("farcall-report", MFD_CLOEXEC));
  if (!input) fail_to_write("the report for the charts");
  write_all(input.get(), report_json(r).dump(), "the report for the charts");
  (void)::lseek(input.get(), 0, SEEK_SET);
  program_result done = run_program({"python3", "-I", script, kind}, limit, input.get());
  if (done.timed_out || done.exit_status != 0) {
    throw failed_run(fmt::format("cannot draw the charts: {} {}: {}", script,
                                 done.timed_out
                                     ? "has not ended in time"
                                     : fmt::format("ended with status {}", done.exit_status),
                                 done.standard_error));
  }
  return std::move(done.standard_output);
}

} // namespace

std::string report_files::script_beside_program() {
  return std::filesystem::path(own_program()).parent_path() / "farcall-bench-charts";
}

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
  if (are_wanted()) check_drawing(script);
}

void report_files::write(const report& r) const {
  if (!has_figures(r)) {
    throw failed_run(fmt::format("nothing was measured, so there is nothing to draw in {}",
                                 html.empty() ? svg : html));
  }
  if (!html.empty()) write_file(html, open_[0].get(), drawn(r, script, "html"));
  if (!svg.empty()) write_file(svg, open_[1].get(), drawn(r, script, "svg"));
}

} // namespace farcall::tool
