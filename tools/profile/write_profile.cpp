#include "write_profile.hpp"

#include "plain_table.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>

#include <cerrno>
#include <cstdio>
#include <string_view>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

struct profile_format {
  std::string_view ending;
  void (*write)(std::FILE* to, const profile& p);
};

constexpr profile_format profile_formats[] = {
    {".table", &write_plain_table},
};

const profile_format& format_of(const std::string& path) {
  std::string endings;
  for (const profile_format& format : profile_formats) {
    if (path.ends_with(format.ending)) return format;
    endings += fmt::format("{}{}", endings.empty() ? "" : ", ", format.ending);
  }
  throw usage_problem(fmt::format("-o {}: the ending of the name says in which format a profile is "
                                  "written; take one of {}",
                                  path, endings));
}

} // namespace

void check_profile_format(const std::string& path) { (void)format_of(path); }

void write_profile(const std::string& path, const profile& p) {
  const profile_format& format = format_of(path);
  std::FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr)
    throw failed_run(fmt::format("cannot write {}: {}", path, reason_text(errno)));
  format.write(file, p);
  const bool has_failed = std::ferror(file) != 0;
  const bool is_closed = std::fclose(file) == 0;
  if (has_failed || !is_closed)
    throw failed_run(fmt::format("cannot write {}: {}", path, reason_text(errno)));
}

} // namespace farcall::tool
