// SPDX-License-Identifier: Apache-2.0

// Implements amudp_spmd.h. The user starts the program with the number of processes, and with a
// letter that selects how the processes are started.
#include "errors.hpp"
#include "spawn_command.hpp"
#include "spmd.hpp"

#include <amudp_spmd.h>

#include <farcall/base/log.hpp>
#include <farcall/base/memory_file.hpp>
#include <farcall/job/process_group.hpp>
#include <farcall/transport/target_url.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace farcall::am2 {
namespace {

/// Environment variable that marks processes which this code has started. Such processes remove no
/// words from argv.
constexpr const char* worker_variable = "AM2_WORKER";
constexpr const char* worker_value = "1";
/// Environment variable that contains the number of processes for which the user asked.
constexpr const char* count_variable = "AM2_PROCESSES";

/// Maximum number of processes of a job: the host and its targets.
constexpr int max_processes = static_cast<int>(max_targets) + 1;

std::string prefix = "AMUDP";

constexpr const char* blanks = " \t\r\n";

/// Returns the environment variable PREFIX_NAME, or AMUDP_NAME if that variable is unset or blank.
/// Returns null if neither is set.
const char* own_variable(const char* name) {
  for (const std::string& its_prefix : {prefix, std::string("AMUDP")}) {
    const char* const set = std::getenv((its_prefix + "_" + name).c_str());
    if (set != nullptr && set[std::strspn(set, blanks)] != '\0') return set;
  }
  return nullptr;
}

/// True if this code has started the process, either directly or by way of a program that executed
/// it.
bool is_started_here() { return variable(worker_variable) == worker_value; }

/// True if the process belongs to a job already. The variables of farcall are checked in addition,
/// because worker_variable is not passed to other machines. Throws setting_error.
bool is_worker() { return is_started_here() || is_started_by_farcall(); }

/// Returns the number that the text contains; LONG_MAX if the number is larger than that; 0 if the
/// text is not a number above 0.
long number_in(const char* text) {
  char* end = nullptr;
  const long n = std::strtol(text, &end, 10);
  return end != text && *end == '\0' && n > 0 ? n : 0;
}

const amudp_spawnfn_desc_t* find_spawner(const char* letter) {
  if (letter == nullptr || letter[0] == '\0' || letter[1] != '\0') return nullptr;
  const int wanted = std::toupper(static_cast<unsigned char>(letter[0]));
  for (const amudp_spawnfn_desc_t* d = AMUDP_Spawnfn_Desc; d->abbrev != 0; ++d)
    if (d->abbrev == wanted) return d;
  return nullptr;
}

void print_usage(const char* program) {
  std::fprintf(stderr, "usage: %s <processes> <letter> [arguments of the program]\n", program);
  for (const amudp_spawnfn_desc_t* d = AMUDP_Spawnfn_Desc; d->abbrev != 0; ++d)
    std::fprintf(stderr, "  %c  %s\n", d->abbrev, d->desc);
}

/// Removes the words with the indices 1 to `count` from argv.
void take_out(int& argc, char** argv, int count) {
  for (int i = 1; i + count <= argc; ++i)
    argv[i] = argv[i + count];
  argc -= count;
}

/// Prepares this process and its environment for a command that starts the processes.
void prepare_spawn(int processes, char** extra_env) {
  for (char** at = extra_env; at != nullptr && *at != nullptr; ++at) {
    const std::string both = *at;
    if (const std::size_t equals = both.find('='); equals != std::string::npos)
      ::setenv(both.substr(0, equals).c_str(), both.c_str() + equals + 1, 1);
  }
  ::setenv(worker_variable, worker_value, 1);
  ::setenv(count_variable, std::to_string(processes).c_str(), 1);
  // Report the end of this process to the launcher that may have started it. The launcher waits for
  // this report, and the program that replaces this process does not send it.
  leave_launched_group();
  std::fflush(nullptr);
}

/// Replaces this program by a command that starts the processes. Returns only if the command cannot
/// be executed.
void execute(int processes, const std::vector<std::string>& words, char** extra_env) {
  prepare_spawn(processes, extra_env);
  std::vector<std::string> kept = words;
  std::vector<char*> pointers;
  for (std::string& w : kept)
    pointers.push_back(w.data());
  pointers.push_back(nullptr);
  ::execvp(pointers.front(), pointers.data());
  std::fprintf(stderr, "AM-2: cannot execute %s: %s\n", pointers.front(), std::strerror(errno));
}

std::vector<std::string> words_of(std::vector<std::string> first, int argc, char** argv) {
  first.insert(first.end(), argv, argv + argc);
  return first;
}

/// Creates a memory file with this text and returns its path; empty if the file cannot be created.
std::string make_file(const std::string& text) {
  // The file stays open across exec(), because the command that is executed reads it.
  const int file = make_memory_file("am2_hosts", 0);
  if (file < 0 || ::write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return {};
  return "/proc/self/fd/" + std::to_string(file);
}

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word)
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

constexpr const char* between_names = ", \t\r\n";

/// Returns the first `count` names of a list, with their separators, as one line. Returns none if
/// the list has fewer names.
std::optional<std::string> first_names(const char* list, int count) {
  const char* const begin = list + std::strspn(list, between_names);
  const char* end = begin;
  for (const char* at = begin; count != 0; --count) {
    const std::size_t length = std::strcspn(at, between_names);
    if (length == 0) return std::nullopt;
    end = at + length;
    at = end + std::strspn(end, between_names);
  }
  std::string names(begin, end);
  std::replace_if(names.begin(), names.end(), [](char c) { return c == '\r' || c == '\n'; }, ' ');
  return names;
}

/// Returns the text that replaces "%" and this letter in AMUDP_CSPAWN_CMD. If there is an error,
/// prints it and returns none.
std::optional<std::string> meaning_of(char letter, int processes, int argc, char** argv) {
  switch (std::toupper(static_cast<unsigned char>(letter))) {
  case 'N':
    return std::to_string(processes);
  case 'C': {
    std::string words;
    for (int i = 0; i < argc; ++i)
      words += (i == 0 ? "" : " ") + quoted(argv[i]);
    return words;
  }
  case 'P':
    return quoted(argv[0]);
  case 'D': {
    std::error_code error;
    return quoted(std::filesystem::current_path(error).string());
  }
  case 'M': {
    const char* const servers = own_variable("CSPAWN_SERVERS");
    std::optional<std::string> names = first_names(servers != nullptr ? servers : "", processes);
    if (!names) {
      std::fprintf(stderr,
                   "AM-2: %%M in AMUDP_CSPAWN_CMD stands for the first %d machines of "
                   "AMUDP_CSPAWN_SERVERS, which names fewer\n",
                   processes);
    }
    return names;
  }
  case '%':
    return "%";
  default:
    std::fprintf(stderr,
                 "AM-2: AMUDP_CSPAWN_CMD has %%%c; there are %%N, %%C, %%P, %%D, %%M and %%%%\n",
                 letter);
    return std::nullopt;
  }
}

/// Lets `spawn` start all processes of the job. The spawn functions of this library then replace
/// this process, or wait for the command that starts the processes, and do not return. If a spawn
/// function of the program returns, this process exits, because it does not belong to the job.
/// Returns a status if the processes could not be started.
int start_elsewhere(amudp_spawnfn_t spawn, int processes, int argc, char** argv) {
  if (spawn(processes, argc, argv, nullptr) == 0)
    return failed(AM_ERR_RESOURCE, "AMUDP_SPMDStartup", "the processes could not be started");
  // This line is reached only if a spawn function of the program has started the processes and
  // returned.
  std::exit(0);
}

/// Completes the parameters of a job from the command line. If `nproc` is 0, reads the number of
/// processes. If `spawn` is null, reads the letter of the spawn function, or takes the letter from
/// the environment variable AMUDP_SPAWNFN. Removes the words that it has read from argv. Returns
/// AM_OK, or another status after it has printed the reason.
int read_command_line(int& argc, char** argv, int& nproc, amudp_spawnfn_t& spawn) {
  constexpr const char* function = "AMUDP_SPMDStartup";
  if (nproc == 0) {
    const long asked = argc > 1 ? number_in(argv[1]) : 0;
    if (asked == 0) {
      print_usage(argv[0]);
      return failed(AM_ERR_BAD_ARG, function, "argv[1] is no number of processes");
    }
    if (asked > max_processes) {
      std::fprintf(stderr, "AM-2: %s processes are more than there may be, which is %d\n", argv[1],
                   max_processes);
      return AM_ERR_BAD_ARG;
    }
    nproc = static_cast<int>(asked);
    take_out(argc, argv, 1);
  }
  if (spawn != nullptr) return AM_OK;
  const amudp_spawnfn_desc_t* found = argc > 1 ? find_spawner(argv[1]) : nullptr;
  if (found != nullptr) {
    take_out(argc, argv, 1);
  } else {
    found = find_spawner(own_variable("SPAWNFN"));
  }
  if (found == nullptr) {
    print_usage(argv[0]);
    return failed(AM_ERR_BAD_ARG, function, "no spawn function has this letter");
  }
  spawn = found->fnptr;
  return AM_OK;
}

/// Warns, in process 0, if the job differs from what the user asked for. `asked` is the number of
/// processes for which the user asked, or 0 for none.
void warn_of_others(long asked, bool looks_at_arguments, int argc, char** argv) {
  const spmd& job = spmd::instance();
  if (job.rank() != 0) return;
  const std::string there_are = std::to_string(job.size()) + " processes";
  if (asked != 0 && asked != job.size()) {
    log::warning("AM-2: " + std::to_string(asked) +
                 " processes were asked for, and the command in AMUDP_CSPAWN_CMD has started " +
                 there_are + "; %N stands for the number");
  }
  if (looks_at_arguments && argc > 2 && number_in(argv[1]) != 0 &&
      find_spawner(argv[2]) != nullptr) {
    log::warning(std::string("AM-2: the program gets \"") + argv[1] + " " + argv[2] +
                 "\" as its own arguments, for farcall run has started its " + there_are +
                 ": leave count and letter out");
  }
}

} // namespace
} // namespace farcall::am2

using namespace farcall::am2;

amudp_spawnfn_desc_t const AMUDP_Spawnfn_Desc[] = {
    {'L', "start the processes on this machine", &AMUDP_SPMDLocalSpawn},
    {'S', "start them by ssh on the machines that AMUDP_SSH_SERVERS names", &AMUDP_SPMDSshSpawn},
    {'C', "start them by the command that AMUDP_CSPAWN_CMD says", &AMUDP_SPMDCustomSpawn},
    {'\0', nullptr, nullptr},
};

int AMUDP_SPMDLocalSpawn(int nproc, int argc, char** argv, char** extra_env) {
  execute(nproc, words_of({"farcall", "run", "--spmd", "-n", std::to_string(nproc)}, argc, argv),
          extra_env);
  return 0;
}

int AMUDP_SPMDSshSpawn(int nproc, int argc, char** argv, char** extra_env) {
  const char* const servers = own_variable("SSH_SERVERS");
  std::vector<std::string> machines;
  for (const char* at = servers != nullptr ? servers : ""; *at != '\0';) {
    const std::size_t length = std::strcspn(at, between_names);
    if (length != 0) machines.emplace_back(at, length);
    at += length + (at[length] != '\0' ? 1 : 0);
  }
  if (machines.empty()) {
    std::fputs("AM-2: AMUDP_SSH_SERVERS must name the machines, like \"hydra,lerna\"\n", stderr);
    return 0;
  }
  // Distribute the processes over the machines in rotation. This process is not in the list,
  // because it becomes the host.
  std::string hosts;
  for (int i = 1; i < nproc; ++i)
    hosts += machines[static_cast<std::size_t>(i) % machines.size()] + '\n';
  if (hosts.empty()) return AMUDP_SPMDLocalSpawn(nproc, argc, argv, extra_env);
  std::vector<std::string> words{"farcall", "run", "--spmd", "--hosts", make_file(hosts)};
  const char* const command = own_variable("SSH_CMD");
  const char* const options = own_variable("SSH_OPTIONS");
  if (command != nullptr || options != nullptr) {
    words.emplace_back("--ssh");
    words.push_back(std::string(command != nullptr ? command : "ssh") + ' ' +
                    (options != nullptr ? options : ""));
  }
  if (const char* const folder = own_variable("SSH_REMOTE_PATH")) {
    words.emplace_back("--folder");
    words.emplace_back(folder);
  }
  execute(nproc, words_of(std::move(words), argc, argv), extra_env);
  return 0;
}

int AMUDP_SPMDCustomSpawn(int nproc, int argc, char** argv, char** extra_env) {
  const char* const command = own_variable("CSPAWN_CMD");
  if (command == nullptr) {
    std::fputs("AM-2: AMUDP_CSPAWN_CMD must be the command, like \"farcall run --spmd -n %N "
               "%C\"\n",
               stderr);
    return 0;
  }
  spawn_command all{"AMUDP_CSPAWN_CMD", command, "", false};
  for (const char* at = command; *at != '\0'; ++at) {
    if (*at != '%' || at[1] == '\0') {
      all.line += *at;
      continue;
    }
    const std::optional<std::string> words = meaning_of(*++at, nproc, argc, argv);
    if (!words) return 0;
    all.names_program = all.names_program || std::strchr("CcPp", *at) != nullptr;
    all.line += *words;
  }
  prepare_spawn(nproc, extra_env);
  // Run no destructors and functions of atexit(), because this process belongs to no job.
  ::_exit(run_spawn_command(all));
}

int AMUDP_SPMDStartup(int* argc, char*** argv, int nproc, int networkdepth, amudp_spawnfn_t spawnfn,
                      uint64_t* networkpid, eb_t* eb, ep_t* ep) {
  AM2_REQUIRE(argc != nullptr && argv != nullptr, AM_ERR_BAD_ARG, "argc or argv is NULL");
  AM2_REQUIRE(nproc >= 0 && nproc <= max_processes, AM_ERR_BAD_ARG,
              "there may be 1 to 4001 processes");
  static_assert(max_processes == 4001);
  startup how{.argc = argc,
              .argv = argv,
              .depth = networkdepth,
              .job_number = networkpid,
              .bundle = eb,
              .endpoint = ep,
              .depth_variable = "AMUDP_NETWORKDEPTH"};
  const bool has_started_us = is_started_here();
  const char* const count = std::getenv(count_variable);
  const long asked = has_started_us && count != nullptr ? number_in(count) : 0;
  bool starts_others = false;
  try {
    starts_others = !is_worker();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "AM-2 cannot start its job: %s\n", e.what());
    return AM_ERR_BAD_ARG;
  }
  const bool has_own_command_line = nproc == 0 && spawnfn == nullptr;
  if (has_started_us) note_begin_of_spawned();
  if (starts_others) {
    if (const int status = read_command_line(*argc, *argv, nproc, spawnfn); status != AM_OK)
      return status;
    try {
      if (refuse_under_launcher(nproc)) return AM_ERR_RESOURCE;
    } catch (const std::exception& e) {
      std::fprintf(stderr, "AM-2 cannot start its job: %s\n", e.what());
      return AM_ERR_RESOURCE;
    }
    if (spawnfn != &AMUDP_SPMDLocalSpawn) return start_elsewhere(spawnfn, nproc, *argc, *argv);
    how.starts_processes = true;
    how.processes = nproc;
    ::setenv(worker_variable, worker_value, 1);
  }
  const int status = spmd::instance().start(how);
  // Unset the variables, because programs that this process starts later do not belong to the job.
  ::unsetenv(worker_variable);
  ::unsetenv(count_variable);
  if (status == AM_OK) {
    warn_of_others(asked, has_own_command_line && !starts_others && !has_started_us, *argc, *argv);
  }
  return status;
}

int AMUDP_SPMDIsWorker(char** /*argv*/) {
  try {
    return is_worker() || spmd::instance().has_started() ? 1 : 0;
  } catch (const std::exception&) {
    return 0; // the startup of the job reports this error
  }
}

void AMUDP_SPMDSetProc(int /*rank*/) {}

const char* AMUDP_check_env_prefix(const char* prefix_wanted) {
  if (prefix_wanted != nullptr && prefix_wanted[0] != '\0') prefix = prefix_wanted;
  return prefix.c_str();
}
