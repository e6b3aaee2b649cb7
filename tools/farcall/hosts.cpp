// SPDX-License-Identifier: Apache-2.0
#include "hosts.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/transport/target_url.hpp>
#include <farcall/transport/tcp/address.hpp>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <ios>
#include <map>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include <sys/socket.h>

namespace farcall::tool {

namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream{text};
  std::vector<std::string> words;
  for (std::string word; stream >> word;)
    words.push_back(word);
  return words;
}

std::string without_user(const std::string& name) {
  const auto at = name.rfind('@');
  return at == std::string::npos ? name : name.substr(at + 1);
}

bool is_number(const std::string& address) {
  try {
    (void)tcp::numeric_address(address + ":1", "an address");
    return true;
  } catch (const error&) {
    return false;
  }
}

void take_option(const std::string& word, const std::string& where, host_entry& host) {
  const auto equals = word.find('=');
  const std::string key = word.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
  if (key == "slots" || key == "count") {
    host.count = parse_number(value, fmt::format("{}: {}", where, key), 1, max_targets);
  } else if (key == "port") {
    host.port = static_cast<std::uint16_t>(parse_number(value, where + ": port", 1, 65535));
  } else if (key == "address" && !value.empty()) {
    host.address = value;
  } else {
    throw usage_problem(fmt::format(
        "{}: \"{}\" is not understood; a line is: host [slots=N] [address=NAME] [port=N]", where,
        word));
  }
}

host_entry parse_line(const std::vector<std::string>& words, const std::string& where) {
  host_entry host;
  host.name = words.front();
  // Refuse a leading '-', because ssh would take the name as an option.
  if (host.name.front() == '-' || host.name.find('=') != std::string::npos)
    throw usage_problem(fmt::format(
        "{}: \"{}\" is no name of a host; write: host [slots=N] [address=NAME] [port=N]", where,
        host.name));
  host.address = without_user(host.name);
  for (std::size_t i = 1; i < words.size(); ++i)
    take_option(words[i], where, host);
  const auto colon = host.address.find(':');
  // A text with a single colon is no IPv6 address, which has at least two. The user may have
  // written "host:slots", as for other launchers.
  if (colon != std::string::npos && host.address.rfind(':') == colon) {
    throw usage_problem(fmt::format(
        "{}: \"{}\" has a number behind a colon; write \"{} slots=N\" or "
        "\"{} port=N\"",
        where, host.address, host.address.substr(0, colon), host.address.substr(0, colon)));
  }
  const bool is_bare_ipv6 = colon != std::string::npos && host.address[0] != '[';
  if (is_bare_ipv6) host.address = fmt::format("[{}]", host.address);
  (void)tcp::parse_address(host.address + ":0", where, true);
  return host;
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view{"_-./:=@%+,"}.find(c) != std::string_view::npos;
}

} // namespace

std::vector<host_entry> parse_hosts(std::string_view text, const std::string& what) {
  std::vector<host_entry> hosts;
  std::istringstream stream{std::string{text}};
  std::size_t number = 0;
  std::size_t targets = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    const std::vector<std::string> words = words_of(line.substr(0, line.find('#')));
    if (words.empty()) continue;
    hosts.push_back(parse_line(words, fmt::format("{}, line {}", what, number)));
    targets += hosts.back().count;
  }
  if (hosts.empty())
    throw usage_problem(fmt::format(
        "{} names no host; write a line for each: host [slots=N] [address=NAME] [port=N]", what));
  if (targets > max_targets) {
    throw usage_problem(fmt::format("{} names {} targets; name at most {}", what, targets,
                                    std::size_t{max_targets}));
  }
  return hosts;
}

std::vector<host_entry> read_hosts(const std::string& file) {
  // Maximum number of bytes that are read, because devices such as /dev/zero never end.
  constexpr std::size_t most = std::size_t{1} << 20;
  errno = 0;
  std::ifstream stream{file, std::ios::binary};
  std::string text(most + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  // An empty file is no error here, because parse_hosts() reports that the file names no host.
  if (!stream.is_open() || stream.bad()) {
    throw usage_problem(
        fmt::format("--hosts {}: cannot be read: {}; give a file with a line for each host", file,
                    reason_text(errno)));
  }
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > most) {
    throw usage_problem(
        fmt::format("--hosts {}: this is longer than {} MiB; give a file with a line for each host",
                    file, most >> 20));
  }
  return parse_hosts(text, file);
}

void set_ports(std::vector<host_entry>& hosts, std::uint16_t port) {
  std::map<std::pair<std::string, std::uint16_t>, std::string> taken;
  for (host_entry& host : hosts) {
    if (host.port == 0) host.port = port;
    if (host.port == 0) continue;
    const auto [at, is_free] = taken.try_emplace({host.address, host.port}, host.name);
    if (!is_free) {
      throw usage_problem(fmt::format(
          "hosts {} and {}: port {} of {} would have two servers; give one of them another port=N, "
          "or write one line with slots=N",
          at->second, host.name, host.port, host.address));
    }
  }
}

std::string listen_address(const host_entry& host) {
  if (is_number(host.address)) return fmt::format("{}:{}", host.address, host.port);
  bool is_ipv6 = false;
  try {
    for (const tcp::socket_address& a : tcp::resolve({host.address, 0})) {
      if (a.family() == AF_INET) return fmt::format("0.0.0.0:{}", host.port);
      is_ipv6 = true;
    }
  } catch (const error&) {
    // Ignore an error of the lookup. If the name is unknown, the program reports this when it
    // connects to the server.
  }
  return fmt::format("{}:{}", is_ipv6 ? "[::]" : "0.0.0.0", host.port);
}

std::string shell_text(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    // Quote a word if it begins with '=' or has special characters such as brackets, because some
    // shells would replace such a word.
    if (!word.empty() && word.front() != '=' && std::all_of(word.begin(), word.end(), is_plain)) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word)
      text += c == '\'' ? std::string{"'\\''"} : std::string(1, c);
    text += '\'';
  }
  return text;
}

std::vector<std::string> serve_command(const std::string& ssh, const host_entry& host,
                                       const served_program& served) {
  std::vector<std::string> words = words_of(ssh);
  if (words.empty()) throw usage_problem("--ssh or FARCALL_SSH is empty; give a command");
  words.push_back(host.name);
  std::vector<std::string> there{"farcall", "serve", "--listen", listen_address(host),
                                 "--key-from-stdin"};
  if (served.takes_exports) there.emplace_back("--exports-from-stdin");
  if (!served.folder.empty()) {
    there.emplace_back(served.needs_folder ? "--folder" : "--folder-if-there");
    there.push_back(served.folder);
  }
  if (served.uses_host_files) there.emplace_back("--host-files");
  if (!served.host_files_by.empty()) there.push_back("--host-files-by=" + served.host_files_by);
  there.push_back(served.program);
  there.insert(there.end(), served.arguments.begin(), served.arguments.end());
  words.push_back(shell_text(there));
  return words;
}

} // namespace farcall::tool
