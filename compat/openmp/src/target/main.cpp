// SPDX-License-Identifier: Apache-2.0
#include "images.hpp"
#include "region_call.hpp"

#include "../messages.hpp"

#include <farcall/async/message.hpp>
#include <farcall/base/error.hpp>
#include <farcall/call/callable.hpp>
#include <farcall/call/register_callables.hpp>
#include <farcall/offload/job.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <sys/syscall.h>
#include <unistd.h>

namespace {

using farcall::openmp::region_message;

constexpr const char* help_text =
    R"(farcall-openmp-target: runs the target regions of an OpenMP program

usage: farcall-openmp-target [--help]

'farcall run --openmp ./app' starts it, once for each device. To start devices on another machine,
run there: farcall serve --listen HOST:PORT --key FILE farcall-openmp-target
)";

/// Number of this device, and of all devices, for functions of OpenMP in target regions.
int own_device = 0;
int all_devices = 0;

/// Returns the processors on which the calling thread may run, as target_services::processors().
std::vector<std::uint64_t> usable_processors() {
  std::vector<std::uint64_t> words(16);
  // EINVAL means that the system has more processors.
  while (::syscall(SYS_sched_getaffinity, 0, words.size() * sizeof(std::uint64_t), words.data()) <
         0) {
    if (errno != EINVAL || words.size() >= (1U << 14)) return {1};
    words.assign(2 * words.size(), 0);
  }
  while (words.size() > 1 && words.back() == 0)
    words.pop_back();
  return words;
}

unsigned usable_count() {
  unsigned count = 0;
  for (const std::uint64_t word : usable_processors())
    count += static_cast<unsigned>(std::popcount(word));
  return count;
}

/// Sets a variable that the environment lacks. Called before this process has more threads that
/// read the environment.
void set_default(const std::string& name, const std::string& value) {
  ::setenv(name.c_str(), value.c_str(), 0); // NOLINT(concurrency-mt-unsafe)
}

/// Sets the variables of the OpenMP runtime: the variables of the host, and defaults for processes
/// that share processors. By default, threads that wait sleep at once, because other nodes use the
/// processors, too.
void set_variables(const farcall::openmp::target_setup& setup) {
  for (const std::string& variable : setup.environment) {
    const std::size_t end = variable.find('=');
    if (end != std::string::npos) set_default(variable.substr(0, end), variable.substr(end + 1));
  }
  const unsigned threads = std::max(1U, usable_count() / std::max(1U, setup.sharers));
  set_default("OMP_NUM_THREADS", std::to_string(threads));
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) // NOLINT(concurrency-mt-unsafe)
    set_default("KMP_BLOCKTIME", "0");
}

void run_region(void* /*context*/, region_message prefix, farcall::message& m) {
  farcall::message::kept_payload kept;
  const auto words = m.keep(kept);
  farcall::openmp::call_region(prefix.code, {reinterpret_cast<const std::uint64_t*>(words.data()),
                                             words.size() / sizeof(std::uint64_t)});
  // The host continues when it gets the reply, and lines that the region has printed must come
  // before lines that the host prints then.
  std::fflush(stdout);
}

/// Registers functions that only the plugin calls.
template <auto... Functions>
void register_calls() {
  farcall::register_callables<std::remove_const_t<decltype(farcall::fn<Functions>)>...>();
}

class region_target final : public farcall::openmp::target_services {
 public:
  std::vector<std::uint64_t> processors() override { return usable_processors(); }

  void prepare(const farcall::openmp::target_setup& setup) override {
    own_device = static_cast<int>(setup.device);
    all_devices = static_cast<int>(setup.devices);
    set_variables(setup);
    has_runtime_ = farcall::openmp::load_runtime(setup.runtime);
    farcall::set_message_handler<region_message>(farcall::this_node(), {run_region, nullptr});
  }

  std::vector<std::uint64_t> load(std::span<const std::byte> image,
                                  const std::vector<std::string>& names) override {
    try {
      return farcall::openmp::load_library(image, names);
    } catch (const farcall::error& e) {
      if (has_runtime_) throw;
      throw farcall::error(std::string(e.what()) +
                           "; the target has no OpenMP runtime (libomp.so.5): install the package "
                           "libomp5-16 or libomp5-15 on its machine");
    }
  }

 private:
  bool has_runtime_ = false; ///< written by prepare(), before images are loaded
};

} // namespace

// Functions that differ between devices. Images find them here before the runtime's.
extern "C" {
int omp_is_initial_device() { return 0; }
int omp_get_device_num() { return own_device; }
int omp_get_initial_device() { return all_devices; }
int omp_get_num_devices() { return all_devices; }
}

int main(int argc, char** argv) {
  // An image may load libomptarget, which would load the plugin, which would start targets.
  ::setenv("OMP_TARGET_OFFLOAD", "DISABLED", 1); // NOLINT(concurrency-mt-unsafe): no threads yet
  register_calls<&farcall::openmp::own_processors, &farcall::openmp::prepare_target,
                 &farcall::openmp::load_image, &farcall::openmp::copy_inside>();
  region_target target;
  farcall::openmp::target_services::instance = &target;
  if (farcall::serve_as_target()) return 0;
  const bool asked = argc == 2 && std::strcmp(argv[1], "--help") == 0;
  std::fputs(help_text, asked ? stdout : stderr);
  return asked ? 0 : 2;
}
