#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <sys/types.h>

/// Marks of targets beside the variable in their environment, for targets whose environment was
/// emptied: without a mark a target would be a host, and start targets of its own.
namespace farcall {

/// Mark that a target found missing.
enum class lost_mark : std::uint32_t {
  none,
  variable, ///< bootstrap_variable in the environment
  socket,   ///< descriptor that the variable names
};

/// Sentence that says how a target has lost its mark, and the remedy; empty for lost_mark::none.
[[nodiscard]] std::string text_of(lost_mark lost);

/// Marks a socket that a target is about to inherit. Does nothing for other descriptors.
void mark_target_socket(int socket) noexcept;

/// Returns the descriptor that this process has inherited and that has this mark. Returns -1 if
/// there is none.
[[nodiscard]] int find_target_socket() noexcept;

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
