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

/// An environment variable; empty where it is not set.
[[nodiscard]] std::string_view variable(const char* name);
/// This process is one of a job of farcall's: a node, or what 'farcall run --spmd' has started.
/// Throws setting_error.
[[nodiscard]] bool is_started_by_farcall();

/// True, once one line has been printed, if this process is one of several that a launcher has
/// started, and would start a job of `processes` of its own. Throws error.
[[nodiscard]] bool refuse_under_launcher(int processes);

/// How a job is made.
struct startup {
  int* argc;
  char*** argv;
  int depth;                 ///< 0: the environment's, or the default
  std::uint64_t* job_number; ///< may be null
  eb_t* bundle;
  ep_t* endpoint;
  bool starts_processes = false; ///< `processes` of them, whatever the environment says
  int processes = 0;
  const char* depth_variable = nullptr;
};

/// The job of the process, as the program sees it.
class spmd {
 public:
  [[nodiscard]] static spmd& instance() noexcept;

  [[nodiscard]] int start(const startup& how);
  [[nodiscard]] bool has_started() const noexcept { return has_started_; }
  [[nodiscard]] int rank() const noexcept { return process::instance().network().self(); }
  [[nodiscard]] int size() const noexcept { return process::instance().network().size(); }

  // Collective, one after the other in the same order on all processes, which else are ended: what
  // they have sent shows that. Outside handlers. False when a process has ended.
  [[nodiscard]] bool barrier();
  [[nodiscard]] bool all_gather(const void* source, void* destination, std::size_t bytes);
  [[nodiscard]] bool broadcast(void* bytes, std::size_t size, int root);

  /// Ends all processes. Does not return.
  [[noreturn]] void exit(int code) noexcept;
  void set_exit_callback(void (*f)(int)) noexcept { exit_callback_ = f; }
  [[nodiscard]] const char* variable_of_master(const char* name) const;
  void use_threads() noexcept { wants_threads_ = true; }

 private:
  /// What messages between processes are about. Of collectives, the round is added.
  enum type : std::int32_t { in_barrier, in_all_gather, in_broadcast, exits = exit_message };

  /// To `node`, in a round of the collective that this process is in.
  void send(int node, type t, std::int32_t round, const void* bytes, std::size_t size);
  /// What that node has sent in a round of it. It has `bytes` bytes, or this process ends, as it
  /// does where another has sent something of another collective.
  [[nodiscard]] bool receive(int node, type t, std::int32_t round, std::size_t bytes,
                             job_message& m);
  [[nodiscard]] am2_bundle& polled() const;
  void exchange_names(std::uint64_t* job_number);
  void exchange_environment();
  /// Of a fork. The child has no job: what needs one fails there.
  void leave_in_child() noexcept;
  /// The process ends, of itself: says what is missing.
  void note_exit() const noexcept;
  /// Has the others exit, too. False where it is not known whether they do.
  [[nodiscard]] bool tell_all(int code) noexcept;

  bool has_started_ = false;
  bool wants_threads_ = false;
  eb_t bundle_ = nullptr;
  ep_t endpoint_ = nullptr;
  am2_bundle own_{false};         ///< where the program has freed its own
  std::uint32_t collectives_ = 0; ///< so far, the one that this process is in included
  std::map<std::string, std::string> environment_; ///< of process 0
  void (*exit_callback_)(int) = nullptr;
  std::thread::id main_;
  std::atomic<bool> is_leaving_{false};
};

} // namespace farcall::am2
