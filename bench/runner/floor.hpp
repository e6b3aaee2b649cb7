// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu_code.hpp"
#include "loopback_peer.hpp"

#include <bench/report/statistics.hpp>
#include <tools/common/pinning.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace farcall::tool {

/// Pairs of cache lines that the floor uses in turn, one per batch. Numbers of batches that are
/// multiples of it give comparable figures.
inline constexpr std::size_t floor_places = 64;

/// Round trips per batch of the floors of connections and GPUs, which take far longer.
inline constexpr std::size_t far_floor_calls = 200;

/// Measures a floor: the lower bound of offloads over the same two cores, in the same run as the
/// figures. Runs bound to the host's core; is idle between measurements.
class floor_probe {
 public:
  explicit floor_probe(core_pair cores) : cores_(cores) {}
  virtual ~floor_probe() = default;
  floor_probe(const floor_probe&) = delete;
  floor_probe& operator=(const floor_probe&) = delete;
  floor_probe(floor_probe&&) = delete;
  floor_probe& operator=(floor_probe&&) = delete;

  /// Measures, and returns nanoseconds per round trip, one sample per batch. The target's core must
  /// be idle: wait first for a target that still spins.
  std::vector<double> measure() {
    std::vector<double> samples = take_samples();
    samples_.insert(samples_.end(), samples.begin(), samples.end());
    return samples;
  }

  /// Summary of all samples so far.
  [[nodiscard]] summary pooled() const { return summarize(samples_); }

  [[nodiscard]] core_pair cores() const { return cores_; }

  /// Returns a description of the operation that is timed.
  [[nodiscard]] virtual const char* what() const = 0;

 protected:
  virtual std::vector<double> take_samples() = 0;

 private:
  core_pair cores_;
  std::vector<double> samples_;
};

/// Returns a line for the circumstances: the kind of floor, and the summary of all its samples.
[[nodiscard]] std::string floor_text(const floor_probe& floor);

/// Floor of shared memory: the bare round trip of a flag between two processes, one cache line each
/// way, without message or handler.
///
/// The constructor forks, so create it before any thread or job is started. Between measurements
/// the second process sleeps and leaves its core free.
class floor_meter final : public floor_probe {
 public:
  floor_meter(core_pair cores, std::size_t batches, std::size_t calls);
  ~floor_meter() override;
  floor_meter(const floor_meter&) = delete;
  floor_meter& operator=(const floor_meter&) = delete;
  floor_meter(floor_meter&&) = delete;
  floor_meter& operator=(floor_meter&&) = delete;

  [[nodiscard]] const char* what() const override { return "one cache line each way"; }

 private:
  std::vector<double> take_samples() override;

  struct process;
  std::size_t batches_;
  std::size_t calls_;
  std::unique_ptr<process> echo_;
};

/// Floor of connections: the round trip of sixteen bytes over a new bare TCP connection over
/// loopback, with both sides polling and no delay (TCP_NODELAY).
///
/// The constructor forks, so create it before any thread or job is started.
class connection_floor final : public floor_probe {
 public:
  connection_floor(core_pair cores, std::size_t batches, std::size_t calls);
  [[nodiscard]] const char* what() const override {
    return "16 bytes each way over bare TCP on loopback, both sides polling";
  }

 private:
  std::vector<double> take_samples() override;

  loopback_peer peer_;
  std::size_t batches_;
  std::size_t calls_;
};

/// Floor of GPUs: the round trip of a flag between the host and a kernel, one word each way over
/// the bus, without message or handler.
///
/// Uses the GPU only while it measures; a missing GPU is reported by the job, which starts first.
class bus_floor final : public floor_probe {
 public:
  /// Throws usage_problem if this command has no code for GPUs.
  bus_floor(core_pair cores, std::uint32_t device, std::size_t batches, std::size_t calls);
  [[nodiscard]] const char* what() const override { return "one word each way over the bus"; }

 private:
  std::vector<double> take_samples() override;

  const gpu_code& code_;
  std::uint32_t device_;
  std::size_t batches_;
  std::size_t calls_;
};

} // namespace farcall::tool
