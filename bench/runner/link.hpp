// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floor.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "server_process.hpp"

#include <bench/report/model.hpp>
#include <tools/common/environment.hpp>
#include <tools/common/json.hpp>

#include <farcall/farcall.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace farcall::tool {

/// Connection between the host and the targets of a benchmark. The emulated device is reached
/// through memory, like a process over shm, but runs only device functions. A GPU is reached over
/// its bus, and runs these too.
enum class link_kind { shm, tcp, tls, emulated, gpu, ucx };

/// Returns "shm", "tcp", "tls", "cuda-emulated", "cuda" or "ucx".
[[nodiscard]] const char* word_of(link_kind kind);

/// Returns the link that the options select.
[[nodiscard]] link_kind kind_of(const bench_options& options);

/// The place of a benchmark's targets: this machine, a server that the user has named, or a server
/// on loopback during this object's lifetime.
///
/// May fork, so create it before any thread or job is started.
class bench_link {
 public:
  /// With `cpu`, the own server and all its targets are bound to that processor. With `started_by`,
  /// a second own server starts its targets by that program.
  bench_link(const bench_options& options, std::optional<int> cpu,
             const std::string& started_by = {});

  [[nodiscard]] link_kind kind() const { return kind_; }

  /// Returns options for a job with one target, on that processor unless the user's URL names
  /// another one, or a GPU.
  [[nodiscard]] job_options one_target(int cpu) const;
  /// Returns options for a job with `n` targets on any processors; the user's URL may name another
  /// number.
  [[nodiscard]] job_options targets(std::size_t n) const;
  /// Returns options for a job with a target of each own server, or with two targets of this
  /// machine.
  [[nodiscard]] job_options pair_of_targets() const;

  /// Returns the line above a table.
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] job_options job_at(const std::string& urls) const;

  link_kind kind_;
  std::string given_; ///< the user's URLs; empty if there are none
  std::string key_;
  std::unique_ptr<server_process> server_;
  std::unique_ptr<server_process> second_server_;
};

/// Returns the floor of a kind of link, between two cores; for a GPU, of that device.
[[nodiscard]] std::unique_ptr<floor_probe> make_floor(link_kind kind, core_pair cores,
                                                      std::uint32_t device = 0);

/// Shared set-up of benchmarks whose threads are not pinned: a link, and its floor before and
/// after.
class link_session {
 public:
  /// Measures the floor for the first time. `started_by` is an argument of bench_link.
  link_session(const bench_options& options, const std::string& title, std::size_t steps,
               const std::string& started_by = {});

  [[nodiscard]] const bench_link& link() const { return link_; }
  [[nodiscard]] const floor_probe& floor() const { return *floor_; }
  [[nodiscard]] progress& bar() { return bar_; }

  /// Measures the floor again, after all other measurements.
  void finish();

  /// Returns the heading of a table.
  [[nodiscard]] std::string heading() const;
  /// Returns the heading's facts for programs.
  [[nodiscard]] json circumstances() const;
  /// Returns a report of these charts and the circumstances. `subject` names the benchmark: "load".
  [[nodiscard]] report make_report(const std::string& subject, std::string text,
                                   std::vector<chart> charts) const;

 private:
  environment env_;
  progress bar_;
  std::unique_ptr<floor_probe> floor_; // forks, like the link
  bench_link link_;
};

/// Returns the cores of the options; the target's core may come from its URL. A GPU has none.
[[nodiscard]] core_pair cores_of(const bench_options& options);

/// Returns the URL with `key=value`, unless it has that option already. A list of URLs is returned
/// unchanged.
[[nodiscard]] std::string with_option(const std::string& url, std::string_view key,
                                      std::size_t value);

} // namespace farcall::tool
