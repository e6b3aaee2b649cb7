#include "signature.hpp"

#if FARCALL_VEO_HAS_DWARF

#include "debug_info.hpp"
#include "loaded_module.hpp"

#include <exception>
#include <memory>
#include <mutex>
#include <utility>

namespace farcall::veo {
namespace {

struct open_module {
  loaded_module place;
  debug_info information;

  explicit open_module(loaded_module&& loaded)
      : place(std::move(loaded)), information(place.file) {}
};

std::mutex mutex;

// Never destroyed: threads may still ask while the program ends.
std::vector<std::unique_ptr<open_module>>& modules() {
  static auto& all = *new std::vector<std::unique_ptr<open_module>>;
  return all;
}

const open_module* module_containing(const void* code) {
  std::optional<loaded_module> now = module_of(code);
  if (!now) return nullptr;
  for (const auto& module : modules()) {
    if (module->place.file == now->file && module->place.load_bias == now->load_bias) {
      return module.get();
    }
  }
  return modules().emplace_back(std::make_unique<open_module>(*std::move(now))).get();
}

} // namespace

std::optional<signature> signature_of(const void* code) noexcept {
  try {
    const std::scoped_lock lock(mutex);
    const open_module* module = module_containing(code);
    if (module == nullptr) return std::nullopt;
    return module->information.signature_at(reinterpret_cast<std::uint64_t>(code) -
                                            module->place.load_bias);
  } catch (const std::exception&) {
    return std::nullopt; // no memory
  }
}

void forget_module_of(const void* code) noexcept {
  const std::scoped_lock lock(mutex);
  std::erase_if(modules(), [code](const auto& module) {
    return module->place.contains(reinterpret_cast<std::uint64_t>(code));
  });
}

void forget_modules() noexcept {
  const std::scoped_lock lock(mutex);
  modules().clear();
}

} // namespace farcall::veo

#else

namespace farcall::veo {

std::optional<signature> signature_of(const void* /*code*/) noexcept { return std::nullopt; }
void forget_module_of(const void* /*code*/) noexcept {}
void forget_modules() noexcept {}

} // namespace farcall::veo

#endif
