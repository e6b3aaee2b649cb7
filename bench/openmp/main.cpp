// SPDX-License-Identifier: Apache-2.0

// farcall-bench-openmp: target regions on farcall's targets, beside LLVM's packaged plugin in the
// same process. The plugins are called as libomptarget calls them, so that its own time, which is
// the same for both, is not measured.
#include "bare_copies.hpp"

#include <bench/runner/loopback_peer.hpp>
#include <compat/openmp/tests/loaded_plugin.hpp>
#include <tools/common/pinning.hpp>

#include <farcall/farcall.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <dlfcn.h>

namespace {

namespace fc = farcall;
using fc::openmp::async_info;
using fc::openmp::entry_list;
using fc::openmp::loaded_plugin;
using clock_type = std::chrono::steady_clock;

constexpr const char* help_text =
    R"(farcall-bench-openmp: what target regions cost on targets of farcall

usage: farcall-bench-openmp [--quick] [PACKAGED_PLUGIN]

FARCALL_TARGETS names two targets that run farcall-openmp-target (shm:2 unless set). PACKAGED_PLUGIN is LLVM's plugin
for this processor (/usr/lib/llvm-16/lib/libomptarget.rtl.x86_64.so unless given). Prints medians. --quick takes few
samples, and copies at most 16 MiB: a check that the program works, not a measurement.
)";

constexpr std::size_t mib = std::size_t{1} << 20;

/// Options of the command line.
struct options {
  bool is_quick = false;
  const char* packaged = "/usr/lib/llvm-16/lib/libomptarget.rtl.x86_64.so";

  /// Returns the number of batches to take, of the usual number.
  [[nodiscard]] int batches(int usual) const { return is_quick ? 3 : usual; }
  /// Returns the size of the largest blocks.
  [[nodiscard]] std::size_t max_block() const { return (is_quick ? 16 : 1024) * mib; }
  /// Returns the number of calls or round trips in a batch.
  [[nodiscard]] int short_ones() const { return is_quick ? 100 : 1000; }
};

double seconds(const std::function<void()>& work) {
  const auto begin = clock_type::now();
  work();
  return std::chrono::duration<double>(clock_type::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(std::string("it failed to ") + what);
}

void nothing() {}

/// A plugin with its devices and their entries.
struct devices {
  loaded_plugin plugin;
  std::vector<entry_list*> entries;

  explicit devices(const char* file) : plugin(file, OPENMP_IMAGE) {
    const std::int32_t count = plugin.number_of_devices();
    for (std::int32_t d = 0; d < std::min(count, 2); ++d) {
      require(plugin.init_device(d) == 0, "prepare a device");
      entries.push_back(plugin.load(d));
      require(entries.back() != nullptr, "load the image");
    }
  }

  [[nodiscard]] void* entry(std::size_t device, const char* name) const {
    return loaded_plugin::entry(*entries.at(device), name);
  }

  /// Runs a region, and waits for its end, as a region without `nowait` does.
  void run(std::int32_t device, void* region, const std::vector<void*>& arguments) {
    async_info task{};
    require(
        plugin.run(device, region, arguments, plugin.synchronize == nullptr ? nullptr : &task) == 0,
        "run a region");
    if (task.queue != nullptr) require(plugin.synchronize(device, &task) == 0, "wait for a region");
  }
};

/// Measures several kinds of work in alternating batches; returns the median time of each. Calls
/// `before` and `after` with the number of the kind, before and after the time of each batch.
std::vector<double> alternate(const std::vector<std::function<void()>>& kinds, int in_batch,
                              int batches, const std::function<void(std::size_t)>& before = {},
                              const std::function<void(std::size_t)>& after = {}) {
  std::vector<std::vector<double>> times(kinds.size());
  for (int b = -1; b < batches; ++b) {
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      if (before) before(k);
      const double time = seconds([&] {
        for (int i = 0; i < in_batch; ++i)
          kinds[k]();
      });
      if (after) after(k);
      if (b >= 0) times[k].push_back(time / in_batch); // the first batch warms up
    }
  }
  std::vector<double> medians;
  for (auto& each : times)
    medians.push_back(median(each));
  return medians;
}

/// True if the targets are reached over TCP.
bool is_over_tcp() {
  const char* const targets = std::getenv("FARCALL_TARGETS"); // NOLINT(concurrency-mt-unsafe)
  return targets != nullptr && std::string(targets).starts_with("tcp");
}

/// Measures the round trip of a bare TCP connection over loopback in seconds, if the targets are
/// reached over TCP; else returns 0. Forks, so call it before any thread or job is started.
double bare_round_trip(const options& asked) {
  if (!is_over_tcp()) return 0;
  fc::tool::loopback_peer peer(fc::tool::choose_cores({}, {}));
  peer.connect();
  return alternate({[&] { peer.round_trip(); }}, asked.short_ones(), asked.batches(21)).front();
}

/// Returns copies over the link to the targets. Forks, so call it before any thread or job is
/// started.
std::unique_ptr<fc::tool::bare_copies> bare_copies_of_link(const options& asked,
                                                           fc::tool::core_pair cores) {
  if (is_over_tcp()) return std::make_unique<fc::tool::connection_copies>(cores);
  return std::make_unique<fc::tool::mapped_copies>(cores, asked.max_block());
}

/// `round_trip` is the round trip of the bare link in seconds, or 0 over shared memory.
void empty_regions(const options& asked, devices& ours, devices& packaged, double round_trip) {
  fc::job_options of_calls;
  of_calls.targets = "shm";
  of_calls.program = "/proc/self/exe";
  const fc::job job{of_calls};
  const fc::node target = job.targets().front();
  void* const here = packaged.entry(0, "empty_l1");
  void* const there = ours.entry(0, "empty_l1");
  const auto times = alternate({[&] { packaged.run(0, here, {}); }, [&] { ours.run(0, there, {}); },
                                [&] { fc::sync(target, fc::fn<&nothing>); }},
                               asked.short_ones(), asked.batches(51));
  const double limit = times[0] + 2 * times[2] + 1.3 * round_trip;
  std::printf("empty region        packaged %.3f us, farcall %.3f us; empty call of farcall over "
              "shm %.3f us; ",
              times[0] * 1e6, times[1] * 1e6, times[2] * 1e6);
  if (round_trip != 0) std::printf("bare connection %.3f us; ", round_trip * 1e6);
  std::printf("limit %.3f us (%s)\n", limit * 1e6, times[1] <= limit ? "held" : "not held");
}

double gib_per_second(std::size_t bytes, double time) {
  return static_cast<double>(bytes) / time / (1 << 30);
}

/// Copies of memory within one process, whose blocks stay the same.
class local_copies {
 public:
  explicit local_copies(std::size_t bytes) : host(bytes, 1), other_(bytes, 2) {}

  void copy_there() { copy_(other_.data(), host.data(), host.size()); }
  void copy_back() { copy_(host.data(), other_.data(), host.size()); }

  std::vector<char> host;

 private:
  std::vector<char> other_;
  /// Volatile, so that the compiler neither inlines nor removes the copy.
  void* (*volatile copy_)(void*, const void*, std::size_t) = std::memcpy;
};

void copies(const options& asked, devices& ours, fc::tool::core_pair cores,
            fc::tool::bare_copies& bare) {
  // The second process of bare copies is bound to the other core.
  const fc::tool::scoped_pin pin{cores.host};
  for (const std::size_t bytes : {mib, 16 * mib, 256 * mib, 1024 * mib}) {
    if (bytes > asked.max_block()) break;
    local_copies here(bytes);
    const auto length = static_cast<std::int64_t>(bytes);
    const auto allocate = [&] {
      void* const memory = ours.plugin.data_alloc(0, length, nullptr, 0);
      require(memory != nullptr, "allocate memory");
      return memory;
    };
    const auto copy_there_and_back = [&](void* memory) {
      require(ours.plugin.data_submit(0, memory, here.host.data(), length) == 0,
              "copy to a device");
      require(ours.plugin.data_retrieve(0, here.host.data(), memory, length) == 0,
              "copy from a device");
    };
    void* const there = allocate();
    constexpr std::size_t bare_kind = 3;
    const auto times = alternate(
        {[&] { copy_there_and_back(there); },
         [&] {
           // A region whose data are not mapped yet, as libomptarget runs it.
           void* const memory = allocate();
           copy_there_and_back(memory);
           ours.plugin.data_delete(0, memory);
         },
         [&] {
           here.copy_there();
           here.copy_back();
         },
         [&] { bare.copy_there_and_back(); }},
        1, asked.batches(bytes < 64 * mib ? 21 : 5),
        [&](std::size_t kind) {
          if (kind == bare_kind) bare.begin(bytes);
        },
        [&](std::size_t kind) {
          if (kind == bare_kind) bare.end();
        });
    std::printf(
        "tofrom %5zu MiB    farcall %.2f GiB/s, with allocation %.2f; memcpy in one process "
        "%.2f GiB/s; %s %.2f GiB/s; farcall:bare %.2f (0.9 %s), with allocation %.2f\n",
        bytes / mib, gib_per_second(2 * bytes, times[0]), gib_per_second(2 * bytes, times[1]),
        gib_per_second(2 * bytes, times[2]), bare.name(),
        gib_per_second(2 * bytes, times[bare_kind]), times[bare_kind] / times[0],
        times[bare_kind] >= 0.9 * times[0] ? "held" : "not held", times[bare_kind] / times[1]);
    ours.plugin.data_delete(0, there);
  }
}

/// Measures copies of data that are used: before each copy, the device and the host have changed
/// their blocks. Without this, each block stays in the cache of the processor that copies it.
void copies_of_used_data(const options& asked, devices& ours, fc::tool::core_pair cores,
                         fc::tool::mapped_copies& bare) {
  const fc::tool::scoped_pin pin{cores.host};
  for (const std::size_t bytes : {mib, 4 * mib, 16 * mib, 256 * mib}) {
    if (bytes > asked.max_block()) break;
    std::vector<std::byte> host(bytes);
    const auto length = static_cast<std::int64_t>(bytes);
    void* const there = ours.plugin.data_alloc(0, length, nullptr, 0);
    require(there != nullptr, "allocate memory");
    const auto change = [&] {
      ours.run(0, ours.entry(0, "change_l10"), {there, reinterpret_cast<void*>(bytes)});
      fc::tool::change_all_lines(host.data(), bytes);
    };
    const auto require_copy = [](std::int32_t result) { require(result == 0, "copy used data"); };
    std::vector<double> of_ours;
    std::vector<double> of_bare;
    for (int b = -1; b < asked.batches(bytes < 64 * mib ? 51 : 9); ++b) {
      change();
      double time =
          seconds([&] { require_copy(ours.plugin.data_submit(0, there, host.data(), length)); });
      change();
      time +=
          seconds([&] { require_copy(ours.plugin.data_retrieve(0, host.data(), there, length)); });
      bare.begin(bytes);
      bare.change();
      double bare_time = seconds([&] { bare.copy_there(); });
      bare.change();
      bare_time += seconds([&] { bare.copy_back(); });
      bare.end();
      if (b < 0) continue; // warms up
      of_ours.push_back(time);
      of_bare.push_back(bare_time);
    }
    const double time = median(of_ours);
    const double limit = median(of_bare);
    std::printf("used data %5zu MiB  farcall %.2f GiB/s; %s %.2f GiB/s; farcall:bare %.2f\n",
                bytes / mib, gib_per_second(2 * bytes, time), bare.name(),
                gib_per_second(2 * bytes, limit), limit / time);
    ours.plugin.data_delete(0, there);
  }
}

void between_devices(const options& asked, devices& ours) {
  const std::size_t bytes = std::min(64 * mib, asked.max_block());
  const auto length = static_cast<std::int64_t>(bytes);
  void* const from = ours.plugin.data_alloc(0, length, nullptr, 0);
  void* const to = ours.plugin.data_alloc(1, length, nullptr, 0);
  local_copies here(bytes);
  const auto times = alternate({[&] {
                                  require(ours.plugin.data_exchange(0, from, 1, to, length) == 0,
                                          "copy between devices");
                                },
                                [&] { here.copy_there(); }},
                               1, asked.batches(21));
  std::printf("between devices     %zu MiB at %.2f GiB/s; memcpy in one process %.2f GiB/s\n",
              bytes / mib, gib_per_second(bytes, times[0]), gib_per_second(bytes, times[1]));
  ours.plugin.data_delete(0, from);
  ours.plugin.data_delete(1, to);
}

void two_devices(const options& asked, devices& ours) {
  const std::uint64_t steps = asked.is_quick ? 200'000 : 20'000'000;
  void* results[2];
  for (std::int32_t d = 0; d < 2; ++d)
    results[d] = ours.plugin.data_alloc(d, 8, nullptr, 0);
  const auto start = [&](std::int32_t d, std::uint64_t count, async_info& task) {
    require(ours.plugin.run(d, ours.entry(static_cast<std::size_t>(d), "compute_l8"),
                            {results[d], reinterpret_cast<void*>(count)}, &task) == 0,
            "run a region");
  };
  const auto times = alternate({[&] {
                                  async_info task{};
                                  start(0, steps, task);
                                  require(ours.plugin.synchronize(0, &task) == 0, "wait");
                                },
                                [&] {
                                  async_info tasks[2] = {};
                                  for (std::int32_t d = 0; d < 2; ++d)
                                    start(d, steps / 2, tasks[d]);
                                  for (std::int32_t d = 0; d < 2; ++d)
                                    require(ours.plugin.synchronize(d, &tasks[d]) == 0, "wait");
                                }},
                               1, asked.batches(21));
  std::printf("two devices         %.2f times one\n", times[0] / times[1]);
}

} // namespace

int main(int argc, char** argv) {
  fc::serve_if_target();
  options asked;
  std::vector<const char*> words(argv + 1, argv + argc);
  if (!words.empty() && std::strcmp(words[0], "--quick") == 0) {
    asked.is_quick = true;
    words.erase(words.begin());
  }
  const bool wants_help = words.size() == 1 && std::strcmp(words[0], "--help") == 0;
  if (words.size() > 1 || wants_help) {
    std::fputs(help_text, wants_help ? stdout : stderr);
    return wants_help ? 0 : 2;
  }
  if (words.size() == 1) asked.packaged = words[0];
  // Each line is printed when it has been measured, also to a pipe.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  try {
    ::setenv("FARCALL_TARGETS", "shm:2", 0); // NOLINT(concurrency-mt-unsafe): no threads yet
    // Measurements of the bare link fork, so they come before threads and jobs.
    const double round_trip = bare_round_trip(asked);
    const fc::tool::core_pair cores = fc::tool::choose_cores({}, {});
    const auto bare = bare_copies_of_link(asked, cores);
    devices packaged(asked.packaged);
    devices ours(OPENMP_PLUGIN);
    require(ours.entries.size() == 2, "start two devices");
    empty_regions(asked, ours, packaged, round_trip);
    copies(asked, ours, cores, *bare);
    if (auto* const mapped = dynamic_cast<fc::tool::mapped_copies*>(bare.get()))
      copies_of_used_data(asked, ours, cores, *mapped);
    between_devices(asked, ours);
    two_devices(asked, ours);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "farcall-bench-openmp: %s\n", e.what());
    return 1;
  }
}
