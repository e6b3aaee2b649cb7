// SPDX-License-Identifier: Apache-2.0
#include "bench.hpp"
#include "commands.hpp"
#include "exports.hpp"
#include "passed_sockets.hpp"
#include "run_plan.hpp"
#include "serve_log.hpp"
#include "server_pages.hpp"
#include "service_manager.hpp"

#include <tools/common/http_server.hpp>
#include <tools/common/key_in_memory.hpp>
#include <tools/common/mount_program.hpp>
#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/base/text.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/offload/other_variables.hpp>
#include <farcall/server/server.hpp>
#include <farcall/transport/tcp/secret.hpp>
#include <farcall/transport/tcp/unix_socket.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

struct serve_options {
  std::vector<std::string> listen;
  std::optional<std::string> status;
  std::string log_format = "text";
  bool dumps_core = false;
  server_options server;
  unsigned max_heartbeat_timeout_ms = static_cast<unsigned>(server.max_heartbeat_timeout.count());
  unsigned handshake_timeout_ms = static_cast<unsigned>(server.handshake_timeout.count());
  bool key_from_stdin = false;
  bool exports_from_stdin = false;
  std::string folder;
  std::string folder_if_there;
  bool host_files = false;
  std::optional<std::string> host_files_by;
};

/// Reads one line from a descriptor, byte by byte, so that the data after the line stays unread.
std::string read_line(int from) {
  constexpr std::size_t longest = 4096;
  std::string line;
  for (char c = 0; c != '\n' && line.size() < longest;) {
    const ssize_t got = read(from, &c, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw failed_run(
          "--key-from-stdin: standard input ended before the key came; write it as one line");
    line += c;
  }
  return line;
}

/// Returns standard input as a separate descriptor, and puts /dev/null in its place. So the
/// processes that this process starts do not read from the original input.
unique_fd take_stdin() {
  unique_fd input{fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)};
  const unique_fd nothing{open("/dev/null", O_RDONLY | O_CLOEXEC)};
  if (!input || dup2(nothing.get(), STDIN_FILENO) < 0)
    throw failed_run(fmt::format("cannot watch standard input: {}", reason_text(errno)));
  return input;
}

/// Returns the folder for the user's runtime files (XDG_RUNTIME_DIR), which the system removes when
/// the user logs out. Returns /tmp if the user has no such folder.
std::string own_folder() {
  const std::string folder = farcall::environment("XDG_RUNTIME_DIR").value_or("");
  struct stat found{};
  // Check that this user owns the folder. After su, the variable may be left from the shell of
  // another user.
  const bool is_own = folder.starts_with('/') && stat(folder.c_str(), &found) == 0 &&
                      S_ISDIR(found.st_mode) && found.st_uid == geteuid();
  return is_own ? folder : "/tmp";
}

constexpr std::string_view socket_prefix = "farcall-";
constexpr std::string_view socket_suffix = ".socket";
constexpr std::size_t socket_random_bytes = 8;

/// True if new_socket_path() may have made this file name.
bool is_socket_name(std::string_view name) {
  if (!name.starts_with(socket_prefix) || !name.ends_with(socket_suffix)) return false;
  if (name.size() != socket_prefix.size() + 2 * socket_random_bytes + socket_suffix.size())
    return false;
  name.remove_prefix(socket_prefix.size());
  name.remove_suffix(socket_suffix.size());
  return name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Removes the sockets that killed servers have left in a folder. Otherwise they would remain,
/// because each server makes a new path and replaces no socket.
void remove_left_sockets(const std::string& folder) {
  std::error_code ignored;
  std::filesystem::directory_iterator at(folder, ignored);
  for (; at != std::filesystem::directory_iterator(); at.increment(ignored)) {
    if (is_socket_name(at->path().filename().native()) && tcp::is_left_behind(at->path()))
      std::filesystem::remove(at->path(), ignored);
  }
}

/// Returns a path for a new socket. The path is random, so no other user can guess it and make a
/// socket there first.
tcp::address new_socket_path() {
  std::array<std::byte, socket_random_bytes> random{};
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
    throw failed_run(fmt::format("cannot choose a path for a socket: {}", reason_text(errno)));
  const std::string name =
      fmt::format("/{}{}{}", socket_prefix, hexadecimal(random), socket_suffix);
  std::string folder = own_folder();
  try {
    (void)tcp::parse_server_address(folder + name, "XDG_RUNTIME_DIR");
  } catch (const setting_error&) {
    folder = "/tmp";
  }
  remove_left_sockets(folder);
  return {folder + name};
}

/// Determines the addresses at which the server listens: the passed sockets, or the addresses of
/// --listen. Without both, the server listens at 127.0.0.1 if its options name a key, a certificate
/// or --plain, and otherwise at a new Unix socket.
void choose_listeners(serve_options& options, std::vector<unique_fd> passed) {
  if (!options.listen.empty() && !passed.empty()) {
    throw usage_problem(fmt::format(
        "--listen {}, and sockets were passed by the service manager (LISTEN_FDS={}); leave out "
        "--listen, or start the server without a socket unit",
        options.listen.front(), passed.size()));
  }
  const bool has_port =
      options.key_from_stdin || options.server.plain || !options.server.access.is_empty();
  if (options.listen.empty() && passed.empty())
    options.server.listen = has_port ? tcp::address{"127.0.0.1", 0} : new_socket_path();
  for (const std::string& place : options.listen) {
    const tcp::address at = tcp::parse_server_address(place, "--listen", true);
    if (&place == &options.listen.front()) {
      options.server.listen = at;
    } else {
      options.server.also_listen.push_back(at);
    }
  }
  for (unique_fd& fd : passed)
    options.server.listeners.push_back(fd.release());
}

/// Serves until a signal arrives or `input` ends. At the end of `input`, the server ends at once.
/// If --status was given, also serves the status pages. Reports the server's state to the service
/// manager.
void serve_and_report(server& listening, const serve_options& options, service_manager& manager,
                      int input) {
  const auto ask = [&](std::chrono::milliseconds longest) { return listening.status(longest); };
  std::optional<http_server> pages;
  if (options.status) {
    const tcp::address at = tcp::parse_address(*options.status, "--status", true);
    try {
      pages.emplace(at, server_pages([ask] { return ask(std::chrono::seconds(1)); }));
    } catch (const error& e) {
      // Name the option --status in the error, because the user could otherwise take the address
      // for one of --listen.
      throw failed_run(fmt::format("--status: {}", e.what()));
    }
  }
  std::optional<service_reports> reports;
  serving meanwhile;
  meanwhile.input = input;
  meanwhile.on_listening = [&] {
    if (pages) {
      for (const tcp::address& a : pages->addresses())
        print(fmt::format("farcall: status at http://{}/readyz\n", a.text()));
    }
    manager.tell("READY=1");
    reports.emplace(manager, ask);
  };
  meanwhile.on_draining = [&] { manager.tell("STOPPING=1"); };
  serve_until_signalled(listening, meanwhile);
  manager.tell("STOPPING=1");
}

/// Changes to the folder in which the targets shall run, because the targets inherit the server's
/// working folder.
void enter_folder(const serve_options& options) {
  const bool must_exist = !options.folder.empty();
  const std::string& folder = must_exist ? options.folder : options.folder_if_there;
  if (folder.empty() || chdir(folder.c_str()) == 0 || !must_exist) return;
  throw failed_run(fmt::format("cannot use {} as the working folder of targets: {}", folder,
                               reason_text(errno)));
}

/// Warns the user about variables such as FARCALL_KEY, which hosts read but servers do not. There
/// is no warning if an option says how the server admits hosts.
void warn_of_unread(const serve_options& options) {
  settings::warn_of_unknown(other_variables());
  if (options.key_from_stdin || options.server.plain || !options.server.access.is_empty()) return;
  for (const setting* const s : {&settings::row("key"), &settings::row("certificate"),
                                 &settings::row("certificate-key"), &settings::row("authority")}) {
    const std::string variable = settings::variable_of(*s);
    if (farcall::environment(variable.c_str())) {
      log::warning(fmt::format("{} is read by hosts, and not by 'farcall serve'; give this server "
                               "--{} FILE",
                               variable, s->name));
    }
  }
}

/// Makes farcall-mount start the targets, unless `program` is empty.
void mount_for_targets(serve_options& options, const std::string& program) {
  if (program.empty()) return;
  std::vector<std::string>& words = options.server.arguments;
  words.front() = options.server.program;
  words.insert(words.begin(), program);
  options.server.program = program;
}

int serve_app(serve_options options, const std::vector<std::string>& command) {
  if (command.empty())
    throw usage_problem("no program given; for example: farcall serve ./app its arguments");
  std::vector<unique_fd> passed = take_passed_sockets();
  options.server.events =
      write_log(options.log_format == "json" ? log_format::json : log_format::text,
                chosen_log_level(options.key_from_stdin ? log::level::warning : log::level::info));
  warn_of_unread(options);
  service_manager manager;
  const run_plan plan = make_run_plan({}, "shm", command);
  choose_listeners(options, std::move(passed));
  // Make the program's path absolute now, because the working folder may change later.
  options.server.program =
      served_for_benchmarks(std::filesystem::absolute(plan.program).lexically_normal());
  options.server.arguments = plan.words;
  options.server.sampler = sampler_of_servers();
  options.server.max_heartbeat_timeout =
      std::chrono::milliseconds(options.max_heartbeat_timeout_ms);
  options.server.handshake_timeout = std::chrono::milliseconds(options.handshake_timeout_ms);
  if (options.host_files_by && !options.host_files)
    throw usage_problem("--host-files-by is for --host-files; give both, or none");
  if (!options.key_from_stdin &&
      (options.exports_from_stdin || !options.folder.empty() || !options.folder_if_there.empty())) {
    throw usage_problem("--exports-from-stdin, --folder and --folder-if-there are for "
                        "--key-from-stdin; set variables and the working folder before");
  }
  block_end_signals();
  std::optional<key_in_memory> key;
  unique_fd input;
  if (options.key_from_stdin) {
    if (!options.server.access.is_empty())
      throw usage_problem("--key-from-stdin and another key or certificate; give one of them");
    std::string line = read_line(STDIN_FILENO);
    key.emplace(line);
    options.server.access.key = key->path();
    options.server.reads_access_once = "the key came from standard input (--key-from-stdin) and "
                                       "cannot be read again; start a server with another one";
    if (options.exports_from_stdin) set_exports(read_exports(STDIN_FILENO));
    enter_folder(options);
    input = take_stdin();
  }
  // Change the environment after the exported variables are set, and before the server copies it
  // for its targets.
  if (options.host_files) mount_for_targets(options, prepare_host_files(options.host_files_by));
  // A process that is not dumpable writes no core dump, so the key gets into none. Programs that
  // this process starts are dumpable again.
  if (!options.dumps_core) prctl(PR_SET_DUMPABLE, 0);
  server listening(options.server);
  key.reset();
  serve_and_report(listening, options, manager, input.get());
  return 0;
}

/// Warns the user about options of `farcall serve` that follow the program's name, because the
/// program gets them. They are accepted, because the program may have options with the same names.
void warn_of_misplaced(const std::vector<option>& options, const std::vector<std::string>& rest) {
  for (std::size_t i = 1; i < rest.size(); ++i) {
    const std::string name = rest[i].substr(0, rest[i].find('='));
    if (std::none_of(options.begin(), options.end(),
                     [&](const option& o) { return o.name == name; }))
      continue;
    log::warning(name + " comes after the program, which gets it; options of 'farcall serve' come "
                        "before the program");
  }
}

} // namespace

command command_serve() {
  auto options = std::make_shared<serve_options>();
  serve_options& o = *options;
  access& a = o.server.access;
  return {
      .name = "serve",
      .text = "Let hosts on other machines have targets on this machine",
      .usage = {"[OPTIONS] PROGRAM [ARGUMENT...]"},
      .footer =
          "Hosts name it as FARCALL_TARGETS=tcp://HOST:PORT, or unix:///PATH. Without a key it "
          "listens at a Unix socket, which is its user's only. Options come before the program. "
          "SIGINT or SIGTERM drains "
          "it: it starts no more targets, and ends with the last one; a second one ends it "
          "at once. SIGHUP has it read its files of keys, clients and certificates again.",
      .examples = {{"farcall serve ./app", "Listen at a Unix socket, for programs of this user"},
                   {"farcall serve --listen 0.0.0.0:4711 --key key ./app",
                    "Listen at a port, for hosts that have the key"}},
      .options =
          {{.name = "--listen",
            .value = &o.listen,
            .takes = "ADDRESS",
            .text = "Address to listen at, HOST:PORT or the /PATH of a Unix socket; may be given "
                    "several times. [::]:PORT is each address of the machine, by IPv4 and IPv6; "
                    "port 0 is any that is free (default: the sockets that a service manager has "
                    "passed, or 127.0.0.1:0, and without a key a new Unix socket)"},
           {.name = "--status",
            .value = &o.status,
            .takes = "HOST:PORT",
            .text = "Address at which /livez, /readyz and /metrics are served by HTTP, to "
                    "everybody who can reach it, as 127.0.0.1:9465"},
           {.name = "--log-format",
            .value = &o.log_format,
            .takes = "FORMAT",
            .text = "Format of lines on standard error: text, or a JSON document per line",
            .choices = {"text", "json"},
            .shows_default = true},
           {.name = "--core-dumps",
            .value = &o.dumps_core,
            .text = "The server's user may dump and debug it, which exposes the keys"},
           {.name = "--key",
            .value = &a.key,
            .takes = "FILE",
            .text = "File with the key that admits hosts ('farcall keygen' makes one)"},
           {.name = "--clients",
            .value = &a.clients,
            .takes = "FILE",
            .text = "File with a line for each client that is admitted, 'NAME KEY' as made by "
                    "'farcall keygen --name', and limits of its targets: targets=N, "
                    "memory=2G, cpus=0-3, lanes=N"},
           {.name = "--key-from-stdin",
            .value = &o.key_from_stdin,
            .text = "Read the key from standard input, and end when that ends ('farcall run "
                    "--hosts' starts servers so)",
            .is_internal = true},
           {.name = "--exports-from-stdin",
            .value = &o.exports_from_stdin,
            .text = "Read variables for the environment of targets behind that key",
            .is_internal = true},
           {.name = "--folder",
            .value = &o.folder,
            .text = "With --key-from-stdin: working folder of targets",
            .is_internal = true},
           {.name = "--folder-if-there",
            .value = &o.folder_if_there,
            .text = "Like --folder, if the folder exists",
            .excludes = "--folder",
            .is_internal = true},
           {.name = "--certificate",
            .value = &a.certificate,
            .takes = "FILE",
            .text = std::string(settings::row("certificate").text)},
           {.name = "--certificate-key",
            .value = &a.certificate_key,
            .takes = "FILE",
            .text = std::string(settings::row("certificate-key").text)},
           {.name = "--authority",
            .value = &a.authority,
            .takes = "FILE",
            .text = std::string(settings::row("authority").text)},
           {.name = "--revoked",
            .value = &a.revoked,
            .takes = "FILE",
            .text = std::string(settings::row("revoked").text)},
           {.name = "--host-files",
            .value = &o.host_files,
            .text = "Targets use files of their hosts where these name folders for them "
                    "(host_files): mounts them, or preloads libfarcall-io.so. Without it such "
                    "hosts are refused"},
           {.name = "--host-files-by",
            .value = &o.host_files_by,
            .takes = "WAY",
            .text = std::string(settings::row("host-files-by").text),
            .choices = {"auto", "mount", "preload"}},
           {.name = "--keep-output",
            .value = &o.server.keeps_output,
            .text = std::string(settings::row("keep-output").text)},
           {.name = "--plain",
            .value = &o.server.plain,
            .text = std::string(settings::row("plain").text)},
           {.name = "--i-trust-this-network",
            .value = &o.server.trusts_network,
            .text = std::string(settings::row("i-trust-this-network").text)},
           {.name = "--most-targets",
            .value = &o.server.max_targets,
            .text = "Targets at a time (default 1000)",
            .range = {{1, 100'000}}},
           {.name = "--longest-heartbeat-timeout-ms",
            .value = &o.max_heartbeat_timeout_ms,
            .text = "Hosts that ask for a longer heartbeat timeout are refused: targets live that "
                    "long if their host has vanished (default: a day)",
            .range = {{10, 86'400'000}}},
           {.name = "--handshake-timeout-ms",
            .value = &o.handshake_timeout_ms,
            .text = "Time in which a connection must complete its handshake (default 5000)",
            .range = {{10, 3'600'000}}}},
      .takes_rest = command::rest::after_options,
      .run = [options](const std::vector<std::string>& rest) {
        warn_of_misplaced(command_serve().options, rest);
        return serve_app(*options, rest);
      }};
}

command command_keygen() {
  struct keygen_options {
    std::string file;
    std::string client;
  };
  auto options = std::make_shared<keygen_options>();
  return {.name = "keygen",
          .text = "Make a file with a new key, for 'farcall serve --key' and FARCALL_KEY",
          .footer = "Only its owner can read it. Copy it to each machine by a safe way, such as "
                    "scp -p. With --name it is the key of one client: FARCALL_KEY names the file "
                    "there, and its line goes into the server's file of clients (cat FILE >> "
                    "CLIENTS; 'farcall serve --clients CLIENTS').",
          .examples = {{"farcall keygen key", "Make a key for a server and all of its hosts"}},
          .options = {{.name = "FILE",
                       .value = &options->file,
                       .takes = "FILE",
                       .text = "File to make; must not exist",
                       .is_required = true},
                      {.name = "--name",
                       .value = &options->client,
                       .takes = "NAME",
                       .text = "The client whose key it is; anybody on the network can see it"}},
          .run = [options](const auto& /*rest*/) {
            tcp::write_key_file(options->file, options->client);
            print(fmt::format("made {}\n", options->file));
            return 0;
          }};
}

} // namespace farcall::tool
