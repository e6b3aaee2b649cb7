// SPDX-License-Identifier: Apache-2.0
#include "signature.hpp"

#if FARCALL_VEO_HAS_DWARF

#include "debug_info.hpp"
#include "loaded_module.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

namespace farcall::veo {
namespace {

struct open_module {
  loaded_module place;
  debug_info information;

  explicit open_module(loaded_module loaded)
      : place(std::move(loaded)), information(open_mapped_file(0, place.begin, place.file)) {}
};

std::mutex mutex;

// The list is never destroyed, because threads may still look up signatures while the program ends.
std::vector<std::unique_ptr<open_module>>& modules() {
  static auto& all = *new std::vector<std::unique_ptr<open_module>>;
  return all;
}

const open_module* open(loaded_module&& now) {
  for (const auto& module : modules()) {
    if (module->place == now) return module.get();
  }
  return modules().emplace_back(std::make_unique<open_module>(std::move(now))).get();
}

} // namespace

std::optional<signature> signature_of(const void* code) noexcept {
  try {
    const std::scoped_lock lock(mutex);
    std::optional<loaded_module> now = module_of(code);
    if (!now) return std::nullopt;
    const open_module* module = open(*std::move(now));
    return module->information.signature_at(reinterpret_cast<std::uint64_t>(code) -
                                            module->place.load_bias);
  } catch (const std::exception&) {
    return std::nullopt; // no memory
  }
}

void open_debug_information() noexcept {
  try {
    const std::scoped_lock lock(mutex);
    for (loaded_module& module : loaded_modules())
      open(std::move(module));
  } catch (const std::exception&) {
    // Ignore that memory is exhausted, because signature_of() opens the file later.
  }
}

void close_debug_information() noexcept {
  try {
    const std::scoped_lock lock(mutex);
    const std::vector<loaded_module> loaded = loaded_modules();
    std::erase_if(modules(), [&loaded](const auto& module) {
      return std::find(loaded.begin(), loaded.end(), module->place) == loaded.end();
    });
  } catch (const std::exception&) {
    // Ignore that memory is exhausted, because the next call closes the files.
  }
}

} // namespace farcall::veo

#else

namespace farcall::veo {

std::optional<signature> signature_of(const void* /*code*/) noexcept { return std::nullopt; }
void open_debug_information() noexcept {}
void close_debug_information() noexcept {}

} // namespace farcall::veo

#endif
