#pragma once

#include <farcall/base/language.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farcall {

enum class setting_kind : unsigned char { text, number, power_of_two, choice };

/// Where a user may give it.
enum class setting_source : unsigned char { anywhere, environment, command_line };

/// How targets get it.
enum class setting_reach : unsigned char {
  host,      ///< they do not: only the host uses it
  forwarded, ///< the host passes its value on to all targets
  inherited  ///< each process reads its environment, which targets on the same machine inherit
};

/// One row of a table of settings. Everything about a setting follows from its row: the names under
/// which it is given, how a value is checked, the text of errors, `--farcall-help`, and the table
/// in docs/settings.md, which a test compares.
struct setting {
  std::string_view name; ///< "spin-us" is FARCALL_SPIN_US and --farcall-spin-us
  setting_kind kind = setting_kind::text;
  std::string_view takes{};     ///< what a text is, the unit of a number, or choices: "yes|no"
  std::uint64_t low = 0;        ///< smallest number that is accepted
  std::uint64_t high = 0;       ///< largest
  std::uint64_t number = 0;     ///< default of a number
  std::string_view otherwise{}; ///< default in words, where that is no number
  setting_source source = setting_source::anywhere;
  setting_reach reach = setting_reach::host;
  std::string_view field{}; ///< member of job_options that says the same; empty: none does
  std::string_view text{};  ///< one sentence for people
};

namespace settings {

inline constexpr std::uint64_t day_ms = 86'400'000;

/// The settings of the library. A new one is a row here and the line of code that uses it.
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
     .text = "What targets run"},
    {.name = "start-timeout-ms",
     .kind = setting_kind::number,
     .takes = "ms",
     .low = 1,
     .high = day_ms,
     .number = 10'000,
     .field = "start_timeout",
     .text = "How long all targets together may take to join"},
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
     .text = "How long the end of a buffer may wait to tell its node; then the memory stays taken"},
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
     .text =
         "A target that does not answer the host for longer, as one that is stopped, is killed"},
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
     .text = "Lines that targets print begin with the node's number; 'farcall run --label' has "
             "this for the host's, too"},
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
         "Targets: whether a preloaded libfarcall-io.so has host files used; 'descriptors': open "
         "files are passed on the same machine; 'auto': that for another user or mount namespace, "
         "and nothing for the same"},
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
     .text = "Whether the processes that mpirun, srun or the like have started together make one "
             "job, and by what they find each other; 'none': each makes its own"},
    {.name = "workers",
     .kind = setting_kind::number,
     .takes = "threads",
     .low = 1,
     .high = 64,
     .number = 1,
     .field = "workers",
     .text = "Threads that run handlers in each node that something else has started, as mpirun; "
             "others have workers= in their URL"},
    {.name = "serve",
     .takes = "HOST:PORT or /PATH, several with commas",
     .otherwise = "off",
     .source = setting_source::command_line,
     .text = "Be a server: run targets of this program for other hosts"},
    {.name = "clients",
     .takes = "file",
     .otherwise = "none",
     .source = setting_source::command_line,
     .text = "Server: names, keys and limits of those who may come, a line each"},
    {.name = "revoked",
     .takes = "file",
     .otherwise = "none",
     .source = setting_source::command_line,
     .text = "Server: certificates that the authority has taken back (a CRL), PEM"},
    {.name = "keep-output",
     .kind = setting_kind::choice,
     .takes = "yes|no",
     .otherwise = "no",
     .source = setting_source::command_line,
     .text = "Server: what targets print stays here, where the server prints, and does not go to "
             "their hosts"},
    {.name = "plain",
     .kind = setting_kind::choice,
     .takes = "yes|no",
     .otherwise = "no",
     .source = setting_source::command_line,
     .text = "Server at a TCP port: no encryption, and everybody may come"},
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
     .text = "Who takes in replies on the host: threads that wait or test, or a thread besides"},
    {.name = "spmd",
     .kind = setting_kind::choice,
     .takes = "yes|no",
     .otherwise = "no",
     .source = setting_source::environment,
     .text = "Refuse jobs that are not of equals; 'farcall run --spmd' sets it"},
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
     .text = "Events that a timeline has at most: what comes later is not recorded"},
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
             "it, as a node in a debugger answers nobody"},
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
     .text = "How long a thread spins before it lets others run between its looks"},
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

/// Row of a setting of the library; a name that has none does not compile.
consteval const setting& row(std::string_view name) {
  for (const setting& s : core) {
    if (s.name == name) return s;
  }
  throw "there is no such setting";
}

/// Rows of a compatibility layer, a module or a tool: from now on they are in help() and known to
/// unknown(). They must outlive the process's last job. Call it before the first job is made; rows
/// that are there already are not added again. Any thread.
void add(std::span<const setting> rows);

/// Every row: the library's, then those that were added.
[[nodiscard]] std::vector<const setting*> all();

[[nodiscard]] std::string variable_of(const setting& s); ///< "FARCALL_SPIN_US"
[[nodiscard]] std::string option_of(const setting& s);   ///< "--farcall-spin-us"
[[nodiscard]] std::string accepted_by(const setting& s); ///< "a whole number from 0 to 9 (ms)"
[[nodiscard]] std::string default_of(const setting& s);  ///< "2000", "all memory"

/// Checks `value`, which was given as `what` (a variable, an option, a member of job_options).
/// Throws setting_error that names `what`, the value and what is accepted.
void check(const setting& s, const std::string& what, std::string_view value);

/// The same for numbers.
[[nodiscard]] std::uint64_t number_of(const setting& s, const std::string& what,
                                      std::string_view value);

/// The text of --farcall-help.
[[nodiscard]] std::string help();

/// The one of `names` that differs from `name` in the fewest letters; empty when none is near.
[[nodiscard]] std::string_view nearest(std::string_view name,
                                       std::span<const std::string_view> names);

/// One line for each variable of `environment` ("NAME=value" each, null at the end) that begins
/// with FARCALL_ and is not a setting. An empty variable counts as unset. `others` are variables
/// that are no settings either, but have a reader: names, or beginnings of names, with '*' behind.
[[nodiscard]] std::vector<std::string> unknown(const char* const* environment,
                                               std::span<const std::string_view> others);

/// Logs the lines of unknown() as warnings, once per process.
void warn_of_unknown(std::span<const std::string_view> others);

} // namespace settings
} // namespace farcall
