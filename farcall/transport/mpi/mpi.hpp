#pragma once

#include <farcall/transport/transport_entry.hpp>

#include <cstdint>
#include <memory>

/// Messages and copies over MPI, between processes that MPI has started.
namespace farcall::mpi {

/// `site.group` says which processes these are. Waits for all of them, until `deadline`. Throws
/// error where MPI cannot be used, which says why and what to do.
[[nodiscard]] std::unique_ptr<transport> make(const transport_site& site, std::uint32_t ring_bytes,
                                              time_point deadline);

} // namespace farcall::mpi
