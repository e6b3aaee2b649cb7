// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farcall {

enum class setting_kind : unsigned char { text, number, power_of_two, choice };

/// Places where a user may give a setting.
enum class setting_source : unsigned char { anywhere, environment, command_line };

/// Way in which a target process receives the value of a setting: from the host, from its
/// environment, or not at all.
enum class setting_reach : unsigned char {
  host,      ///< targets do not receive the value, because only the host uses it
  forwarded, ///< the host passes the value on to all targets
  inherited  ///< each process reads its own environment; targets on the same machine inherit the
             ///< host's environment
};

/// A row of a table of settings. Everything about a setting follows from its row: its names, the
/// check of its value, the text of errors, and its line in `--farcall-help`. A test compares the
/// row with the table in docs/settings.md.
struct setting {
  std::string_view name; ///< "spin-us" is FARCALL_SPIN_US and --farcall-spin-us
  setting_kind kind = setting_kind::text;
  /// Kind of value that the setting takes: a kind of text, the unit of a number, or the choices as
  /// in "yes|no".
  std::string_view takes{};
  std::uint64_t low = 0;        ///< smallest accepted number
  std::uint64_t high = 0;       ///< largest accepted number
  std::uint64_t number = 0;     ///< default of a number
  std::string_view otherwise{}; ///< default in words, if it is not a number
  setting_source source = setting_source::anywhere;
  setting_reach reach = setting_reach::host;
  std::string_view field{}; ///< name of the member of job_options for the setting; may be empty
  std::string_view text{};  ///< one sentence for users
};

namespace settings {

inline constexpr std::uint64_t day_ms = 86'400'000;

/// The settings of the library. A new setting needs a row in this table, and the line of code that
/// uses the setting.
inline constexpr setting core[] = {
    {.name = "targets",
     .takes = "URLs",
     .otherwise = "shm",
     .field = "targets",
     .text = "Targets by URL, comma separated: shm:4,shm?cpu=1&workers=2,tcp://host:port"},
    {.name = "program",
     .takes = "path",
     .otherwise = "this program",
     .field = "program",
     .text = "Program that targets run"},
    {.name = "start-timeout-ms",
     .kind = setting_kind::number,
     .takes = "ms",
     .low = 1,
     .high = day_ms,
     .number = 10'000,
     .reach = setting_reach::forwarded,
     .field = "start_timeout",
     .text = "How long all targets together may take to join, and two nodes to meet"},
    {.name = "stop-timeout-ms",
     .kind = setting_kind::number,
     .takes = "ms",
     .low = 1,
     .high = day_ms,
     .number = 2'000,
     .field = "stop_timeout",
     .text = "How long targets may take to finish when the job ends; then they are killed"},
    {.name = "release-timeout-ms",
     .kind = setting_kind::number,
     .takes = "ms",
     .low = 1,
     .high = day_ms,
     .number = 2'000,
     .reach = setting_reach::forwarded,
     .field = "release_timeout",
     .text = "How long a buffer's destructor waits to tell the buffer's node; after that, the "
             "memory stays allocated until the job ends"},
    {.name = "lane-bytes",
     .kind = setting_kind::power_of_two,
     .takes = "bytes",
     .low = 4096,
     .high = 1U << 26,
     .number = 64U << 10,
     .reach = setting_reach::forwarded,
     .field = "lane_bytes",
     .text = "Size of a lane's ring"},
    {.name = "heap-bytes",
     .kind = setting_kind::number,
     .takes = "bytes",
     .low = 1U << 20,
     .high = std::uint64_t{1} << 46,
     .otherwise = "all memory",
     .reach = setting_reach::forwarded,
     .field = "heap_bytes",
     .text = "Most memory that a node can share; less than 64 MiB is taken as 64 MiB"},
    {.name = "key",
     .takes = "file",
     .otherwise = "none",
     .field = "key",
     .text = "Key that this program and servers have in common; 'farcall keygen' makes one"},
    {.name = "certificate",
     .takes = "file",
     .otherwise = "none",
     .field = "certificate",
     .text = "Instead of a key: the certificate of this side, PEM"},
    {.name = "certificate-key",
     .takes = "file",
     .otherwise = "none",
     .field = "certificate_key",
     .text = "Private key of the certificate, PEM"},
    {.name = "authority",
     .takes = "file",
     .otherwise = "none",
     .field = "authority",
     .text = "Certificate of the authority whose certificates are accepted, PEM"},
    {.name = "server-key",
     .takes = "sha256:BASE64, several with commas",
     .otherwise = "none",
     .field = "server_key",
     .text = "With certificates: public keys of servers (SHA-256 of the SubjectPublicKeyInfo), one "
             "of which a server must have, whatever its certificate's name"},
    {.name = "heartbeat-timeout-ms",
     .kind = setting_kind::number,
     .takes = "ms",
     .low = 10,
     .high = day_ms,
     .number = 5'000,
     .reach = setting_reach::forwarded,
     .field = "heartbeat_timeout",
     .text = "A server that is silent for longer has failed, with its targets"},
    {.name = "peer-timeout-ms",
     .kind = setting_kind::number,
     .takes = "ms",
     .low = 10,
     .high = day_ms,
     .otherwise = "none",
     .field = "peer_timeout",
     .text = "A target that does not reply to the host for longer, for instance because it is "
             "stopped, is killed"},
    {.name = "host-files",
     .takes = "paths",
     .otherwise = "none",
     .reach = setting_reach::forwarded,
     .field = "host_files",
     .text = "Folders of the host whose files targets may use: /data:ro,/home/me"},
    {.name = "label",
     .kind = setting_kind::choice,
     .takes = "yes|no",
     .otherwise = "no",
     .field = "label",
     .text = "Lines that targets print begin with the node's number; 'farcall run --label' labels "
             "the host's lines, too"},
    {.name = "crash-report",
     .kind = setting_kind::choice,
     .takes = "full|names|off",
     .otherwise = "full",
     .reach = setting_reach::forwarded,
     .field = "crash_report",
     .text = "Reports of targets that fault or abort: 'names': the signal, the address and the "
             "functions, at once; 'full': the same, and then lines and arguments in the target's "
             "log, within 3 s; 'off': none"},
    {.name = "io-forward",
     .kind = setting_kind::choice,
     .takes = "auto|always|descriptors|never",
     .otherwise = "auto",
     .source = setting_source::environment,
     .reach = setting_reach::inherited,
     .text =
         "Targets: how a preloaded libfarcall-io.so uses files of the host; 'always': reads and "
         "writes are forwarded; 'descriptors': the same on other machines, but on the host's "
         "machine open files are passed; 'auto': as 'descriptors', but nothing is forwarded if the "
         "target has the host's user and mount namespace; 'never': nothing is forwarded"},
    {.name = "host-files-by",
     .kind = setting_kind::choice,
     .takes = "auto|mount|preload",
     .otherwise = "auto",
     .source = setting_source::environment,
     .reach = setting_reach::inherited,
     .text =
         "Targets: way to use files of a host on another machine; 'mount': the system mounts "
         "them; 'preload': a preloaded library forwards calls; 'auto': 'mount' where the system "
         "allows it, and else 'preload'; a line on standard error names the choice and the reason"},
    {.name = "host-files-cache",
     .kind = setting_kind::choice,
     .takes = "close-to-open|strict",
     .otherwise = "close-to-open",
     .source = setting_source::environment,
     .reach = setting_reach::inherited,
     .text = "Targets: what a mount of host files keeps in memory; 'close-to-open': contents until "
             "a file is opened again, names and attributes for a second; 'strict': contents until "
             "the host's file changes, which each read checks"},
    {.name = "io-buffer",
     .kind = setting_kind::choice,
     .takes = "on|off",
     .otherwise = "on",
     .source = setting_source::environment,
     .reach = setting_reach::inherited,
     .text = "Targets: whether files of the host are read ahead and written behind"},
    {.name = "process-manager",
     .kind = setting_kind::choice,
     .takes = "auto|pmix|pmi|none",
     .otherwise = "auto",
     .source = setting_source::environment,
     .reach = setting_reach::inherited,
     .field = "process_manager",
     .text =
         "Process manager through which processes that mpirun, srun or the like has started find "
         "each other, to make one job together; 'none': each process makes a job of its own"},
    {.name = "workers",
     .kind = setting_kind::number,
     .takes = "threads",
     .low = 1,
     .high = 64,
     .number = 1,
     .field = "workers",
     .text = "Threads that run handlers in each node that mpirun or the like has started; for "
             "other nodes, set workers= in their URL"},
    {.name = "serve",
     .takes = "HOST:PORT or /PATH, several with commas",
     .otherwise = "off",
     .source = setting_source::command_line,
     .text = "Be a server: run targets of this program for other hosts"},
    {.name = "clients",
     .takes = "file",
     .otherwise = "none",
     .source = setting_source::command_line,
     .text =
         "Server: file with the clients that may connect: name, key and limits, one client a line"},
    {.name = "revoked",
     .takes = "file",
     .otherwise = "none",
     .source = setting_source::command_line,
     .text = "Server: certificates that the authority has revoked (a CRL), PEM"},
    {.name = "keep-output",
     .kind = setting_kind::choice,
     .takes = "yes|no",
     .otherwise = "no",
     .source = setting_source::command_line,
     .text = "Server: output of targets is printed where the server prints, and not sent to their "
             "hosts"},
    {.name = "plain",
     .kind = setting_kind::choice,
     .takes = "yes|no",
     .otherwise = "no",
     .source = setting_source::command_line,
     .text = "Server at a TCP port: no encryption, and any client may connect"},
    {.name = "i-trust-this-network",
     .kind = setting_kind::choice,
     .takes = "yes|no",
     .otherwise = "no",
     .source = setting_source::command_line,
     .text = "Server: no encryption beyond this machine either"},
    {.name = "progress",
     .kind = setting_kind::choice,
     .takes = "wait|thread",
     .otherwise = "wait",
     .field = "progress",
     .text = "Threads on which the host receives replies: 'wait': threads that wait or test; "
             "'thread': a thread of farcall"},
    {.name = "spmd",
     .kind = setting_kind::choice,
     .takes = "yes|no",
     .otherwise = "no",
     .source = setting_source::environment,
     .text = "Refuse to make a job that is not a job of equals; 'farcall run --spmd' sets it"},
    {.name = "trace",
     .takes = "file",
     .otherwise = "none",
     .field = "trace",
     .text = "File for a timeline of what all nodes do, which browsers show; %p in it is the "
             "number of the host's process"},
    {.name = "trace-events",
     .kind = setting_kind::number,
     .takes = "events",
     .low = 1,
     .high = 1U << 30,
     .number = 1'000'000,
     .source = setting_source::environment,
     .text = "Most events that a timeline records; later events are dropped"},
    {.name = "otf2-module",
     .takes = "file",
     .otherwise = "found beside the library or the program, or where farcall is installed",
     .source = setting_source::environment,
     .text = "The module that writes timelines as OTF2, libfarcall-otf2.so"},
    {.name = "wrap",
     .takes = "commands",
     .otherwise = "none",
     .source = setting_source::environment,
     .text = "Commands that targets of this machine are started by, with ; between them: 'strace "
             "-f' for all targets, '2:valgrind' for node 2"},
    {.name = "timeouts",
     .kind = setting_kind::choice,
     .takes = "on|off",
     .otherwise = "on",
     .source = setting_source::environment,
     .text = "'off': start_timeout, stop_timeout and heartbeat_timeout are a day, and peer_timeout "
             "does not count, whatever the program says; 'farcall run --gdb' and '--valgrind' set "
             "it, because a node in a debugger sends no replies"},
    {.name = "spin-us",
     .kind = setting_kind::number,
     .takes = "µs",
     .high = 60'000'000,
     .number = 2'000,
     .reach = setting_reach::forwarded,
     .field = "waiting.spin",
     .text = "How long a waiting thread spins before it sleeps"},
    {.name = "yield-after-us",
     .kind = setting_kind::number,
     .takes = "µs",
     .high = 60'000'000,
     .number = 20,
     .reach = setting_reach::forwarded,
     .field = "waiting.yield_after",
     .text = "How long a waiting thread spins before it yields between polls"},
    {.name = "transport-modules",
     .takes = "auto, none, or names and files",
     .otherwise = "auto",
     .source = setting_source::environment,
     .reach = setting_reach::inherited,
     .text =
         "Further transports, comma separated: ucx, mpi, or paths of modules; 'auto': ucx for what "
         "mpirun and the like have started, where there is RDMA hardware"},
    {.name = "log",
     .kind = setting_kind::choice,
     .takes = "error|warning|info|debug",
     .otherwise = "warning",
     .source = setting_source::environment,
     .reach = setting_reach::inherited,
     .text = "Least severe lines that are written to standard error"},
};

/// Returns the row of a setting of the library. An unknown name does not compile.
consteval const setting& row(std::string_view name) {
  for (const setting& s : core) {
    if (s.name == name) return s;
  }
  throw "there is no such setting";
}

/// Adds the rows of a compatibility layer, a module or a tool, so that help() and unknown() know
/// them. The rows must live until the last job of the process has ended. Must be called before the
/// first job is made; a row that is in the table already is not added again. Any thread.
void add(std::span<const setting> rows);

/// Returns all rows, first the library's, then the added ones.
[[nodiscard]] std::vector<const setting*> all();

[[nodiscard]] std::string variable_of(const setting& s); ///< "FARCALL_SPIN_US"
[[nodiscard]] std::string option_of(const setting& s);   ///< "--farcall-spin-us"
[[nodiscard]] std::string accepted_by(const setting& s); ///< Returns a description of the accepted
                                                         ///< values, such as "a whole number from
                                                         ///< 0 to 9 (ms)"
[[nodiscard]] std::string default_of(const setting& s);  ///< "2000", "all memory"

/// Checks the value of a setting. `what` is the name by which the value was given: the name of a
/// variable, an option, or a member of job_options. Throws setting_error, which names `what`, the
/// value and the accepted values.
void check(const setting& s, const std::string& what, std::string_view value);

/// Checks `value` like check(), and returns it as a number.
[[nodiscard]] std::uint64_t number_of(const setting& s, const std::string& what,
                                      std::string_view value);

/// Returns the text of --farcall-help.
[[nodiscard]] std::string help();

/// Returns the element of `names` that differs from `name` in the fewest letters, to suggest it for
/// a misspelt name. Returns an empty text if all of them differ too much.
[[nodiscard]] std::string_view nearest(std::string_view name,
                                       std::span<const std::string_view> names);

/// Returns one line for each variable of `environment` that begins with FARCALL_ and is not a
/// setting. `environment` has elements "NAME=value" and ends with null. A variable with an empty
/// value is left out. `others` has further names of variables that are known; an element that ends
/// with '*' stands for all names with that prefix.
[[nodiscard]] std::vector<std::string> unknown(const char* const* environment,
                                               std::span<const std::string_view> others);

/// Logs the lines of unknown() as warnings, once per process.
void warn_of_unknown(std::span<const std::string_view> others);

} // namespace settings
} // namespace farcall
