// SPDX-License-Identifier: Apache-2.0
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

/// Attributes with which a context is opened; the object behind a veo_thr_ctxt_attr handle.
struct context_attributes {
  static constexpr std::size_t min_stack = std::size_t{4} << 20;
  std::size_t stack_bytes = std::size_t{128} << 20;
};

/// A helper process on a node, with its contexts. Each helper is the only target of its own farcall
/// job. Thread-safe, except for the destructor.
class process {
 public:
  static constexpr std::uint32_t lane_bytes = 256U << 10;

  /// Starts the helper on a node. `program` is the helper's command line, see start_of_helper().
  /// Throws error.
  process(int node, const std::string& program, int identifier);
  process(const process&) = delete;
  process& operator=(const process&) = delete;
  /// Waits until the contexts' requests have ended, at most for `finish_timeout`, then ends the
  /// helper.
  ~process();

  std::chrono::milliseconds finish_timeout{20'000};

  [[nodiscard]] const farcall::node& where() const noexcept { return where_; }
  [[nodiscard]] int node_number() const noexcept { return node_number_; }
  [[nodiscard]] int identifier() const noexcept { return identifier_; }
  [[nodiscard]] std::uint64_t pid() const noexcept { return helper_.pid; }

  /// True if this process is a child of a fork and its parent created this object. The child can
  /// neither use nor destroy the object, because other threads of the parent may have been inside
  /// it during the fork.
  [[nodiscard]] bool is_inherited() const noexcept { return generation_ != fork_generation(); }

  // ---- contexts ----

  [[nodiscard]] context& main() noexcept { return *contexts_.front(); }
  /// Opens a context: returns the main context at the first call, and a new context at each later
  /// call.
  [[nodiscard]] context& open(const context_attributes& attributes);
  /// Waits until the context's requests have ended, and destroys the context. Does nothing for the
  /// main context.
  void close(context& c);
  /// Returns the number of open contexts. The main context counts after the first call of open().
  [[nodiscard]] std::size_t contexts() const;
  [[nodiscard]] bool has(const context* c) const;
  /// Returns the context at this position in the order of opening; null if there is none.
  [[nodiscard]] context* context_at(int index) const;

  // ---- libraries ----

  /// Loads a library of kernels into the helper and returns its handle. Throws error with the
  /// reason.
  [[nodiscard]] std::uint64_t load(const std::string& path);
  void unload(std::uint64_t library);
  /// Returns the address of a function or variable in a library. Library 0 is the helper program
  /// itself. Throws error.
  [[nodiscard]] std::uint64_t symbol(std::uint64_t library, const std::string& name);

  // ---- calls without a context ----

  /// Sends a request to the helper and returns its reply. As in AVEO, the request runs after the
  /// earlier requests of the main context. With the setting veo-order=veo, the request does not
  /// wait for these requests, as in NEC's older library. Throws error.
  template <class F, class... A>
  [[nodiscard]] auto ask(const F& f, const A&... arguments) {
    if (waits_for_main_) return main().ask(f, arguments...);
    if (has_ended()) throw error(end_text());
    return sync(where_, f, arguments...);
  }
  /// Copy memory to and from the helper on the calling thread, in the same order as requests of
  /// ask(). Throw error.
  void write(std::uint64_t to, const void* from, std::size_t bytes);
  void read(void* to, std::uint64_t from, std::size_t bytes);

  // ---- copies by the calling thread, which does not wait for earlier requests; throw error ----

  void put(std::uint64_t to, const void* from, std::size_t bytes);
  void get(void* to, std::uint64_t from, std::size_t bytes);

  // ---- end of the helper ----

  /// True if the helper has ended, or if it will end because a kernel has failed. Throws forked.
  [[nodiscard]] bool has_ended() const {
    return kernel_failed_.load(std::memory_order_acquire) || !where_.alive();
  }
  [[nodiscard]] std::string end_text() const;
  /// Returns the value of a request's outcome. Throws kernel_failed or error if the request has
  /// failed.
  std::uint64_t accept(const outcome& o) {
    if (o.signal == 0) [[likely]]
      return o.value;
    refuse(o);
  }
  /// Prints the reason why a request failed, and stores it for failure_text(). Does neither if an
  /// earlier failure has already ended the helper. `ends` is true if this failure has ended the
  /// helper.
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
