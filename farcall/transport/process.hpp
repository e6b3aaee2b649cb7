// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/start_mark.hpp>

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace farcall {

/// Environment variable that holds the number of a target's control socket descriptor; only targets
/// have it.
inline constexpr const char* bootstrap_variable = "FARCALL_BOOTSTRAP";

/// Returns the current environment of this process as "NAME=value" texts. The environment must not
/// change during the call.
[[nodiscard]] std::vector<std::string> own_environment();

/// Descriptors to which a child prints; -1 for the output of this process.
struct child_output {
  int output = -1;
  int error = -1;
};

/// Returns pointers to the words and a final null, as exec takes them. The pointers are valid as
/// long as the words.
[[nodiscard]] std::vector<char*> argument_pointers(const std::vector<std::string>& words);

/// Descriptors, environment and signals of a program that spawn() starts.
struct spawn_options {
  int input = -1; ///< standard input of the program; -1 for this process's
  child_output prints_to = {};
  int inherited = -1;                                    ///< a descriptor that the program inherits
                                                         ///< under the same number
  const std::vector<std::string>* environment = nullptr; ///< null for this process's
  bool searches_path = false;
  bool has_own_group = true;
  /// True if SIGPIPE shall end the program, even if this process ignores the signal.
  bool ends_by_sigpipe = false;
};

/// Starts a program in which no signal is blocked. The program inherits all descriptors that are
/// not close-on-exec. Stores the program's process number in `child`. Returns 0, or an error
/// number.
[[nodiscard]] int spawn(pid_t& child, const std::string& program,
                        const std::vector<std::string>& arguments,
                        const spawn_options& options = {});

struct process_end;

/// Returns text such as "signal 11 (SIGSEGV)".
[[nodiscard]] std::string signal_text(int signal);

/// A child process that runs a target. The object owns the process: its destructor kills and reaps
/// the process, unless the process was reaped before.
class child_process {
 public:
  child_process() noexcept = default;
  child_process(child_process&& other) noexcept;
  child_process& operator=(child_process&& other) noexcept;
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;
  ~child_process();

  /// Starts `program` as a child that is a target, with these arguments (argv[0] included) and this
  /// environment, to which `variable=value` is added. The child's standard input is empty, because
  /// terminal input is for node 0, as with mpirun. The child inherits the descriptor `inherited`,
  /// and all descriptors that the program has opened without close-on-exec. The child has a process
  /// group of its own. A record and a limit mark the child as a target (start_mark.hpp). Throws
  /// start_failed with the reason if the program cannot be executed.
  [[nodiscard]] static child_process
  start(const std::string& program, const std::vector<std::string>& arguments,
        const std::string& variable, const std::string& value, int inherited,
        const std::vector<std::string>& environment = own_environment(),
        const child_output& prints_to = {}, target_program runs = target_program::any);

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  /// Returns a descriptor that becomes readable when the process ends. Returns -1 if the system has
  /// no such descriptors, or if the process was reaped.
  [[nodiscard]] int end_fd() const noexcept { return pidfd_.get(); }

  /// Waits until `deadline` for the process to end, and returns in words how it ended, or nullopt
  /// if it still runs. Unless other code reaps the process, its number is not used again before
  /// reap() is called.
  [[nodiscard]] std::optional<std::string> wait(time_point deadline);

  /// Returns the exit status of the process, or, as in shells, 128 plus the number of the signal
  /// that has killed it. Returns nullopt before wait() has reported the end, or if the status is
  /// unknown.
  [[nodiscard]] std::optional<int> exit_code() const noexcept { return exit_code_; }

  /// Reaps the process if wait() has returned how it ended; otherwise does nothing.
  void reap() noexcept;

  void kill() noexcept;

  /// True if the child has reported that it has lost a mark, and therefore did not become a target.
  /// wait() then returns the reason.
  [[nodiscard]] bool has_lost_mark() const noexcept { return start_.lost() != lost_mark::none; }
  /// Called once the child has joined the job. From now on the child and its own children may make
  /// jobs.
  void note_joined() noexcept { start_ = {}; }

 private:
  const std::optional<std::string>& note_end(const process_end& end);

  pid_t pid_ = 0;
  unique_fd pidfd_;
  std::optional<std::string> ended_;
  std::optional<int> exit_code_;
  bool is_reaped_ = false;
  start_record start_; ///< record of the start, kept until the child has joined
};

/// Returns a pidfd of the process at the other end of a Unix socket. The pidfd becomes readable
/// when that process ends, and can be used to send it signals. Empty if the system does not tell
/// which process it is.
[[nodiscard]] unique_fd process_behind(int socket) noexcept;

/// Path that leads to this process's program, even if the program's file has been replaced.
inline constexpr const char* running_program = "/proc/self/exe";

/// Returns the file to execute in order to start this program once more: running_program, or the
/// path of the program's file if an emulator such as valgrind runs it.
[[nodiscard]] std::string executable_of_this();

/// Returns the path of this process's program, for messages.
[[nodiscard]] std::string own_program();

/// Opens /dev/null in place of each standard stream that is closed. Otherwise a socket of this
/// library could get the number of a standard stream, and the program's output would be written
/// into the socket.
void open_standard_descriptors() noexcept;

/// If standard output is a pipe, makes it write each line as soon as the line is complete, as on a
/// terminal. This matters because a host may forward the lines, and several processes may share the
/// pipe. Called before the program's threads print.
void print_lines_into_pipes() noexcept;

/// Returns the file that a command names, found as shells do: the name itself if it contains a
/// slash, otherwise a file in the folders of PATH. Throws start_failed if PATH has no such file.
[[nodiscard]] std::string find_command(const std::string& name);

/// Returns the arguments that this process was started with.
[[nodiscard]] std::vector<std::string> own_arguments();

} // namespace farcall
