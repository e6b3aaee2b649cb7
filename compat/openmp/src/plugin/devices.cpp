// SPDX-License-Identifier: Apache-2.0
#include "devices.hpp"

#include "../messages.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

namespace farcall::openmp {

namespace {

namespace fs = std::filesystem;

// The program's variables do not change while libomptarget loads its plugins.
// NOLINTBEGIN(concurrency-mt-unsafe)

/// Returns the path of farcall-openmp-target, which is built and installed with this library.
std::string target_program() {
  Dl_info here{};
  fs::path folder;
  if (::dladdr(reinterpret_cast<const void*>(&target_program), &here) != 0 &&
      here.dli_fname != nullptr) {
    std::error_code unknown;
    folder = fs::canonical(here.dli_fname, unknown).parent_path();
  }
  const fs::path name = "farcall-openmp-target";
  for (const char* const place : {FARCALL_OPENMP_BIN_FROM_PLUGIN, "../../../bin", "."}) {
    const fs::path file = (folder / place / name).lexically_normal();
    if (::access(file.c_str(), X_OK) == 0) return file.string();
  }
  throw start_failed("there is no " +
                     (folder / FARCALL_OPENMP_BIN_FROM_PLUGIN / name).lexically_normal().string() +
                     ", the program that runs target regions; install farcall again");
}

/// Returns the path of this process's OpenMP runtime; empty if it has none.
std::string runtime_of_this_process() {
  std::string found;
  const auto look = [](dl_phdr_info* info, std::size_t /*size*/, void* argument) {
    const std::string path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
    if (!fs::path(path).filename().string().starts_with("libomp.so")) return 0;
    *static_cast<std::string*>(argument) = path;
    return 1;
  };
  ::dl_iterate_phdr(look, &found);
  return found;
}

/// Returns the variables of this process that OpenMP runtimes read, without the variable of
/// offloading.
std::vector<std::string> runtime_variables() {
  std::vector<std::string> found;
  for (char** v = environ; *v != nullptr; ++v) {
    const std::string_view variable = *v;
    if ((variable.starts_with("OMP_") || variable.starts_with("KMP_")) &&
        !variable.starts_with("OMP_TARGET_OFFLOAD="))
      found.emplace_back(variable);
  }
  return found;
}

bool is_set(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

/// Returns the value of FARCALL_LABEL. By default lines have labels, because otherwise the user
/// could not see which device has printed a line.
bool wants_labels() {
  const char* const value = std::getenv("FARCALL_LABEL");
  return value == nullptr || std::strcmp(value, "no") != 0;
}

job_options options_of_job(bool labels_lines) {
  job_options options;
  options.program = target_program();
  options.arguments = {options.program};
  options.label = labels_lines;
  return options;
}

// NOLINTEND(concurrency-mt-unsafe)

} // namespace

devices::devices() : labels_lines_(wants_labels()), job_(options_of_job(labels_lines_)) {
  places_.resize(job_.targets().size());
  prepare(job_.targets(), 0);
  for (const node& n : job_.targets()) {
    const auto number = static_cast<std::uint32_t>(all_.size());
    std::function<node(const node&)> restart;
    if (is_set("FARCALL_OPENMP_RESTART")) {
      restart = [this, number](const node& ended) {
        const node again = job_.restart(ended);
        prepare({again}, number);
        return again;
      };
    }
    all_.push_back(std::make_unique<device>(number, n, std::move(restart)));
  }
}

std::vector<std::uint32_t> devices::sharers_of_fresh(const std::vector<node>& fresh,
                                                     std::uint32_t first) {
  std::vector<future<std::vector<std::uint64_t>>> processors;
  for (const node& n : fresh)
    processors.push_back(async(n, fn<&own_processors>));
  std::vector<target_place> told;
  for (std::size_t i = 0; i < fresh.size(); ++i)
    told.push_back({fresh[i].description().host, processors[i].get()});
  const std::lock_guard guard(places_mutex_);
  std::ranges::move(told, places_.begin() + first);
  std::vector<std::uint32_t> sharers;
  for (std::size_t i = 0; i < fresh.size(); ++i)
    sharers.push_back(sharers_of(places_, first + i));
  return sharers;
}

void devices::prepare(const std::vector<node>& fresh, std::uint32_t first) {
  const auto all = static_cast<std::uint32_t>(places_.size());
  const auto sharers = sharers_of_fresh(fresh, first);
  std::vector<future<void>> prepared;
  for (std::uint32_t i = 0; i < fresh.size(); ++i) {
    prepared.push_back(async(fresh[i], fn<&prepare_target>, first + i, all, sharers[i],
                             runtime_variables(), runtime_of_this_process()));
  }
  for (auto& each : prepared)
    each.get();
}

std::uint64_t devices::allocate(std::int32_t number, std::size_t bytes) {
  try {
    return at(number).allocate(bytes);
  } catch (const out_of_memory&) {
    // Devices of one machine share its memory.
    for (const auto& each : all_)
      each->drop_freed_blocks();
    return at(number).allocate(bytes);
  }
}

void devices::close() { job_.close(); }

} // namespace farcall::openmp
