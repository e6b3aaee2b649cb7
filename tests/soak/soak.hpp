// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/farcall.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <random>
#include <string>
#include <vector>

/// Random mixed operations on jobs that are made, killed in part, and made again.
namespace soak {

namespace fc = farcall;

using generator = std::mt19937_64;

enum class operation : std::size_t {
  sync_number,
  sync_text,
  async_window,
  post_and_count,
  put_get,
  copy_between,
  map_in_place,
  through_lane,
  callback,
  between_targets,
  exception,
  continuation,
  combine,
  coroutine,
  dropped,
  deadline,
};
inline constexpr std::array<const char*, 16> operation_names{
    "sync number", "sync text", "async window", "post",      "put/get",
    "copy",        "map",       "lane",         "callback",  "between targets",
    "exception",   "then",      "when_all/any", "coroutine", "dropped future",
    "deadline"};

/// Counts of the operations, failures and rounds of all threads so far.
class tally {
 public:
  void done(operation o) { ++counts_[static_cast<std::size_t>(o)]; }
  void failed_as_expected() { ++node_failures_; }
  void killed() { ++kills_; }
  void round_done() { ++rounds_; }
  void wrong(const std::string& what);

  [[nodiscard]] std::uint64_t operations() const;
  [[nodiscard]] std::uint64_t wrongs() const { return wrongs_; }
  [[nodiscard]] std::string summary(std::uint64_t seed, std::chrono::seconds took) const;
  [[nodiscard]] std::string progress(std::chrono::seconds past, std::chrono::seconds all) const;

 private:
  std::array<std::atomic<std::uint64_t>, operation_names.size()> counts_{};
  std::atomic<std::uint64_t> node_failures_{0};
  std::atomic<std::uint64_t> kills_{0};
  std::atomic<std::uint64_t> rounds_{0};
  std::atomic<std::uint64_t> wrongs_{0};
  mutable std::mutex mutex_;
  std::vector<std::string> texts_;
};

/// Runs one operation on random nodes of `j`, and checks its result. Throws node_failed if one of
/// the nodes has gone; notes wrong results in `t`.
void run_operation(const fc::job& j, generator& random, tally& t);

/// Makes a job of random shape. Several threads run random operations on the job until `end`, and
/// some of its targets may be killed. Notes in `t` if the job leaves descriptors open.
void run_round(generator& random, std::chrono::steady_clock::time_point end, tally& t);

} // namespace soak
