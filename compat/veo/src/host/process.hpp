#pragma once

#include "context.hpp"

#include <farcall/base/fork.hpp>
#include <farcall/offload/job.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace farcall::veo {

/// What a context is opened with; the object behind veo_thr_ctxt_attr.
struct context_attributes {
  static constexpr std::size_t least_stack = std::size_t{4} << 20;
  std::size_t stack_bytes = std::size_t{128} << 20;
};

/// A helper process on a node, with a farcall job of its own, and its contexts. Thread-safe, but
/// for its end.
class process {
 public:
  static constexpr std::uint32_t lane_bytes = 256U << 10;

  /// Starts the helper. `program` as for helper_url(). Throws error.
  process(int node, const std::string& program, int identifier);
  process(const process&) = delete;
  process& operator=(const process&) = delete;
  /// Lets contexts finish, at most for `finish_timeout`, and ends the helper.
  ~process();

  std::chrono::milliseconds finish_timeout{20'000};

  [[nodiscard]] const farcall::node& where() const noexcept { return where_; }
  [[nodiscard]] int node_number() const noexcept { return node_number_; }
  [[nodiscard]] int identifier() const noexcept { return identifier_; }
  [[nodiscard]] std::uint64_t pid() const noexcept { return helper_.pid; }

  /// This is a child of a fork, and the process its parent's: nothing of it can be used here, nor
  /// destroyed, since other threads may have been in the middle of it.
  [[nodiscard]] bool is_inherited() const noexcept { return generation_ != fork_generation(); }

  // ---- contexts ----

  [[nodiscard]] context& main() noexcept { return *contexts_.front(); }
  /// The main context the first time, a new one afterwards.
  [[nodiscard]] context& open(const context_attributes& attributes);
  /// Lets it finish and ends it; the main context stays.
  void close(context& c);
  /// Those that have been opened: the main one counts from then on.
  [[nodiscard]] std::size_t contexts() const;
  [[nodiscard]] bool has(const context* c) const;
  /// In the order of opening; null out of range.
  [[nodiscard]] context* context_at(int index) const;

  // ---- libraries ----

  /// Throws error with the reason.
  [[nodiscard]] std::uint64_t load(const std::string& path);
  void unload(std::uint64_t library);
  /// Address of a function or variable; handle 0 means the helper itself. Throws error.
  [[nodiscard]] std::uint64_t symbol(std::uint64_t library, const std::string& name);

  // ---- calls that concern no context ----

  /// What the helper answers, behind the requests of the main context, as AVEO has it; with the
  /// order of the original VEO, at once. Throws error.
  template <class F, class... A>
  [[nodiscard]] auto ask(const F& f, const A&... arguments) {
    if (waits_for_main_) return main().ask(f, arguments...);
    if (has_ended()) throw error(end_text());
    return sync(where_, f, arguments...);
  }
  /// Copies in the same order, by the calling thread. Throw error.
  void write(std::uint64_t to, const void* from, std::size_t bytes);
  void read(void* to, std::uint64_t from, std::size_t bytes);

  // ---- memory: by the calling thread, at once. Throw error ----

  void put(std::uint64_t to, const void* from, std::size_t bytes);
  void get(void* to, std::uint64_t from, std::size_t bytes);

  // ---- its end ----

  /// Throws forked.
  [[nodiscard]] bool has_ended() const {
    return kernel_failed_.load(std::memory_order_acquire) || !where_.alive();
  }
  [[nodiscard]] std::string end_text() const;
  /// The value of a kernel that has returned. Throws kernel_failed, error.
  std::uint64_t accept(const outcome& o) {
    if (o.signal == 0) [[likely]]
      return o.value;
    refuse(o);
  }
  /// Keeps the reason of a request's failure, for whoever collects it.
  /// `ends`: it has ended the process.
  void note_failure(const std::string& text, bool ends = false) noexcept;
  [[nodiscard]] std::string failure_text() const;

 private:
  void await_turn();
  [[noreturn]] void refuse(const outcome& o);
  [[nodiscard]] context_settings settings_of_next(const context_attributes& attributes);

  const std::uint32_t generation_ = fork_generation();
  const bool waits_for_main_;
  int node_number_;
  int identifier_;
  std::unique_ptr<job> job_;
  farcall::node where_;
  helper_description helper_;

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<context>> contexts_;
  bool main_is_open_ = false;
  std::uint32_t contexts_made_ = 0;
  std::map<std::pair<std::uint64_t, std::string>, std::uint64_t> symbols_;
  std::string failure_;
  bool failure_is_the_last_ = false;
  std::atomic<bool> kernel_failed_{false};
};

} // namespace farcall::veo
