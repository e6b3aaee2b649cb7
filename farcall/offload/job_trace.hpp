#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/offload/memory_handlers.hpp>
#include <farcall/offload/trace_file.hpp>
#include <farcall/trace/batch.hpp>
#include <farcall/trace/recorder.hpp>
#include <farcall/trace/timeline.hpp>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace farcall {
struct job_options;
}

namespace farcall::detail {

struct job_state;

/// What one process of a job that is traced does for the timeline: its threads record, a thread of
/// this object's sends what they have recorded to the host, and the host writes all of it to a file
/// once the job has ended.
class job_trace {
 public:
  /// Null where nothing is to be traced. Throws setting_error where the file cannot be written.
  [[nodiscard]] static std::unique_ptr<job_trace> on_host(const job_options& options);
  [[nodiscard]] static std::unique_ptr<job_trace> on_target();

  job_trace(const job_trace&) = delete;
  job_trace& operator=(const job_trace&) = delete;
  ~job_trace();

  [[nodiscard]] trace::recorder& recorder() noexcept { return recorder_; }

  /// Sends from now on. The job has its engine, and outlives this.
  void start(job_state& job);
  /// Sends what is left, while the host still takes it, and nothing afterwards.
  void finish() noexcept;

  /// Host: takes what a node has sent. False when it need send no more. Throws malformed_message.
  [[nodiscard]] bool store(std::span<const std::byte> bytes);
  /// Host, after finish(), when no other node sends anything any more: writes the file. What goes
  /// wrong is logged.
  void write() noexcept;

 private:
  /// By both clocks of this process.
  struct moment {
    std::uint64_t ticks = 0;
    time_point time{};
  };

  job_trace();
  [[nodiscard]] moment now() const noexcept;

  void run() noexcept;
  /// Waits for so long, at most, for finish().
  [[nodiscard]] bool is_stopped_within(std::chrono::milliseconds duration);
  /// What has been recorded; true when there may be more.
  [[nodiscard]] bool take(trace::batch& to);
  void send_all();
  [[nodiscard]] bool add(trace::batch b);
  void name_functions(trace::batch& b);
  void compare_clocks(trace::batch& b, unsigned times);
  [[nodiscard]] double ticks_per_second() const noexcept;
  void give_up(const char* why) noexcept;

  trace::recorder& recorder_;
  job_state* job_ = nullptr;
  moment began_;
  time_point next_comparison_{};
  std::set<std::pair<std::uint32_t, std::uint32_t>> named_; ///< functions, by key and handle
  std::set<std::uint32_t> own_keys_;                        ///< of those of tracing itself

  std::mutex mutex_; ///< of what follows
  std::condition_variable ends_;
  bool stopping_ = false;
  std::thread thread_;

  // Of the host.
  trace_file file_;
  std::mutex timeline_mutex_;
  trace::timeline timeline_{0};
  bool is_full_ = false;
};

// What nodes call at the host.
[[nodiscard]] bool store_trace(bytes_sent sent);
/// Ticks of this process.
[[nodiscard]] std::uint64_t trace_ticks();

} // namespace farcall::detail
