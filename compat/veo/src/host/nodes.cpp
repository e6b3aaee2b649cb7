// SPDX-License-Identifier: Apache-2.0
#include "nodes.hpp"
#include "last_error.hpp"
#include "settings.hpp"

#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/settings_source.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::veo {
namespace {

constexpr int max_node_numbers = 4096;
constexpr std::size_t max_words = 64;

const char* variable(const char* name) noexcept {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

int number_in(const std::string& text, const std::string& what) {
  return static_cast<int>(parse_number(text, what, 0, max_node_numbers));
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;)
    words.push_back(word);
  return words;
}

/// Returns the words of a helper's command line. If all of the text names a file, the file is the
/// only word, because its path may contain blanks.
std::vector<std::string> command_of_helper(const std::string& text) {
  std::error_code unknown;
  if (std::filesystem::exists(text, unknown)) return {text};
  return words_of(text);
}

std::vector<target_url> configured() {
  return parse_targets(
      settings_source().text(nodes_setting).value_or(settings::default_of(nodes_setting)));
}

bool is_executable(const std::string& path) { return ::access(path.c_str(), X_OK) == 0; }

/// Returns the path of the helper program that is installed with this library. The paths relative
/// to the library differ between the layouts of installations, so several are tried.
std::string installed_helper() {
  Dl_info here{};
  std::string folder;
  if (::dladdr(reinterpret_cast<const void*>(&node_count), &here) != 0 &&
      here.dli_fname != nullptr) {
    // Resolve links, because the library's name may be a link in another folder.
    std::error_code unknown;
    const std::filesystem::path library = std::filesystem::canonical(here.dli_fname, unknown);
    folder = (unknown ? std::filesystem::path(here.dli_fname) : library).parent_path().string();
    if (!folder.empty()) folder += '/';
  }
  std::string tried;
  for (const char* place :
       {"../libexec/farcall/veo/aveorun", "../../libexec/farcall/veo/aveorun",
        "../veo/libexec/farcall/veo/aveorun", "../libexec/aveorun_ve1", "aveorun"}) {
    const std::string path = folder + place;
    if (is_executable(path)) return path;
    tried += (tried.empty() ? "" : ", ") + path;
  }
  for (const char* path : {"/opt/nec/ve/veos/libexec/aveorun_ve1"}) {
    if (is_executable(path)) return path;
  }
  throw error("the helper program aveorun is not where this library looks for it (" + tried +
              "); name it with VEORUN_BIN=/path/to/aveorun");
}

std::string quoted(const std::string& word) {
  const char quote = word.find('"') == std::string::npos ? '"' : '\'';
  return quote + word + quote;
}

/// Throws error if the program's name contains a slash and the file cannot be executed. A name
/// without a slash is searched in PATH when the program starts.
void require_program(const std::string& word, const std::string& named_by) {
  if (word.find('/') != std::string::npos && !is_executable(word)) {
    throw error("the helper program " + word + named_by + " is not there, or cannot be executed");
  }
}

/// Returns the files that the words of a command line name, as paths or as commands in PATH.
std::vector<std::string> files_in(const std::vector<std::string>& words) {
  std::vector<std::string> files;
  for (const std::string& word : words) {
    std::error_code unknown;
    if (std::filesystem::is_regular_file(word, unknown)) {
      files.push_back(word);
      continue;
    }
    try {
      if (word.find('/') == std::string::npos) files.push_back(find_command(word));
    } catch (const start_failed&) {
      continue; // the word is an option, or the like
    }
  }
  return files;
}

/// True unless the file is a program in the ELF format that has no part of farcall. Other files may
/// be scripts, which start any program.
bool may_start_helper(const std::string& file) {
  const unique_fd opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!opened || ::fstat(opened.get(), &status) != 0 || status.st_size == 0) return true;
  const auto bytes = static_cast<std::size_t>(status.st_size);
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, opened.get(), 0);
  if (mapped == MAP_FAILED) return true;
  const std::string_view content(static_cast<const char*>(mapped), bytes);
  // A helper names farcall in its texts, or as a library that it needs.
  const bool is_other = content.starts_with("\x7f"
                                            "ELF") &&
                        ::memmem(mapped, bytes, "farcall", 7) == nullptr;
  ::munmap(mapped, bytes);
  return !is_other;
}

/// Throws error if a command line names programs of which none can be a helper. Such a program
/// might run until the start timeout.
void require_helper(const std::vector<std::string>& words, const std::string& named_by) {
  const std::vector<std::string> files = files_in(words);
  if (files.empty() || std::ranges::any_of(files, may_start_helper)) return;
  std::string command;
  for (const std::string& word : words)
    command += (command.empty() ? "" : " ") + word;
  throw error("the helper program " + command + named_by +
              " is neither aveorun nor made by mk_veorun_static; if it starts such a program, name "
              "a shell script that runs it");
}

std::vector<std::string> debugger() {
  const char* mode = variable("VEO_DEBUG");
  if (mode == nullptr) return {};
  const std::string wanted = mode;
  // Make the debugger read from the terminal, because the standard input of a target is empty.
  if (wanted == "console") return {"sh", "-c", "exec \"$@\" </dev/tty", "sh", "gdb", "--args"};
  if (wanted == "xterm") return {"/usr/bin/xterm", "-e", "gdb", "--args"};
  print_error("VEO_DEBUG=" + wanted + " is ignored; it can be console or xterm");
  return {};
}

} // namespace

int node_count() { return static_cast<int>(configured().size()); }

int choose_node(int given) {
  if (given < -1) {
    throw error("node " + std::to_string(given) + ": nodes are numbered from 0; -1 means " +
                "VE_NODE_NUMBER");
  }
  int node = given;
  const char* wanted = variable("VE_NODE_NUMBER");
  if (const char* list = variable("_VENODELIST")) {
    const std::vector<std::string> listed = words_of(list);
    if (given >= 0) {
      if (static_cast<std::size_t>(given) >= listed.size()) {
        throw error("node " + std::to_string(given) + ": _VENODELIST has " +
                    std::to_string(listed.size()) + " nodes");
      }
      node = number_in(listed[static_cast<std::size_t>(given)], "_VENODELIST");
    } else if (wanted != nullptr) {
      if (std::find(listed.begin(), listed.end(), wanted) == listed.end()) {
        throw error(std::string("VE_NODE_NUMBER is ") + wanted + ", which _VENODELIST lacks (" +
                    list + ")");
      }
      node = number_in(wanted, "VE_NODE_NUMBER");
    } else if (listed.empty()) {
      throw error("_VENODELIST names no node");
    } else {
      node = number_in(listed.front(), "_VENODELIST");
    }
  } else if (given == -1) {
    node = wanted == nullptr ? 0 : number_in(wanted, "VE_NODE_NUMBER");
  }
  if (const int count = node_count(); node >= count) {
    throw error("node " + std::to_string(node) + " does not exist: there are " +
                std::to_string(count) + " nodes; " + settings::variable_of(nodes_setting) +
                " says which (shm:16, tcp://host:port, …)");
  }
  return node;
}

helper_start start_of_helper(int node, const std::string& program) {
  const target_url url = configured().at(static_cast<std::size_t>(node));
  std::string options;
  const auto add = [&](const std::string& option) {
    options += (options.empty() ? "?" : "&") + option;
  };
  if (url.cpu) add("cpu=" + std::to_string(*url.cpu));
  for (const auto& [option, value] : url.options)
    add(option + "=" + value);
  if (!url.name.empty()) add("name=" + url.name);
  const transport_entry* const row = find_transport(transports(), url.scheme);
  if (row != nullptr && row->make_launcher) {
    if (!program.empty()) {
      throw error("node " + std::to_string(node) +
                  " is a server elsewhere, which runs the helper " +
                  "that it was started with, not " + program);
    }
    return {url.place + options, ""};
  }
  if (row != nullptr && row->host) {
    throw error("node " + std::to_string(node) + " is " + url.scheme + " in " +
                settings::variable_of(nodes_setting) +
                ", which is no process, and kernels run in processes: name shm:N, exec:… or "
                "tcp://host:port");
  }

  std::vector<std::string> words = command_of_helper(program);
  const char* named = variable("VEORUN_BIN");
  const bool is_named =
      program.empty() && named != nullptr && url.command.empty() && url.program.empty();
  if (program.empty()) {
    words = !url.command.empty()   ? url.command
            : !url.program.empty() ? std::vector<std::string>{url.program}
            : named != nullptr     ? command_of_helper(named)
                                   : std::vector<std::string>{installed_helper()};
  }
  if (words.empty()) throw error("the helper program's name is empty");
  if (words.size() > max_words) {
    throw error("the helper's command line has more than " + std::to_string(max_words) + " words");
  }
  const std::string named_by = is_named ? ", which VEORUN_BIN names," : "";
  require_program(words.front(), named_by);
  if (is_named || !program.empty()) require_helper(words, named_by);
  const std::vector<std::string> before = debugger();
  words.insert(words.begin(), before.begin(), before.end());
  std::string command;
  for (const std::string& word : words)
    command += (command.empty() ? "" : " ") + quoted(word);
  return {"exec:" + command + options,
          is_named ? std::string("VEORUN_BIN is \"") + named + '"' : std::string()};
}

} // namespace farcall::veo
