// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/gpu/transport/entry.hpp>
#include <farcall/gpu/transport/find_gpus.hpp>

#include <chrono>
#include <utility>

namespace farcall::cuda {
namespace {

constexpr const char* gpu_scheme = "cuda";
constexpr const char* emulated_scheme = "cuda-emulated";

constexpr std::uint64_t max_devices = 64;
constexpr std::uint32_t default_gpu_workers = 8;
/// Maximum number of workers of a GPU. A GPU has 32 hardware queues, which the workers' streams
/// share with launches, copies and the program's streams. Work that is queued after a resident
/// worker would never run.
constexpr std::uint32_t max_gpu_workers = 16;
constexpr std::uint64_t max_gpu_threads = 256;
constexpr std::uint64_t max_emulated_threads = 32;
constexpr std::uint64_t max_idle_ms = 3'600'000;

std::uint64_t read_number(std::string_view place, const std::string& what, target_url& url) {
  const auto colon = place.find(':');
  url.address = colon == std::string_view::npos ? "0" : std::string(place.substr(colon + 1));
  (void)parse_number(url.address, "the number of the device in " + what, 0, max_devices);
  return 1;
}

url_option threads_option(std::uint64_t most, std::uint64_t multiple_of) {
  return {"threads", "threads of a worker", 1, most, multiple_of, "", ""};
}

url_option idle_option() {
  return {"idle_ms", "milliseconds after which an idle worker leaves", 1, max_idle_ms, 1, "", ""};
}

std::string text_of(const device_description& gpu) {
  return gpu.name + ", " + gpu.architecture + ", " + std::to_string(gpu.processors) +
         " multiprocessors, " + std::to_string(gpu.memory_bytes >> 20) + " MiB, " + gpu.driver +
         ", " + (gpu.link.empty() ? "link unknown" : gpu.link) +
         "; for programs with code for GPUs";
}

std::vector<availability> gpus_here() {
  const gpus_found found = find_gpus();
  if (found.gpus.empty()) return {{gpu_scheme, false, found.why_none}};
  std::vector<availability> all;
  for (std::size_t i = 0; i < found.gpus.size(); ++i) {
    const std::string name = gpu_scheme + (":" + std::to_string(i));
    all.push_back({name, true,
                   text_of(found.gpus[i]) +
                       "; what calls take has been measured on no GPU yet: 'farcall bench offload "
                       "--targets " +
                       name + "' does it"});
  }
  return all;
}

std::unique_ptr<hosted_node> host_device(const device_maker& make_device, const target_url& url,
                                         const hosting_site& site) {
  device_with_code made = make_device(url);
  options o;
  o.self = site.self;
  o.node = site.node;
  o.ring_bytes = site.lane_bytes;
  o.doorbells = site.doorbells;
  o.device = std::move(made.device);
  o.workers = url.workers;
  if (const auto idle = url.number("idle_ms")) o.idle = std::chrono::milliseconds(*idle);
  o.program = std::move(made.program);
  o.memory_bytes = site.heap_bytes;
  return cuda::make(std::move(o));
}

transport_entry device_entry(const char* scheme, device_maker make) {
  transport_entry row;
  row.scheme = scheme;
  row.read_place = &read_number;
  row.host = [make = std::move(make)](const target_url& url, const hosting_site& site) {
    return host_device(make, url, site);
  };
  return row;
}

} // namespace

transport_entry gpu_entry(device_maker make) {
  transport_entry row = device_entry(gpu_scheme, std::move(make));
  row.example = "cuda:0?workers=4";
  row.options = {threads_option(max_gpu_threads, 32), idle_option()};
  row.workers = default_gpu_workers;
  row.workers_at_most = max_gpu_workers;
  row.available = &gpus_here;
  return row;
}

transport_entry emulated_entry(device_maker make) {
  transport_entry row = device_entry(emulated_scheme, std::move(make));
  row.example = "cuda-emulated:0";
  row.options = {threads_option(max_emulated_threads, 1), idle_option(), cpu_option()};
  row.available = [] {
    return std::vector<availability>{
        {emulated_scheme, true,
         "a device made of threads of this process; its times say nothing about GPUs"}};
  };
  return row;
}

bool is_emulated(const target_url& url) noexcept { return url.scheme == emulated_scheme; }

bool is_emulated(const card& device) noexcept { return device.transport == emulated_scheme; }

bool is_device(const target_url& url) noexcept {
  return url.scheme == gpu_scheme || url.scheme == emulated_scheme;
}

std::uint32_t device_number(const target_url& url) {
  return static_cast<std::uint32_t>(
      parse_number(url.address, "the number of a device", 0, max_devices));
}

} // namespace farcall::cuda
