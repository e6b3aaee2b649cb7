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

/// What carries calls between the host and the targets of a benchmark.
/// The emulated device is reached through memory, as a process over shm, but knows only functions
/// for devices. A GPU is reached over its bus, and knows the same.
enum class link_kind { shm, tcp, tls, emulated, gpu, ucx };

/// "shm", "tcp", "tls", "cuda-emulated", "cuda" or "ucx".
[[nodiscard]] const char* word_of(link_kind kind);

/// As the options say.
[[nodiscard]] link_kind kind_of(const bench_options& options);

/// Where the targets of a benchmark run: on this machine without ado, at a server that the user has
/// named, or at one on loopback that lives as long as this.
///
/// It may fork, so make it before any thread or job is started.
class bench_link {
 public:
  /// With `cpu`, a server of our own is bound to that processor with all its targets.
  bench_link(const bench_options& options, std::optional<int> cpu);

  [[nodiscard]] link_kind kind() const { return kind_; }

  /// A job with one target, on that processor unless the user's URL names another, or a GPU.
  [[nodiscard]] job_options one_target(int cpu) const;
  /// A job with so many targets, wherever; the user's URL may name another number.
  [[nodiscard]] job_options targets(std::size_t n) const;

  /// For the line above a table.
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] job_options job_at(const std::string& urls) const;

  link_kind kind_;
  std::string given_; ///< the user's URLs; empty when it is up to us
  std::string key_;
  std::unique_ptr<server_process> server_;
};

/// The floor of that kind of link, between those cores; of a GPU, which.
[[nodiscard]] std::unique_ptr<floor_probe> make_floor(link_kind kind, core_pair cores,
                                                      std::uint32_t device = 0);

/// The set-up that benchmarks share whose threads are not pinned: a link, and its floor before and
/// after.
class link_session {
 public:
  /// Measures the floor once.
  link_session(const bench_options& options, const std::string& title, std::size_t steps);

  [[nodiscard]] const bench_link& link() const { return link_; }
  [[nodiscard]] const floor_probe& floor() const { return *floor_; }
  [[nodiscard]] progress& bar() { return bar_; }

  /// Measures the floor again, when everything else has been.
  void finish();

  /// What stands above a table.
  [[nodiscard]] std::string heading() const;
  /// The same for programs.
  [[nodiscard]] json circumstances() const;
  /// These charts with the circumstances. `subject` is what was asked for: "load".
  [[nodiscard]] report make_report(const std::string& subject, std::string text,
                                   std::vector<chart> charts) const;

 private:
  environment env_;
  progress bar_;
  std::unique_ptr<floor_probe> floor_; // forks, as the link does
  bench_link link_;
};

/// The cores of the options; the target's is the one that its URL names, if any. A GPU has none.
[[nodiscard]] core_pair cores_of(const bench_options& options);

/// The URL with `key=value`, unless it has that option already. A list stays as it is.
[[nodiscard]] std::string with_option(const std::string& url, std::string_view key,
                                      std::size_t value);

} // namespace farcall::tool
