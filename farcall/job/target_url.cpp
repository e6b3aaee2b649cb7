#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/job/target_url.hpp>

namespace farcall {
namespace {

constexpr unsigned most_workers = 64;
constexpr unsigned most_cpus = 4096;

[[noreturn]] void refuse(const std::string& piece, const std::string& why) {
  throw setting_error("target \"" + piece + "\": " + why +
                      "; targets look like shm, shm:4 or shm:2?workers=2&cpu=1&program=./app, "
                      "separated by commas");
}

std::vector<target_url> parse_one(const std::string& piece) {
  const auto question = piece.find('?');
  const std::string address = piece.substr(0, question);
  const auto colon = address.find(':');
  target_url url;
  url.scheme = address.substr(0, colon);
  if (url.scheme.empty()) refuse(piece, "it has no transport");
  if (url.scheme != "shm") {
    refuse(piece, "this build has no transport \"" + url.scheme + "\" (it has shm)");
  }
  std::uint64_t count = 1;
  if (colon != std::string::npos) {
    count = parse_number(std::string_view(address).substr(colon + 1),
                         "the number of targets in \"" + piece + "\"", 1, most_targets);
  }
  if (question != std::string::npos) {
    for (const auto& [key, value] : parse_query(std::string_view(piece).substr(question + 1))) {
      const std::string what = key + " in \"" + piece + "\"";
      if (key == "workers") {
        url.workers = static_cast<std::uint32_t>(parse_number(value, what, 1, most_workers));
      } else if (key == "cpu") {
        url.cpu = static_cast<unsigned>(parse_number(value, what, 0, most_cpus));
      } else if (key == "program") {
        if (value.empty()) refuse(piece, "program= needs a path");
        url.program = value;
      } else if (key == "name") {
        if (value.empty() || value.size() > 100) refuse(piece, "name= needs 1 to 100 characters");
        url.name = value;
      } else {
        refuse(piece, "unknown option \"" + key + "\" (known: workers, cpu, program, name)");
      }
    }
  }
  std::vector<target_url> targets;
  for (std::uint64_t i = 0; i < count; ++i) {
    targets.push_back(url);
    if (url.cpu) targets.back().cpu = *url.cpu + static_cast<unsigned>(i);
    if (!url.name.empty() && count > 1) targets.back().name += "-" + std::to_string(i + 1);
  }
  return targets;
}

} // namespace

std::vector<target_url> parse_targets(std::string_view text) {
  std::vector<target_url> targets;
  for (const std::string& piece : split(text, ',')) {
    for (target_url& url : parse_one(piece))
      targets.push_back(std::move(url));
  }
  if (targets.size() > most_targets) {
    throw setting_error("\"" + std::string(text) + "\" names " + std::to_string(targets.size()) +
                        " targets; a job has at most " + std::to_string(most_targets));
  }
  return targets;
}

} // namespace farcall
