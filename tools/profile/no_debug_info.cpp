#include "debug_info.hpp"

/// Where libdw is not there.
namespace farcall::tool {

bool reads_debug_information() { return false; }

void read_source_frames(
    int /*file*/, std::span<const std::uint64_t> /*addresses*/,
    const std::function<void(std::size_t, std::vector<source_frame>)>& /*take*/) {}

} // namespace farcall::tool
