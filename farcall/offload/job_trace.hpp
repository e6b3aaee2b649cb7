// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/service_thread.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/copy/memory_handlers.hpp>
#include <farcall/offload/trace_file.hpp>
#include <farcall/trace/batch.hpp>
#include <farcall/trace/recorder.hpp>
#include <farcall/trace/timeline.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace farcall {
struct job_options;
}

namespace farcall::detail {

struct job_state;

/// Trace of one process of a job. The threads of the process record events; a thread of this object
/// sends them to the host. The host collects the events of all processes, and writes them to a file
/// when the job has ended.
class job_trace {
 public:
  /// Returns null if the job is not traced. Throws setting_error if the file cannot be written.
  [[nodiscard]] static std::unique_ptr<job_trace> on_host(const job_options& options);
  [[nodiscard]] static std::unique_ptr<job_trace> on_target();

  job_trace(const job_trace&) = delete;
  job_trace& operator=(const job_trace&) = delete;
  ~job_trace();

  [[nodiscard]] trace::recorder& recorder() noexcept { return recorder_; }

  /// Starts to send events to the host. `job` must already have its engine, and must exist longer
  /// than this object.
  void start(job_state& job);
  /// Sends the remaining events, and ends the sending thread. On a target, call it while the host
  /// still takes calls.
  void finish() noexcept;

  /// On the host: stores the events that another node has sent. Returns false if the timeline is
  /// full, so that the node can stop sending. Throws malformed_message.
  [[nodiscard]] bool store(std::span<const std::byte> bytes);
  /// On the host: writes the file. Call it after finish(), and after the other nodes have sent
  /// their last events. Logs errors.
  void write() noexcept;

 private:
  /// A point in time, as the tick counter and the system's clock of this process show it.
  struct moment {
    std::uint64_t ticks = 0;
    time_point time{};
  };

  job_trace();
  [[nodiscard]] moment now() const noexcept;

  [[nodiscard]] time_point run(std::unique_lock<std::mutex>& lock) noexcept;
  /// Takes recorded events from the recorder. Returns true if there may be more.
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
  /// Key and handle of each function whose name was sent to the host.
  std::set<std::pair<std::uint32_t, std::uint32_t>> named_;
  std::set<std::uint32_t> own_keys_; ///< keys of the handlers that tracing itself calls

  // Used by the thread.
  bool has_ended_ = false; ///< sends nothing more
  time_point next_sending_{};
  service_thread thread_{"farcall-service", [this](auto& lock) { return run(lock); }};

  // Used on the host.
  trace_file file_;
  std::mutex timeline_mutex_;
  trace::timeline timeline_{0};
  bool is_full_ = false;
};

// Handlers on the host that other nodes call for tracing. store_trace() stores their events.
[[nodiscard]] bool store_trace(bytes_sent sent);
/// Returns the host's current time in ticks, so that another node can compare its clock.
[[nodiscard]] std::uint64_t trace_ticks();

} // namespace farcall::detail
