// SPDX-License-Identifier: Apache-2.0
#include "messages.hpp"

#include <farcall/base/error.hpp>

#include <cstring>
#include <utility>

namespace farcall::openmp {

target_services* target_services::instance = nullptr;

namespace {

target_services& services() {
  if (target_services::instance == nullptr)
    throw error("only farcall-openmp-target runs target regions");
  return *target_services::instance;
}

} // namespace

std::vector<std::uint64_t> own_processors() { return services().processors(); }

void prepare_target(std::uint32_t device, std::uint32_t devices, std::uint32_t sharers,
                    std::vector<std::string> environment, std::string runtime) {
  services().prepare({device, devices, sharers, std::move(environment), std::move(runtime)});
}

std::vector<std::uint64_t> load_image(std::span<const std::byte> image,
                                      std::vector<std::string> names) {
  return services().load(image, names);
}

void copy_inside(std::uint64_t from, std::uint64_t to, std::uint64_t bytes) {
  (void)services();
  // NOLINTBEGIN(performance-no-int-to-ptr): addresses of this process, which the plugin knows
  std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  // NOLINTEND(performance-no-int-to-ptr)
}

} // namespace farcall::openmp
