#include <farcall/am/client.hpp>
#include <farcall/am/engine.hpp>

namespace farcall::am {

requester& client::open_own_lane(node_id node) { return engine_of(*this).open_own_lane(node); }

requester& client::open_lane(node_id node) { return engine_of(*this).open_lane(node); }

void client::retire(requester& l) noexcept { engine_of(*this).retire(l); }

std::byte* client::allocate_block(std::uint64_t bytes) {
  return engine_of(*this).allocate_block(bytes);
}

void client::release_block(std::byte* block) noexcept { engine_of(*this).heap().release(block); }

std::byte* client::wait_for_space(requester& l, std::uint32_t bytes, time_point deadline) {
  return engine_of(*this).wait_for_space(l, bytes, deadline);
}

bool client::wait(completion& c, time_point deadline) { return engine_of(*this).wait(c, deadline); }

void client::poll(completion& c) { engine_of(*this).poll(c); }

} // namespace farcall::am
