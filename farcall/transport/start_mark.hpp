#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <sys/types.h>

/// Marks of targets beside the variable in their environment, for targets whose environment was
/// emptied: without a mark a target would be a host, and start targets of its own.
///
/// Three marks have different ends. The socket to the host may be closed. The host's record is
/// found by descendants of the child whose ancestors live, and lets the host say why. The limit
/// stays whatever the target closes, empties and forks, but says nothing to the host.
namespace farcall {

/// Mark that a target found missing.
enum class lost_mark : std::uint32_t {
  none,
  variable, ///< bootstrap_variable in the environment
  socket,   ///< descriptor that the variable names
};

/// Sentence that says how a target has lost its mark, and the remedy; empty for lost_mark::none.
[[nodiscard]] std::string text_of(lost_mark lost);

/// Marks the socket at the other end of `socket`; a target is about to inherit that end.
/// Does nothing for other descriptors.
void mark_target_socket(int socket) noexcept;

/// Returns the descriptor that this process has inherited and that has this mark. Returns -1 if
/// there is none.
[[nodiscard]] int find_target_socket() noexcept;

/// Takes the socket that a target has inherited for this process. False if another process that
/// has inherited it was first.
[[nodiscard]] bool claim_target_socket(int socket) noexcept;

/// Program that a target is to run.
enum class target_program {
  any,     ///< the host does not know it: a script may start another one
  of_host, ///< as the host, perhaps behind a wrapper
};

/// Marks the children that this process starts meanwhile, and what they start, by their soft limit
/// of file locks (RLIMIT_LOCKS), which Linux does not enforce. One at a time.
class limit_scope {
 public:
  explicit limit_scope(target_program runs) noexcept;
  limit_scope(const limit_scope&) = delete;
  limit_scope& operator=(const limit_scope&) = delete;
  ~limit_scope();

 private:
  std::uint64_t before_ = 0; ///< the limit; zero: it stays
};

/// Tells whether this process has inherited that mark, and for which program.
enum class limit_mark {
  none,
  this_program,  ///< a target, whatever else has been lost, until it drops the mark
  other_program, ///< a target has started this program, which is no target
};
[[nodiscard]] limit_mark find_limit_mark() noexcept;

/// Drops the mark, so that programs that this process starts may be hosts.
void drop_limit_mark() noexcept;

/// Host's record of one child that has been started as a target and is no target yet. The child and
/// its descendants find it by /proc, if they run as the same user or as root, in the same namespace
/// of processes.
class start_record {
 public:
  static constexpr pid_t no_child = -1;

  /// Record of no child.
  start_record() noexcept = default;
  start_record(start_record&& other) noexcept;
  start_record& operator=(start_record&& other) noexcept;
  start_record(const start_record&) = delete;
  start_record& operator=(const start_record&) = delete;
  ~start_record();

  /// Record of a child that is about to be started: a child that looks for it waits for name().
  /// Record of no child if the system has no memory or descriptor for it.
  [[nodiscard]] static start_record open() noexcept;
  /// Names the child, or no_child if none was started.
  void name(pid_t child) noexcept;
  /// Mark that the child, or a descendant, has found missing.
  [[nodiscard]] lost_mark lost() const noexcept;

 private:
  struct table;

  std::shared_ptr<table> table_;
  std::size_t entry_ = 0;
};

/// Tells the host that has started this process, or an ancestor, as a target and waits for it to
/// join. False if there is no such host; lost_mark::none only asks.
[[nodiscard]] bool tell_lost_mark(lost_mark lost) noexcept;

} // namespace farcall
