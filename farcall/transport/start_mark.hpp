// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <sys/types.h>

/// Marks by which a process recognises that it is a target even if its environment variable is
/// missing, because its environment was emptied. A target that finds no mark would act as a host,
/// and start targets of its own.
///
/// The three marks differ in how long they last. The socket to the host is a mark until it is
/// closed. Descendants of the child can find the host's record as long as their ancestors live. By
/// the record, the host also learns which mark was lost. The limit stays even if the target closes
/// descriptors, empties its environment or forks, but tells the host nothing.
namespace farcall {

/// Mark that is missing in a process which was started as a target.
enum class lost_mark : std::uint32_t {
  none,
  variable, ///< bootstrap_variable in the environment
  socket,   ///< the descriptor whose number the environment variable holds
};

/// Returns a sentence that says how a target has lost its mark, and how to avoid this; empty for
/// lost_mark::none.
[[nodiscard]] std::string text_of(lost_mark lost);

/// Marks the end of a socket pair that a target is about to inherit. `socket` is the other end,
/// which stays in this process. Does nothing for descriptors of other kinds.
void mark_target_socket(int socket) noexcept;

/// Returns the inherited descriptor of this process that has the socket mark; -1 if there is none.
[[nodiscard]] int find_target_socket() noexcept;

/// Claims an inherited target socket for this process. Returns false if another process that has
/// inherited the same socket has claimed it first.
[[nodiscard]] bool claim_target_socket(int socket) noexcept;

/// Program that a target runs, as far as the host knows.
enum class target_program {
  /// Unknown, for instance because the host starts a script, which may start another program.
  any,
  of_host, ///< the host's own program, perhaps started by a wrapper
};

/// Marks the children that this process starts during the scope as targets, and so also their
/// descendants. The mark is a value of the soft limit of file locks (RLIMIT_LOCKS), which Linux
/// does not enforce. One scope exists at a time; another thread that makes one waits.
class limit_scope {
 public:
  explicit limit_scope(target_program runs) noexcept;
  limit_scope(const limit_scope&) = delete;
  limit_scope& operator=(const limit_scope&) = delete;
  ~limit_scope();

 private:
  std::uint64_t before_ = 0; ///< the soft limit before the scope; zero if it was not changed
};

/// Result of the search for a limit mark that this process has inherited.
enum class limit_mark {
  none,
  /// The mark is for this program. This process is a target until it drops this mark, even if other
  /// marks are lost.
  this_program,
  /// The mark is for another program: a target has started this process, which is no target itself.
  other_program,
};
[[nodiscard]] limit_mark find_limit_mark() noexcept;

/// Removes the limit mark, so that the programs that this process starts are not taken for targets
/// and can be hosts.
void drop_limit_mark() noexcept;

/// The host's record of a child that was started as a target and has not joined yet. The child and
/// its descendants find this record through /proc if they are in the host's PID namespace, and run
/// as the host's user or as root.
class start_record {
 public:
  static constexpr pid_t no_child = -1;

  /// Makes an empty record, which is for no child.
  start_record() noexcept = default;
  start_record(start_record&& other) noexcept;
  start_record& operator=(start_record&& other) noexcept;
  start_record(const start_record&) = delete;
  start_record& operator=(const start_record&) = delete;
  ~start_record();

  /// Makes a record of a child that is about to be started. If the child searches for its record,
  /// it waits until name() was called. Returns an empty record if the system has no memory or
  /// descriptor for it.
  [[nodiscard]] static start_record open() noexcept;
  /// Stores the child's process number, or no_child if no child was started.
  void name(pid_t child) noexcept;
  /// Returns the mark that the child, or a descendant, has found missing.
  [[nodiscard]] lost_mark lost() const noexcept;

 private:
  struct table;

  std::shared_ptr<table> table_;
  std::size_t entry_ = 0;
};

/// Tells the host that this process has lost the mark `lost`. That host has started this process,
/// or one of its ancestors, as a target, and still waits for the target to join. Returns false if
/// there is no such host. If `lost` is lost_mark::none, tells the host nothing, but still returns
/// true if there is such a host.
[[nodiscard]] bool tell_lost_mark(lost_mark lost) noexcept;

} // namespace farcall
