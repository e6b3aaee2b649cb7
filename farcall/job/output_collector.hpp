#pragma once

#include <farcall/base/line_forwarder.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/output_sink.hpp>

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace farcall {

/// Descriptors of the host that lines of targets go to.
struct output_ends {
  int output = 1;
  int error = 2;
};

/// Names two pipes that `farcall run --label` has left to this process; nobody else has it set.
inline constexpr const char* lines_variable = "FARCALL_LINES";

/// What the variable says: each descriptor with the number of its pipe, so that another file that
/// has got the descriptor's number is not taken for it.
[[nodiscard]] std::string text_of(const output_ends& pipes);

/// The pipes that the variable names, else standard output and error; the same for all jobs of the
/// process. Programs that this process starts from then on do not get them. Throws setting_error.
[[nodiscard]] output_ends ends_for_lines();

/// Brings the lines of targets to the host's output and error, each with its node's number where
/// that is wanted. One thread, which the first target starts, writes them all; while nobody reads
/// what it writes, targets wait as they would for a terminal.
class output_collector final : public output_sink {
 public:
  /// The descriptors stay their owner's.
  output_collector(output_ends to, bool labels);
  ~output_collector() override;

  void take(node_id node, output_stream stream, std::string_view bytes,
            std::function<void(std::size_t bytes)> written) override;
  void read(node_id node, output_stream stream, unique_fd from) override;
  void end(node_id node) noexcept override;

  /// Writes all that targets have printed until now, unfinished lines included, and ends the
  /// thread. What comes later is dropped. Blocks, as printing does, while nobody reads it. Any
  /// thread.
  void finish() noexcept;

 private:
  using source_name = std::pair<node_id, output_stream>;

  struct source {
    line_forwarder lines;
    unique_fd pipe; ///< of targets of this machine, as long as one reads it
  };

  /// A thing to do for the thread, in the order in which it came.
  struct item {
    enum class kind : unsigned char { bytes, pipe, end } what;
    source_name from;
    std::string bytes{};
    std::function<void(std::size_t bytes)> written{};
    unique_fd pipe{};
  };

  void add(item what);
  // With mutex_.
  [[nodiscard]] bool continues_last(const item& what) const noexcept;
  void start();
  void wake() noexcept;
  void run();
  void do_item(item& one);
  /// Passes on what lies in the pipe, at most so many pieces.
  void drain(source& s, int most_pieces);
  void close(const source_name& name);
  [[nodiscard]] source& source_of(const source_name& name);

  const output_ends to_;
  const bool labels_;
  std::mutex mutex_;
  std::vector<item> items_;  ///< guarded by mutex_
  bool is_finished_ = false; ///< guarded by mutex_
  unique_fd wake_;
  std::map<source_name, source> sources_; ///< the thread's, as is the next
  std::vector<char> piece_;
  std::mutex finish_mutex_;
  std::thread thread_; ///< guarded by mutex_ until it is joined, with finish_mutex_
};

} // namespace farcall
