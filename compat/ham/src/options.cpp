// SPDX-License-Identifier: Apache-2.0
#include <ham/misc/options.hpp>

#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings.hpp>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <string_view>

#include <sched.h>

namespace ham::detail {
namespace {

constexpr std::string_view ignored[] = {
    "--ham-address",      "--ham-host-address", "--ham-host-node",    "--ham-veo-ve-lib",
    "--ham-veo-ve-nodes", "--ham-tcp-hostname", "--ham-tcp-hostport", "--ham-tcp-port"};

/// Returns the words of HAM_OPTIONS if that variable is set, otherwise the words of the command
/// line. Words of HAM_OPTIONS are separated by spaces, or by '_' if HAM_OPTIONS_NO_SPACES is set.
std::vector<std::string> option_words(int argc, char** argv) {
  const char* text = std::getenv("HAM_OPTIONS");
  if (text == nullptr) return {argv + 1, argv + argc};
  const char separator = std::getenv("HAM_OPTIONS_NO_SPACES") != nullptr ? '_' : ' ';
  std::vector<std::string> words = split(text, separator);
  std::erase_if(words, [](const std::string& word) { return word.empty(); });
  return words;
}

} // namespace

std::vector<std::string>& split(const std::string& text, char delimiter,
                                std::vector<std::string>& pieces) {
  std::istringstream stream(text);
  for (std::string piece; std::getline(stream, piece, delimiter);)
    pieces.push_back(piece);
  return pieces;
}

std::vector<std::string> split(const std::string& text, char delimiter) {
  std::vector<std::string> pieces;
  return split(text, delimiter, pieces);
}

void options::parse() {
  const std::vector<std::string> words = option_words(*argc_, *argv_);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("--ham-")) continue;
    const auto equals = words[i].find('=');
    const std::string name = words[i].substr(0, equals);
    if (name == "--ham-help") {
      help_ = true;
      continue;
    }
    const bool is_ignored =
        std::find(std::begin(ignored), std::end(ignored), name) != std::end(ignored);
    if (!is_ignored && name != "--ham-process-count" && name != "--ham-cpu-affinity") {
      farcall::log::warning("unknown option " + name + " is ignored; --ham-help lists them");
      continue;
    }
    if (equals == std::string::npos && i + 1 == words.size()) {
      throw farcall::setting_error("option " + name + " needs a value");
    }
    const std::string value =
        equals == std::string::npos ? words[++i] : words[i].substr(equals + 1);
    if (name == "--ham-process-count") processes_ = farcall::parse_number(value, name, 1, 251);
    if (name == "--ham-cpu-affinity") {
      cpu_ = static_cast<int>(farcall::parse_number(value, name, 0, CPU_SETSIZE - 1));
    }
  }
}

} // namespace ham::detail
