#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/transport/target_url.hpp>
#include <farcall/transport/tcp/address.hpp>

#include <set>

namespace farcall {
namespace {

constexpr unsigned most_workers = 64;
constexpr unsigned most_cpus = 4096;
constexpr unsigned most_devices = 64;
constexpr unsigned default_gpu_workers = 8;
constexpr unsigned most_gpu_threads = 256;
constexpr unsigned most_emulated_threads = 16;
constexpr unsigned most_idle_ms = 3'600'000;

constexpr std::string_view exec_prefix = "exec:";

[[noreturn]] void refuse(const std::string& piece, const std::string& why) {
  throw setting_error("target \"" + piece + "\": " + why +
                      "; targets look like shm, shm:4, shm:2?workers=2&cpu=1&program=./app, "
                      "tcp://host:port?count=2, cuda:0?workers=4 or exec:qemu-aarch64 "
                      "./app?count=2, separated by commas");
}

/// First of `stops` outside quotes at or after `from`, or the end of the text.
std::size_t find_unquoted(std::string_view text, std::size_t from, std::string_view stops) {
  char quote = 0;
  for (std::size_t i = from; i < text.size(); ++i) {
    if (quote != 0) {
      if (text[i] == quote) quote = 0;
    } else if (text[i] == '"' || text[i] == '\'') {
      quote = text[i];
    } else if (stops.find(text[i]) != std::string_view::npos) {
      return i;
    }
  }
  return text.size();
}

/// The entries of the list. Only command lines know quotes: a path of shm may have an apostrophe.
std::vector<std::string> pieces_of(std::string_view text) {
  std::vector<std::string> pieces;
  for (;;) {
    std::size_t end = text.find(',');
    if (text.starts_with(exec_prefix)) {
      end = find_unquoted(text, 0, ",?");
      if (end < text.size() && text[end] == '?') end = text.find(',', end);
    }
    pieces.emplace_back(text.substr(0, end));
    if (end >= text.size()) return pieces;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string> words_of(const std::string& piece, std::string_view command) {
  std::vector<std::string> words;
  for (std::size_t at = command.find_first_not_of(' '); at < command.size();) {
    const std::size_t end = find_unquoted(command, at, " ");
    std::string word;
    char quote = 0;
    for (const char c : command.substr(at, end - at)) {
      if (quote == 0 && (c == '"' || c == '\'')) {
        quote = c;
      } else if (quote != 0 && c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    }
    if (quote != 0) refuse(piece, std::string("a quote ") + quote + " is not closed");
    words.push_back(std::move(word));
    at = command.find_first_not_of(' ', end);
  }
  if (words.empty() || words.front().empty()) refuse(piece, "exec: needs a command line");
  return words;
}

/// Reads the options; the number of targets may be one of them.
void take_options(target_url& url, std::uint64_t& count, const std::string& piece,
                  std::string_view query) {
  const bool is_command = !url.command.empty();
  const bool is_remote = url.scheme == "tcp";
  const bool on_device = is_device(url);
  std::set<std::string> given;
  for (const auto& [key, value] : parse_query(query)) {
    if (!given.insert(key).second) refuse(piece, "option \"" + key + "\" is given twice");
    const std::string what = key + " in \"" + piece + "\"";
    if (key == "workers") {
      url.workers = static_cast<std::uint32_t>(parse_number(value, what, 1, most_workers));
    } else if (key == "threads" && on_device) {
      const bool is_gpu = url.scheme == "cuda";
      url.threads = static_cast<std::uint32_t>(
          parse_number(value, what, 1, is_gpu ? most_gpu_threads : most_emulated_threads));
      if (is_gpu && url.threads % 32 != 0) refuse(piece, "threads= of a GPU is a multiple of 32");
    } else if (key == "idle_ms" && on_device) {
      url.idle_ms = static_cast<std::uint32_t>(parse_number(value, what, 1, most_idle_ms));
    } else if (key == "cpu" && url.scheme != "cuda") {
      url.cpu = static_cast<unsigned>(parse_number(value, what, 0, most_cpus));
    } else if (key == "program" && is_remote) {
      refuse(piece, "what a server runs is said where it is started ('farcall serve … PROGRAM')");
    } else if (key == "program" && !is_command && !on_device) {
      if (value.empty()) refuse(piece, "program= needs a path");
      url.program = value;
    } else if (key == "count" && (is_command || is_remote)) {
      count = parse_number(value, what, 1, most_targets);
    } else if (key == "plain" && is_remote) {
      if (value != "yes") refuse(piece, "plain= has one value, yes");
      url.plain = true;
    } else if (key == "name") {
      if (value.empty() || value.size() > 100) refuse(piece, "name= needs 1 to 100 characters");
      url.name = value;
    } else {
      refuse(piece, "unknown option \"" + key + "\" (known: workers, " +
                        (is_command             ? "cpu, count"
                         : is_remote            ? "cpu, count, plain"
                         : url.scheme == "cuda" ? "threads, idle_ms"
                         : on_device            ? "threads, idle_ms, cpu"
                                                : "cpu, program") +
                        ", name)");
    }
  }
}

/// What stands before the options, and how many targets it means.
std::uint64_t parse_place(const std::string& piece, target_url& url) {
  const std::string place = piece.substr(0, piece.find('?'));
  const auto colon = place.find(':');
  url.scheme = place.substr(0, colon);
  if (url.scheme.empty()) refuse(piece, "it has no transport");
  if (url.scheme == "tcp") {
    if (!place.starts_with("tcp://")) refuse(piece, "an address follows: tcp://host:port");
    url.address = tcp::parse_address(place.substr(6), "target \"" + piece + "\"").text();
    return 1;
  }
  if (is_device(url)) {
    if (url.scheme == "cuda") url.workers = default_gpu_workers;
    if (colon != std::string::npos) {
      url.device = static_cast<std::uint32_t>(
          parse_number(std::string_view(place).substr(colon + 1),
                       "the number of the device in \"" + piece + "\"", 0, most_devices));
    }
    return 1;
  }
  if (url.scheme != "shm") {
    refuse(piece, "this build has no transport \"" + url.scheme +
                      "\" (it has shm, exec over shm, tcp, cuda and cuda-emulated)");
  }
  if (colon == std::string::npos) return 1;
  return parse_number(std::string_view(place).substr(colon + 1),
                      "the number of targets in \"" + piece + "\"", 1, most_targets);
}

std::vector<target_url> parse_one(const std::string& piece) {
  if (piece.empty()) refuse(piece, "an entry of the list is empty");
  target_url url;
  std::uint64_t count = 1;
  std::size_t question = piece.find('?');
  if (piece.starts_with(exec_prefix)) {
    question = find_unquoted(piece, 0, "?");
    url.scheme = "shm";
    url.command =
        words_of(piece, std::string_view(piece).substr(0, question).substr(exec_prefix.size()));
  } else {
    count = parse_place(piece, url);
  }
  if (question < piece.size()) {
    take_options(url, count, piece, std::string_view(piece).substr(question + 1));
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
  for (const std::string& piece : pieces_of(text)) {
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
