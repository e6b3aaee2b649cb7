// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/text.hpp>
#include <farcall/server/client_file.hpp>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include <sched.h>

namespace farcall::detail {
namespace {

constexpr std::size_t max_client_file = std::size_t{1} << 20;
/// Least memory of a target. With less memory, a target's threads find no space for their stacks.
constexpr std::uint64_t min_memory = std::uint64_t{32} << 20;
constexpr std::uint64_t max_memory = std::uint64_t{1} << 50;

/// Returns the words of a line, as views of it.
std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view blanks = " \t\r";
  std::vector<std::string_view> words;
  line = line.substr(0, line.find('#'));
  for (;;) {
    const std::size_t begin = line.find_first_not_of(blanks);
    if (begin == std::string_view::npos) return words;
    line.remove_prefix(begin);
    words.push_back(line.substr(0, line.find_first_of(blanks)));
    line.remove_prefix(words.back().size());
  }
}

tcp::secret secret_from(std::string_view digits) {
  return tcp::secret::of_digits(std::as_bytes(std::span(digits)));
}

/// Reads the number of a limit from `text`, which no longer has its unit. `most` is the largest
/// allowed number in that unit. `written` is the text with its unit, for the error message.
std::uint64_t amount_from(std::string_view text, const std::string& what, std::uint64_t most,
                          std::string_view written) {
  try {
    return parse_number(text, what, 1, most);
  } catch (const setting_error&) {
    throw setting_error(what + " is \"" + valid_text(written) +
                        "\"; give a whole number with k, M or G behind it, or of bytes, from " +
                        std::to_string(min_memory >> 20) + "M to " +
                        std::to_string(max_memory >> 30) + "G");
  }
}

std::uint64_t bytes_from(std::string_view text, const std::string& what) {
  constexpr std::string_view units = "kMG";
  const std::string_view written = text;
  const std::size_t unit = text.empty() ? std::string_view::npos : units.find(text.back());
  unsigned shift = 0;
  if (unit != std::string_view::npos) {
    shift = 10 * (static_cast<unsigned>(unit) + 1);
    text.remove_suffix(1);
  }
  const std::uint64_t bytes = amount_from(text, what, max_memory >> shift, written) << shift;
  if (bytes < min_memory) throw setting_error(what + " is less than 32M, which a target needs");
  return bytes;
}

/// Reads a list of processors: "0-3,8" is 0, 1, 2, 3, 8.
std::vector<unsigned> cpus_from(const std::string& text, const std::string& what) {
  std::vector<unsigned> cpus;
  for (const std::string& piece : split(text, ',')) {
    const std::size_t dash = piece.find('-');
    const auto first = parse_number(piece.substr(0, dash), what, 0, CPU_SETSIZE - 1);
    const auto last = dash == std::string::npos
                          ? first
                          : parse_number(piece.substr(dash + 1), what, first, CPU_SETSIZE - 1);
    for (auto cpu = first; cpu <= last; ++cpu)
      cpus.push_back(static_cast<unsigned>(cpu));
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

/// Reads a file of clients line by line.
class client_reader {
 public:
  explicit client_reader(const std::string& path) : path_(path) {}

  void take(std::string_view line) {
    ++number_;
    const std::vector<std::string_view> words = words_of(line);
    if (words.empty()) return;
    if (words.size() < 2) refuse("a client has a name and a key");
    if (!tcp::is_client_name(words[0])) {
      refuse("a client's name comes first: 1 to 63 letters, digits and \"._@-\"");
    }
    tcp::named_key added{std::string(words[0]), secret_from(words[1])};
    if (added.key.bytes().size() != tcp::key_bytes) {
      refuse("the key of " + added.name +
             " is no key: 64 hexadecimal digits, as in the file that "
             "'farcall keygen --name " +
             added.name + " FILE' makes");
    }
    for (const tcp::named_key& k : file_.keys) {
      if (k.key == added.key) {
        refuse("the key of " + added.name + " stands on an earlier line, for " + k.name);
      }
    }
    client_limits& limits = file_.clients[added.name];
    for (std::size_t i = 2; i < words.size(); ++i)
      take_limit(words[i], added.name, limits);
    file_.keys.push_back(std::move(added));
  }

  [[nodiscard]] client_file end() && { return std::move(file_); }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw setting_error("client file " + path_ + ", line " + std::to_string(number_) + ": " + why);
  }

  void take_limit(std::string_view word, const std::string& client, client_limits& limits) const {
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const std::string value(equals == std::string_view::npos ? "" : word.substr(equals + 1));
    const std::string_view pairs(value.data(), value.size() & ~std::size_t{1});
    if (!secret_from(pairs).bytes().empty() && value.size() >= 2 * tcp::key_bytes) {
      refuse("there is a key where a number belongs");
    }
    constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
    const std::string what = std::string(name) + "=";
    try {
      if (name == "targets") {
        set(limits.targets, static_cast<std::uint32_t>(parse_number(value, what, 1, most)), client);
      } else if (name == "lanes") {
        set(limits.lanes, static_cast<std::uint32_t>(parse_number(value, what, 1, most)), client);
      } else if (name == "memory") {
        set(limits.memory, bytes_from(value, what), client);
      } else if (name == "cpus") {
        std::vector<unsigned> cpus = cpus_from(value, what);
        if (!limits.cpus.empty() && limits.cpus != cpus) contradict(client);
        limits.cpus = std::move(cpus);
      } else {
        // Don't quote the unknown word in the error, because the word may be a key in the wrong
        // place.
        throw setting_error("behind the key stand limits: targets=N, memory=N (k, M or G behind "
                            "it), cpus=0-3, lanes=N");
      }
    } catch (const setting_error& e) {
      refuse(e.what());
    }
  }

  template <class Limit>
  static void set(std::optional<Limit>& limit, Limit value, const std::string& client) {
    if (limit && *limit != value) contradict(client);
    limit = value;
  }
  [[noreturn]] static void contradict(const std::string& client) {
    throw setting_error("another line gives " + client +
                        " another limit of that kind; give it once, or the same");
  }

  std::string path_;
  std::size_t number_ = 0;
  client_file file_;
};

} // namespace

client_file read_client_file(const std::string& path) {
  const tcp::secret content = tcp::read_private_file(path, max_client_file, "client file");
  std::string_view text(reinterpret_cast<const char*>(content.bytes().data()),
                        content.bytes().size());
  client_reader reader(path);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    reader.take(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::move(reader).end();
}

} // namespace farcall::detail
