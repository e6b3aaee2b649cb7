// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "process.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <thread>

namespace farcall::am2 {

/// Returns the value of an environment variable; empty if the variable is not set.
[[nodiscard]] std::string_view variable(const char* name);
/// True if farcall has started this process for a job, either as a node of the job or by the
/// command 'farcall run --spmd'. Throws setting_error.
[[nodiscard]] bool is_started_by_farcall();

/// Returns true if this process must not start a job of `processes` processes, because a launcher
/// has started it together with other processes. Each of these processes would start a separate
/// job. Prints the reason, in general in one of these processes only. Throws error.
[[nodiscard]] bool refuse_under_launcher(int processes);

/// Arguments of spmd::start().
struct startup {
  int* argc;
  char*** argv;
  /// Number of requests that may be outstanding to a peer. If it is 0, the environment variable
  /// `depth_variable` contains the number; without that variable the default is used.
  int depth;
  std::uint64_t* job_number; ///< the number of the job is stored at this address; may be null
  eb_t* bundle;
  ep_t* endpoint;
  /// If true, a job of `processes` processes is started, regardless of the environment.
  bool starts_processes = false;
  int processes = 0;
  const char* depth_variable = nullptr;
};

/// The job of this process: its startup, its collectives and its end.
class spmd {
 public:
  [[nodiscard]] static spmd& instance() noexcept;

  [[nodiscard]] int start(const startup& how);
  [[nodiscard]] bool has_started() const noexcept { return has_started_; }
  [[nodiscard]] int rank() const noexcept { return process::instance().network().self(); }
  [[nodiscard]] int size() const noexcept { return process::instance().network().size(); }

  // Collectives, which all processes must call in the same order and not in handlers. A process
  // aborts if it receives the message of another collective. Collectives return false if a process
  // has ended.
  [[nodiscard]] bool barrier();
  [[nodiscard]] bool all_gather(const void* source, void* destination, std::size_t bytes);
  [[nodiscard]] bool broadcast(void* bytes, std::size_t size, int root);

  /// Ends all processes of the job. Does not return.
  [[noreturn]] void exit(int code) noexcept;
  void set_exit_callback(void (*f)(int)) noexcept { exit_callback_ = f; }
  [[nodiscard]] const char* variable_of_master(const char* name) const;
  void use_threads() noexcept { wants_threads_ = true; }

 private:
  /// Types of job messages. The type of a collective's message also contains the number of the
  /// round, in the bits from round_at on.
  enum type : std::int32_t { in_barrier, in_all_gather, in_broadcast, exits = exit_message };

  /// Sends bytes to `node` in one round of the current collective.
  void send(int node, type t, std::int32_t round, const void* bytes, std::size_t size);
  /// Receives the message that `node` has sent in one round of the current collective. Aborts if
  /// the message has another length than `bytes`, or if it belongs to another collective. Returns
  /// false if a process has ended.
  [[nodiscard]] bool receive(int node, type t, std::int32_t round, std::size_t bytes,
                             job_message& m);
  [[nodiscard]] am2_bundle& polled() const;
  void exchange_names(std::uint64_t* job_number);
  void exchange_environment();
  /// Makes the child of a fork a process without a job, in which functions that need a job fail.
  void leave_in_child() noexcept;
  /// Prints a line during exit() if a job of several processes has not been ended by AMX_SPMDExit.
  void note_exit() const noexcept;
  /// Tells the other processes to exit with `code`. Returns true if all of them have replied or
  /// ended.
  [[nodiscard]] bool tell_all(int code) noexcept;

  bool has_started_ = false;
  bool wants_threads_ = false;
  eb_t bundle_ = nullptr;
  ep_t endpoint_ = nullptr;
  am2_bundle own_{false};         ///< bundle to poll after the program has freed the job's bundle
  std::uint32_t collectives_ = 0; ///< number of collectives that this process has begun
  std::map<std::string, std::string> environment_; ///< environment of process 0
  void (*exit_callback_)(int) = nullptr;
  std::thread::id main_;
  std::atomic<bool> is_leaving_{false};
};

} // namespace farcall::am2
