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

/// Pairs of cache lines that the floor is measured on in turn, one for each batch. Whole multiples
/// of it make figures that can be compared.
inline constexpr std::size_t floor_places = 64;

/// Round trips per batch of the floors of connections and of GPUs, which take far longer.
inline constexpr std::size_t far_floor_calls = 200;

/// What no offload over the same two cores can beat, measured in the run whose figures are compared
/// with it. Measurements are made bound to the host's core; between them nothing of it runs.
class floor_probe {
 public:
  explicit floor_probe(core_pair cores) : cores_(cores) {}
  virtual ~floor_probe() = default;
  floor_probe(const floor_probe&) = delete;
  floor_probe& operator=(const floor_probe&) = delete;
  floor_probe(floor_probe&&) = delete;
  floor_probe& operator=(floor_probe&&) = delete;

  /// Measures now and returns nanoseconds per round trip, one sample per batch. The core of the
  /// target must be idle: a target that still spins there is waited for by the caller.
  std::vector<double> measure() {
    std::vector<double> samples = take_samples();
    samples_.insert(samples_.end(), samples.begin(), samples.end());
    return samples;
  }

  /// All samples measured so far.
  [[nodiscard]] summary pooled() const { return summarize(samples_); }

  [[nodiscard]] core_pair cores() const { return cores_; }

  /// What is timed, in words.
  [[nodiscard]] virtual const char* what() const = 0;

 protected:
  virtual std::vector<double> take_samples() = 0;

 private:
  core_pair cores_;
  std::vector<double> samples_;
};

/// A line of the circumstances: what the floor is, and all that was measured of it.
[[nodiscard]] std::string floor_text(const floor_probe& floor);

/// The floor of shared memory: the bare round trip of a flag between two processes: one cache line
/// each way, no message, no handler.
///
/// The second process is forked by the constructor, so make it before any thread or job is started.
/// Between measurements it sleeps and leaves its core to others.
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

/// The floor of connections: the round trip of sixteen bytes over a fresh bare TCP connection over
/// loopback, both sides polling, at once (TCP_NODELAY).
///
/// The second process is forked by the constructor, so make it before any thread or job is started.
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

/// The floor of GPUs: the round trip of a flag between the host and a kernel, one word each way
/// over the bus, no message, no handler.
///
/// Uses the GPU only to measure: the job comes first, and says why there is none.
class bus_floor final : public floor_probe {
 public:
  /// Throws usage_problem when this command has no code for GPUs.
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
