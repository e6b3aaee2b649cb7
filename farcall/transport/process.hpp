#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/start_mark.hpp>

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace farcall {

/// Tells a target the descriptor of its control socket; nobody else has it set.
inline constexpr const char* bootstrap_variable = "FARCALL_BOOTSTRAP";

/// The environment of this process as it is now, "NAME=value" each. Not while others change it.
[[nodiscard]] std::vector<std::string> own_environment();

/// Where a child's output goes; -1: where this process's does.
struct child_output {
  int output = -1;
  int error = -1;
};

struct process_end;

/// "signal 11 (SIGSEGV)".
[[nodiscard]] std::string signal_text(int signal);

/// A child process that runs a target. Owns it: it is killed and reaped at the end, unless it ended
/// before.
class child_process {
 public:
  child_process() noexcept = default;
  child_process(child_process&& other) noexcept;
  child_process& operator=(child_process&& other) noexcept;
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;
  ~child_process();

  /// Starts `program` with these arguments (argv[0] included) and this environment plus
  /// `variable=value`. Its standard input is empty: as with mpirun, what people type is for node 0.
  /// The child gets the descriptor `inherited`, and descriptors that the user left without
  /// close-on-exec. Gets the record and the limit of start_mark.hpp, too, and a process group of
  /// its own. Throws start_failed with the reason when the program cannot be executed.
  [[nodiscard]] static child_process
  start(const std::string& program, const std::vector<std::string>& arguments,
        const std::string& variable, const std::string& value, int inherited,
        const std::vector<std::string>& environment = own_environment(),
        const child_output& prints_to = {}, target_program runs = target_program::any);

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  /// Becomes readable when the process ends; -1 when the system has no such descriptor, and once
  /// the process was reaped.
  [[nodiscard]] int end_fd() const noexcept { return pidfd_.get(); }

  /// How it ended, in words, or nothing while it runs. Waits until `deadline`. Its number stays
  /// taken until reap().
  [[nodiscard]] std::optional<std::string> wait(time_point deadline);

  /// Its exit status, or 128 and the number of the signal that has killed it, as shells have it;
  /// nothing before wait() has told its end, and where that is not known.
  [[nodiscard]] std::optional<int> exit_code() const noexcept { return exit_code_; }

  /// Lets the system forget it, once wait() has told its end; nothing before.
  void reap() noexcept;

  void kill() noexcept;

  /// True if the child has refused to be a target, for a reason that wait() tells.
  [[nodiscard]] bool has_lost_mark() const noexcept { return start_.lost() != lost_mark::none; }
  /// Called once the child has joined: from now on the child and its children may make jobs.
  void note_joined() noexcept { start_ = {}; }

 private:
  const std::optional<std::string>& note_end(const process_end& end);

  pid_t pid_ = 0;
  unique_fd pidfd_;
  std::optional<std::string> ended_;
  std::optional<int> exit_code_;
  bool is_reaped_ = false;
  start_record start_; ///< until the child has joined
};

/// The process at the other end of a Unix socket, as a descriptor that becomes readable when it
/// ends, and by which it can be sent signals. None where the system does not tell.
[[nodiscard]] unique_fd process_behind(int socket) noexcept;

/// Names this process's program, even if its file has been replaced.
inline constexpr const char* running_program = "/proc/self/exe";

/// Names this process's program for a start of one more process: running_program, or the path of
/// the file if an emulator runs the program, as valgrind does.
[[nodiscard]] std::string executable_of_this();

/// Path of this process's program, for people to read.
[[nodiscard]] std::string own_program();

/// Opens /dev/null for each of standard input, output and error that is closed, so that no socket
/// of ours gets its number: what the program prints would go there.
void open_standard_descriptors() noexcept;

/// Has standard output end each line with a write where it is a pipe: somebody passes lines on
/// there, as for a terminal, and several processes may share it. Before the program's threads
/// print.
void print_lines_into_pipes() noexcept;

/// The file that a command means, found as a shell finds it: by PATH, unless it names a folder.
/// Throws start_failed when there is none.
[[nodiscard]] std::string find_command(const std::string& name);

/// The arguments that this process was started with.
[[nodiscard]] std::vector<std::string> own_arguments();

} // namespace farcall
