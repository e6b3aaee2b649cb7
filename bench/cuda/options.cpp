// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <farcall/gpu/transport/entry.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

namespace farcall::bench {
namespace {

constexpr std::array<std::string_view, 11> groups{"floor",  "bus",   "launches", "calls",
                                                  "stages", "rates", "grids",    "copies",
                                                  "lease",  "kill",  "give-up"};
constexpr std::size_t quick_samples = 20'000;
const std::map<std::string_view, role> roles{{"--smoke", role::smoke},
                                             {"--hold", role::hold},
                                             {"--once", role::once},
                                             {"--pin", role::pin},
                                             {"--spin", role::spin}};

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words;
  std::size_t from = 0;
  for (;;) {
    const std::size_t comma = list.find(',', from);
    words.push_back(list.substr(from, comma - from));
    if (std::find(groups.begin(), groups.end(), words.back()) == groups.end())
      throw usage_error("--only: there is no group \"" + words.back() + "\"; see --help");
    if (comma == std::string::npos) return words;
    from = comma + 1;
  }
}

std::size_t number_of(const std::string& option, const std::string& text, std::size_t least) {
  std::size_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc{} || end != text.data() + text.size() || number < least)
    throw usage_error(option + " needs a number from " + std::to_string(least) + ", not \"" + text +
                      "\"");
  return number;
}

} // namespace

bool options::wants(std::string_view group) const {
  return only.empty() || std::find(only.begin(), only.end(), group) != only.end();
}

int options::device() const {
  return static_cast<int>(cuda::device_number(parse_targets(target).front()));
}

options parse_options(const std::vector<std::string>& arguments) {
  options o;
  bool has_samples = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const auto value = [&]() -> const std::string& {
      if (i + 1 == arguments.size()) throw usage_error(word + " needs a value");
      return arguments[++i];
    };
    if (const auto role = roles.find(word); role != roles.end()) {
      o.what = role->second;
    } else if (word == "--targets") {
      o.target = value();
    } else if (word == "--csv") {
      o.csv = value();
    } else if (word == "--patience") {
      o.timeout_s = number_of(word, value(), 1);
    } else if (word == "--only") {
      o.only = split(value());
    } else if (word == "--samples") {
      o.samples = number_of(word, value(), 100);
      has_samples = true;
    } else if (word == "--quick") {
      o.quick = true;
    } else if (word == "--help" || word == "-h") {
      o.help = true;
    } else {
      throw usage_error("there is no option \"" + word + "\"; see --help");
    }
  }
  if (o.quick && !has_samples) o.samples = quick_samples;
  if (o.target.find(',') != std::string::npos ||
      !(o.is_gpu() || o.target.starts_with("cuda-emulated")))
    throw usage_error("--targets needs one device, cuda:0 or cuda-emulated:0, not \"" + o.target +
                      "\"");
  return o;
}

const char* help_text() {
  return R"(usage: farcall_cuda_bench [options]

Measures the costs of calls of a GPU, the floor of the bus, and the costs of launches.

  --targets URL    the device: cuda:0 (default), or cuda-emulated:0 for figures that need no GPU
  --only GROUPS    floor, bus, launches, calls, stages, rates, grids, copies, lease, kill, give-up;
                   separated by commas
  --samples N      of each latency (200000, with --quick 20000)
  --quick          fewer samples: some seconds
  --csv FILE       add all figures to this table, too; bench/cuda/report.py FILE compares them with
                   the floor, with launches and with the goals
  --smoke          only make a few calls of each kind and check their results
  --patience N     end after N seconds (10) without progress, and print the state of workers, lanes
                   and streams on standard error

Exit status: 0; 1 if a group has failed; 2 for a wrong command line; 3 without progress for too
long; 77 without a GPU.
)";
}

std::string with_option(const std::string& url, std::string_view key, std::size_t value) {
  const std::string wanted = std::string(key) + '=' + std::to_string(value);
  for (const char before : {'?', '&'}) {
    const std::size_t at = url.find(before + std::string(key) + '=');
    if (at == std::string::npos) continue;
    const std::size_t end = url.find('&', at + 1);
    return url.substr(0, at + 1) + wanted + (end == std::string::npos ? "" : url.substr(end));
  }
  return url + (url.find('?') == std::string::npos ? '?' : '&') + wanted;
}

} // namespace farcall::bench
