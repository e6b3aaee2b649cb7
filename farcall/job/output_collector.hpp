// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/event_loop.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/line_forwarder.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/base/service_thread.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/job/output_receiver.hpp>
#include <farcall/transport/output_sink.hpp>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace farcall {

/// The two file descriptors of the host to which the lines of its targets are written.
struct output_ends {
  int output = 1;
  int error = 2;
};

/// Environment variable in which `farcall run --label` passes two pipes to this process. Only this
/// command sets it.
inline constexpr const char* lines_variable = "FARCALL_LINES";

/// Returns the text for the variable lines_variable that names these pipes. For each pipe, the text
/// has the descriptor and the inode number. The inode number shows the reader of the variable
/// whether the descriptor still belongs to the pipe.
[[nodiscard]] std::string text_of(const output_ends& pipes);

/// Returns the pipes that the environment variable names, or standard output and standard error if
/// it is not set. The result is the same in all jobs of the process. Programs that this process
/// starts afterwards do not inherit the pipes. Throws setting_error.
[[nodiscard]] output_ends ends_for_lines();

/// Writes what targets print to the host's standard output and standard error, line by line. If
/// `labels` is true, the number of the node precedes each line. If there is a receiver, passes the
/// lines to it instead. One service thread writes or passes all lines; it starts with the first
/// target that prints through this object. If nothing reads the host's output, targets that print
/// wait, as they would for a terminal.
class output_collector final : public output_sink {
 public:
  /// Makes a collector that writes to `to`, or passes the lines to `receiver` if it is not null.
  /// The caller keeps the file descriptors open, and the receiver alive.
  output_collector(output_ends to, bool labels, output_receiver* receiver = nullptr);
  ~output_collector() override;

  void take(node_id node, output_stream stream, std::string_view bytes,
            std::function<void(std::size_t bytes)> written) override;
  void read(node_id node, output_stream stream, unique_fd from) override;
  void end(node_id node) noexcept override;

  /// Writes everything that targets have printed so far, including unfinished lines, and ends the
  /// thread. Drops what targets print later. Blocks until the host's output can take the lines. Any
  /// thread may call it.
  void finish() noexcept;

 private:
  using source_name = std::pair<node_id, output_stream>;

  struct source {
    line_forwarder lines;
    unique_fd pipe; ///< pipe into which a target on this machine prints; empty once it has ended
  };

  /// A unit of work for the service thread, which processes items in the order of their arrival.
  struct item {
    enum class kind : unsigned char { bytes, pipe, readable, end } what;
    source_name from;
    std::string bytes{};
    std::function<void(std::size_t bytes)> written{};
    unique_fd pipe{};
  };

  void add(item what);
  /// Returns true if the bytes of `what` may be appended to the last waiting item. Call it with the
  /// thread's mutex held.
  [[nodiscard]] bool continues_last(const item& what) const noexcept;
  [[nodiscard]] time_point do_next(std::unique_lock<std::mutex>& lock) noexcept;
  void do_item(item& one);
  /// Adds the pipe to the event loop. The event loop reports only once that the pipe is readable; a
  /// call of modify() makes it report again.
  void watch(const source_name& name, source& s, unique_fd pipe);
  /// Reads at most `max_pieces` pieces from the pipe, and writes their lines.
  void drain(source& s, int max_pieces);
  void close_pipe(source& s) noexcept;
  void close(const source_name& name);
  [[nodiscard]] source& source_of(const source_name& name);
  [[nodiscard]] line_forwarder forwarder_of(const source_name& name);
  void pass(const source_name& name, std::string_view line) noexcept;

  const output_ends to_;
  const bool labels_;
  output_receiver* const receiver_; ///< null if the lines are written
  std::deque<item> items_;          ///< waiting work; guarded by the thread's mutex
  /// Only the service thread uses sources_, piece_ and loop_.
  std::map<source_name, source> sources_;
  std::vector<char> piece_;
  std::shared_ptr<event_loop> loop_; ///< null until the first pipe is added
  log::limited_log failed_lines_{"more lines of targets were lost"};
  std::mutex finish_mutex_;
  service_thread thread_{"farcall-service", [this](auto& lock) { return do_next(lock); }};
};

} // namespace farcall
