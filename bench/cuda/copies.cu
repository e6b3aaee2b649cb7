// SPDX-License-Identifier: Apache-2.0

// Compares put and get with CUDA's own copies.

#include "session.hpp"

#include <bench/gpu/check.hpp>
#include <bench/gpu/functions.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

namespace farcall::bench {
namespace {

constexpr std::size_t sizes[] = {std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{16} << 20,
                                 std::size_t{64} << 20, std::size_t{256} << 20};

std::string text_of_bytes(std::size_t bytes) {
  return bytes < std::size_t{1} << 20 ? std::to_string(bytes >> 10) + " KiB"
                                      : std::to_string(bytes >> 20) + " MiB";
}

/// Returns the number of rounds, so that each size takes some tenths of a second.
std::size_t rounds_of(const session& s, std::size_t bytes) {
  const std::size_t rounds = (std::size_t{2} << 30) / bytes;
  return std::clamp<std::size_t>(rounds, 12, 500) / (s.asked.quick ? 4 : 1);
}

summary in_gb_per_s(std::vector<double> ns, std::size_t bytes) {
  for (double& n : ns)
    n = static_cast<double>(bytes) / n;
  return summarize(std::move(ns));
}

class copies {
 public:
  copies(session& s, const node& device)
      : s_(&s), there_(device.allocate<std::byte>(sizes[std::size(sizes) - 1])),
        pageable_(there_.size(), std::byte{1}) {
    if (s.is_gpu()) {
      pinned_.emplace(there_.size());
      stream_.emplace();
      // Touch the pages before the first copy is timed.
      std::memset(pinned_->get(), 2, there_.size());
    }
  }

  void run(std::size_t bytes) {
    const auto part = there_.subspan(0, bytes);
    void* const address = reinterpret_cast<void*>(part.address());
    if (pinned_) {
      const std::span<std::byte> here(pinned_->get(), bytes);
      both(
          "put", "pinned", "cudaMemcpyAsync", bytes, [&] { put(here, part).get(); },
          [&] { copy_async(address, here.data(), bytes, cudaMemcpyHostToDevice); });
      both(
          "get", "pinned", "cudaMemcpyAsync", bytes, [&] { get(part, here).get(); },
          [&] { copy_async(here.data(), address, bytes, cudaMemcpyDeviceToHost); });
    }
    const std::span<std::byte> here(pageable_.data(), bytes);
    const bool is_gpu = s_->is_gpu();
    const char* const rival = is_gpu ? "cudaMemcpy" : "memcpy";
    both(
        "put", "pageable", rival, bytes, [&] { put(here, part).get(); },
        [&] {
          if (is_gpu) {
            gpu::check(cudaMemcpy(address, here.data(), bytes, cudaMemcpyHostToDevice), "copying");
          } else {
            std::memcpy(address, here.data(), bytes);
          }
        });
    both(
        "get", "pageable", rival, bytes, [&] { get(part, here).get(); },
        [&] {
          if (is_gpu) {
            gpu::check(cudaMemcpy(here.data(), address, bytes, cudaMemcpyDeviceToHost), "copying");
          } else {
            std::memcpy(here.data(), address, bytes);
          }
        });
    if (here.front() != std::byte{1} || here.back() != std::byte{1})
      throw std::runtime_error("copies have changed what they copied");
  }

 private:
  void copy_async(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    gpu::check(cudaMemcpyAsync(to, from, bytes, kind, stream_->get()), "copying");
    stream_->synchronize();
  }

  /// Alternates the two, so that both find the machine in the same state.
  template <class Ours, class Theirs>
  void both(const char* way, const char* memory, const char* rival, std::size_t bytes, Ours&& ours,
            Theirs&& theirs) {
    std::vector<double> our_ns;
    std::vector<double> their_ns;
    const std::size_t rounds = rounds_of(*s_, bytes);
    const std::string rest = std::string(" ") + memory + ", " + text_of_bytes(bytes);
    s_->watch.expect(way + rest);
    for (std::size_t i = 0; i < rounds + 1; ++i) {
      s_->watch.tick();
      const auto a = gpu::stopwatch_clock::now();
      ours();
      const auto b = gpu::stopwatch_clock::now();
      theirs();
      const auto c = gpu::stopwatch_clock::now();
      if (i == 0) continue;
      our_ns.push_back(gpu::ns_between(a, b));
      their_ns.push_back(gpu::ns_between(b, c));
    }
    const std::string theirs_name = rival + std::string(", ") + way + rest;
    s_->out.add(
        {.what = theirs_name, .unit = "GB/s", .value = in_gb_per_s(std::move(their_ns), bytes)});
    s_->out.add({.what = way + rest,
                 .unit = "GB/s",
                 .value = in_gb_per_s(std::move(our_ns), bytes),
                 .against = theirs_name});
  }

  session* s_;
  buffer<std::byte> there_;
  std::optional<gpu::pinned<std::byte>> pinned_;
  std::optional<gpu::own_stream> stream_;
  std::vector<std::byte> pageable_;
};

} // namespace

void measure_copies(session& s) {
  s.out.begin("copies");
  const watched_job j = s.start(1);
  const node device = j.device();
  sync(device.within(first_call_timeout), pure_fn<gpu::nothing>);
  copies all(s, device);
  for (const std::size_t bytes : sizes)
    all.run(bytes);
}

} // namespace farcall::bench
