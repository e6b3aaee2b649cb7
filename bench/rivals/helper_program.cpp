// SPDX-License-Identifier: Apache-2.0
#include "helper_program.hpp"

#include <tools/common/outcome.hpp>

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include <unistd.h>

namespace farcall::tool {

namespace {

/// Returns the line that explains a failure best: skips lines that only frame others.
std::string first_meaningful_line(const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (line.find_first_not_of("-= \t") != std::string::npos) return line;
    at = end + 1;
  }
  return {};
}

measured parse(const std::string& output, std::size_t expected) {
  measured result;
  // The first line is the library's name; some versions print further lines of text, which are
  // skipped.
  for (std::size_t at = output.find('\n'); at != std::string::npos && at + 1 < output.size();) {
    const char* begin = output.data() + at + 1;
    const std::size_t next = output.find('\n', at + 1);
    const char* end = output.data() + std::min(next, output.size());
    double value = 0;
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (error == std::errc{} && stop == end) result.samples.push_back(value);
    at = next;
  }
  if (result.samples.size() != expected) {
    result.failure = fmt::format("its program printed {} figures instead of {}",
                                 result.samples.size(), expected);
    result.samples.clear();
  }
  result.remark = first_line(output);
  return result;
}

} // namespace

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::filesystem::path program_beside(const char* name) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return self.parent_path() / name;
}

std::string why_missing(const std::filesystem::path& program, const char* package) {
  if (::access(program.c_str(), X_OK) == 0) return {};
  return fmt::format("not built in: no {} ({} was not found when this was configured)",
                     program.string(), package);
}

std::vector<std::string> words_of(const rival_settings& settings, std::size_t calls) {
  std::vector<std::string> words;
  for (const auto number : {static_cast<std::size_t>(settings.cores.host),
                            static_cast<std::size_t>(settings.cores.target), settings.batches,
                            settings.warm_up(), calls}) {
    words.push_back(fmt::format("{}", number));
  }
  return words;
}

measured run_helper(const std::vector<std::string>& words, const rival_settings& settings) {
  const program_result run = run_program(words, settings.limit());
  if (run.timed_out) return {{}, fmt::format("no result within {} s", settings.limit().count())};
  if (run.exit_status != 0) {
    return {{},
            fmt::format("{} ended with exit status {}: {}",
                        std::filesystem::path(words.front()).filename().string(), run.exit_status,
                        first_meaningful_line(run.standard_error))};
  }
  return parse(run.standard_output, settings.batches);
}

} // namespace farcall::tool
