// SPDX-License-Identifier: Apache-2.0
#include "write_profile.hpp"

#include "collapsed_stacks.hpp"
#include "firefox_profile.hpp"
#include "flame_graph.hpp"
#include "function_table.hpp"
#include "gzip.hpp"
#include "pprof.hpp"
#include "profile_page.hpp"
#include "speedscope.hpp"
#include "text.hpp"
#include "veprof.hpp"

#include <tools/common/outcome.hpp>
#include <tools/common/output_probe.hpp>

#include <farcall/base/error.hpp>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include <unistd.h>

namespace farcall::tool {

namespace {

using roots = call_tree_options::roots;
using how = const profile_file_options&;

struct profile_format {
  std::string_view ending;
  std::string (*text_of)(const profile& p, how options);
};

std::string own_host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string table_by(const profile& p, roots root) {
  using per = function_table_options::per;
  function_table_options options;
  if (root == roots::processes) options.group = per::node;
  if (root == roots::threads) options.group = per::thread;
  return function_table(p, options);
}

// File formats by the endings of file names. The first ending that matches is used.
constexpr profile_format profile_formats[] = {
    {".html", [](const profile& p, how to) { return profile_page(p, to.root, to.notes); }},
    {".svg", [](const profile& p, how to) { return flame_graph(p, {.root = to.root}); }},
    {".collapsed", [](const profile& p, how to) { return collapsed_stacks(p, {.root = to.root}); }},
    {".speedscope.json", [](const profile& p, how) { return speedscope_json(p); }},
    {".firefox.json", [](const profile& p, how) { return firefox_profile_json(p); }},
    {".pb.gz", [](const profile& p, how) { return gzip_compressed(pprof_protobuf(p)); }},
    {".pb", [](const profile& p, how) { return pprof_protobuf(p); }},
    {".txt", [](const profile& p, how to) { return table_by(p, to.root); }},
    {"veprof.out", [](const profile& p, how) { return veprof_text(p, own_host()); }},
};

const profile_format& format_of(const std::string& path) {
  std::string endings;
  for (const profile_format& format : profile_formats) {
    if (path.ends_with(format.ending)) return format;
    endings += fmt::format("{}{}", endings.empty() ? "" : ", ", format.ending);
  }
  throw usage_problem(
      fmt::format("-o {}: the ending of the name selects the format of a profile; take one of {}",
                  path, endings));
}

} // namespace

void check_profile_file(const std::string& path) {
  (void)format_of(path);
  std::error_code ignored;
  // Don't probe a pipe, because its reader would see the end of the data when the probe closes it.
  if (!std::filesystem::is_fifo(path, ignored)) const output_probe tried("-o", path);
}

void write_profile(const std::string& path, const profile& p, const profile_file_options& options) {
  const std::string text = format_of(path).text_of(p, options);
  std::FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr)
    throw failed_run(fmt::format("cannot write {}: {}", path, reason_text(errno)));
  try {
    write_text(file, text, path);
  } catch (...) {
    (void)std::fclose(file);
    throw;
  }
  if (std::fclose(file) != 0)
    throw failed_run(fmt::format("cannot write {}: {}", path, reason_text(errno)));
}

} // namespace farcall::tool
