// SPDX-License-Identifier: Apache-2.0
#include "exports.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include <unistd.h>

namespace farcall::tool {

namespace {

/// Maximum number of bytes of all exported variables together.
constexpr std::size_t max_export_bytes = std::size_t{256} << 10;

bool may_be_named(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && is_letter(name.front()) &&
         std::ranges::all_of(name, [&](char c) { return is_letter(c) || is_digit(c); });
}

std::string_view exported_name(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

std::string export_of(const std::string& word) {
  const std::string name{exported_name(word)};
  if (!may_be_named(name)) {
    throw usage_problem(fmt::format("--export: \"{}\" is no name of a variable; write "
                                    "NAME[,NAME=VALUE...]",
                                    name));
  }
  if (name.size() < word.size()) return word;
  const char* const value = std::getenv(name.c_str());
  if (value == nullptr)
    throw usage_problem(
        fmt::format("--export {0}: it is not set here; set it, or give {0}=VALUE", name));
  return fmt::format("{}={}", name, value);
}

} // namespace

std::vector<std::string> parse_exports(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream{text};
  for (std::string word; std::getline(stream, word, ',');)
    all.push_back(export_of(word));
  if (all.empty()) throw usage_problem("--export is empty; write NAME[,NAME=VALUE...]");
  if (encode_exports(all).size() > max_export_bytes) {
    throw usage_problem(fmt::format("--export: the values are longer than {} KiB together; hand "
                                    "long ones on in a file",
                                    max_export_bytes >> 10));
  }
  return all;
}

std::string encode_exports(const std::vector<std::string>& variables) {
  std::string text;
  for (const std::string& variable : variables)
    text.append(variable).push_back('\0');
  text.push_back('\0');
  return text;
}

std::vector<std::string> read_exports(int from) {
  std::vector<std::string> all;
  std::string variable;
  for (std::size_t bytes = 0; bytes < max_export_bytes; ++bytes) {
    char c = 0;
    ssize_t got = 0;
    do {
      got = read(from, &c, 1);
    } while (got < 0 && errno == EINTR);
    if (got <= 0)
      throw failed_run("--exports-from-stdin: standard input ended before all variables came; see "
                       "the output of 'farcall run'");
    if (c != '\0') {
      variable += c;
      continue;
    }
    if (variable.empty()) return all;
    if (exported_name(variable).size() == variable.size() || !may_be_named(exported_name(variable)))
      break;
    all.push_back(std::move(variable));
    variable.clear();
  }
  throw failed_run("--exports-from-stdin: the bytes after the key are no variables; install one "
                   "version of farcall on both machines");
}

void set_exports(const std::vector<std::string>& variables) {
  for (const std::string& variable : variables) {
    const std::string name{exported_name(variable)};
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing else uses the environment meanwhile.
    if (setenv(name.c_str(), variable.c_str() + name.size() + 1, 1) != 0)
      throw failed_run(fmt::format("cannot set {}: {}", name, reason_text(errno)));
  }
}

} // namespace farcall::tool
