// The table of transports: one row each, in the order of preference. Here the layers come together,
// so that a row may also be made of what stands above the seam.

#include <farcall/gpu/make_device.hpp>
#include <farcall/gpu/transport/entry.hpp>
#include <farcall/transport/self/entry.hpp>
#include <farcall/transport/shm/entry.hpp>
#include <farcall/transport/tcp/entry.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <vector>

namespace farcall {

std::span<const transport_entry> transports() {
  static const std::vector<transport_entry> rows{
      self::entry(),
      shm::entry(),
      tcp::entry(),
      cuda::gpu_entry(&detail::make_device),
      cuda::emulated_entry(&detail::make_device),
  };
  return rows;
}

} // namespace farcall
