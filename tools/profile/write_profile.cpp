// SPDX-License-Identifier: Apache-2.0
#include "write_profile.hpp"

#include "collapsed_stacks.hpp"
#include "firefox_profile.hpp"
#include "flame_graph.hpp"
#include "function_table.hpp"
#include "gzip.hpp"
#include "pprof.hpp"
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

struct profile_format {
  std::string_view ending;
  std::string (*text_of)(const profile& p, roots root);
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
    {".svg",
     [](const profile& p, roots root) {
       return flame_graph(p, {.tree = {.root = root, .has_activities = true}, .title = {}});
     }},
    {".collapsed",
     [](const profile& p, roots root) { return collapsed_stacks(p, {.root = root}); }},
    {".speedscope.json", [](const profile& p, roots) { return speedscope_json(p); }},
    {".firefox.json", [](const profile& p, roots) { return firefox_profile_json(p); }},
    {".pb.gz", [](const profile& p, roots) { return gzip_compressed(pprof_protobuf(p)); }},
    {".pb", [](const profile& p, roots) { return pprof_protobuf(p); }},
    {".txt", [](const profile& p, roots root) { return table_by(p, root); }},
    {"veprof.out", [](const profile& p, roots) { return veprof_text(p, own_host()); }},
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

void write_profile(const std::string& path, const profile& p, call_tree_options::roots root) {
  const std::string text = format_of(path).text_of(p, root);
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
