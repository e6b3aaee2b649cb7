#include "bench.hpp"
#include "commands.hpp"
#include "run_plan.hpp"

#include <tools/common/io_library.hpp>
#include <tools/common/key_in_memory.hpp>
#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/secret.hpp>
#include <farcall/transport/tcp/server.hpp>

#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

struct serve_options {
  std::string listen = "127.0.0.1:0";
  server_options server;
  unsigned longest_heartbeat_timeout_ms =
      static_cast<unsigned>(server.longest_heartbeat_timeout.count());
  unsigned handshake_timeout_ms = static_cast<unsigned>(server.handshake_timeout.count());
  bool key_from_stdin = false;
  bool host_files = false;
};

/// One line from a descriptor, and not a byte more.
std::string read_line(int from) {
  constexpr std::size_t longest = 4096;
  std::string line;
  for (char c = 0; c != '\n' && line.size() < longest;) {
    const ssize_t got = read(from, &c, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw failed_run("--key-from-stdin: standard input ended before the key came");
    line += c;
  }
  return line;
}

/// Ends this process as a signal would when standard input ends, whoever holds its other end then.
/// Targets get an empty one.
void end_with_stdin() {
  const int input = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
  const unique_fd nothing{open("/dev/null", O_RDONLY | O_CLOEXEC)};
  if (input < 0 || dup2(nothing.get(), STDIN_FILENO) < 0)
    throw failed_run(fmt::format("cannot watch standard input: {}", reason_text(errno)));
  std::thread([input] {
    char piece[256];
    for (ssize_t got = 1; got > 0 || (got < 0 && errno == EINTR);)
      got = read(input, piece, sizeof piece);
    kill(getpid(), SIGTERM);
  }).detach();
}

int serve_app(serve_options options, const std::vector<std::string>& command) {
  if (command.empty())
    throw usage_problem("no program given; for example: farcall serve ./app its arguments");
  const run_plan plan = make_run_plan({}, "shm", command);
  options.server.listen = tcp::parse_address(options.listen, "--listen", true);
  options.server.program = served_for_benchmarks(plan.program);
  options.server.arguments = plan.words;
  options.server.sampler = {this_program(), "sampler"};
  options.server.longest_heartbeat_timeout =
      std::chrono::milliseconds(options.longest_heartbeat_timeout_ms);
  options.server.handshake_timeout = std::chrono::milliseconds(options.handshake_timeout_ms);
  // Before the server notes the environment of its targets.
  if (options.host_files) preload_io_library();
  block_end_signals();
  std::optional<key_in_memory> key;
  if (options.key_from_stdin) {
    if (!options.server.access.is_empty())
      throw usage_problem("--key-from-stdin and another key or certificate; give one of them");
    std::string line = read_line(STDIN_FILENO);
    key.emplace(line);
    options.server.access.key = key->path();
    end_with_stdin();
  }
  server listening(std::move(options.server));
  key.reset();
  serve_until_signalled(listening);
  return 0;
}

} // namespace

command command_serve() {
  auto options = std::make_shared<serve_options>();
  serve_options& o = *options;
  access& a = o.server.access;
  return {
      .name = "serve",
      .text = "Let hosts elsewhere have targets on this machine: farcall serve --listen HOST:PORT "
              "--key FILE ./app [its arguments ...]",
      .footer = "Hosts name it as FARCALL_TARGETS=tcp://HOST:PORT. Without a key it listens on "
                "loopback addresses only. Options come before the program. SIGINT or SIGTERM ends "
                "it, with its targets.",
      .options = {{.name = "--listen",
                   .value = &o.listen,
                   .text =
                       "Address to listen at; port 0 is any that is free (default 127.0.0.1:0)"},
                  {.name = "--key",
                   .value = &a.key,
                   .text = "File with the key of those who may come ('farcall keygen' makes one)"},
                  {.name = "--key-from-stdin",
                   .value = &o.key_from_stdin,
                   .text = "Read the key from standard input, and end when that ends ('farcall run "
                           "--hosts' starts servers so)"},
                  {.name = "--certificate",
                   .value = &a.certificate,
                   .text = std::string(settings::row("certificate").text)},
                  {.name = "--certificate-key",
                   .value = &a.certificate_key,
                   .text = std::string(settings::row("certificate-key").text)},
                  {.name = "--authority",
                   .value = &a.authority,
                   .text = std::string(settings::row("authority").text)},
                  {.name = "--host-files",
                   .value = &o.host_files,
                   .text = "Targets use files of their hosts where these name folders for them "
                           "(host_files): preloads libfarcall-io.so. Without it such hosts are "
                           "refused"},
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
                   .value = &o.server.most_targets,
                   .text = "Targets at a time (default 1000)",
                   .range = {{1, 100'000}}},
                  {.name = "--longest-heartbeat-timeout-ms",
                   .value = &o.longest_heartbeat_timeout_ms,
                   .text =
                       "Hosts that ask for a longer heartbeat timeout are refused: so long targets "
                       "live whose host has vanished (default: a day)",
                   .range = {{10, 86'400'000}}},
                  {.name = "--handshake-timeout-ms",
                   .value = &o.handshake_timeout_ms,
                   .text = "How long a connection may take to say what it wants (default 5000)",
                   .range = {{10, 3'600'000}}}},
      .takes_rest = command::rest::after_options,
      .run = [options](const std::vector<std::string>& rest) { return serve_app(*options, rest); }};
}

command command_keygen() {
  auto file = std::make_shared<std::string>();
  return {.name = "keygen",
          .text = "Make a file with a new key, for 'farcall serve --key' and FARCALL_KEY: farcall "
                  "keygen FILE",
          .footer = "Only its owner can read it. Copy it to each machine by a safe way, such as "
                    "scp -p.",
          .options = {{.name = "FILE",
                       .value = file.get(),
                       .text = "File to make; must not exist",
                       .is_required = true}},
          .run = [file](const auto& /*rest*/) {
            tcp::write_key_file(*file);
            print(fmt::format("made {}\n", *file));
            return 0;
          }};
}

} // namespace farcall::tool
