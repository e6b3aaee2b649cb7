#include "bench_functions.hpp"
#include "bench_offload.hpp"
#include "table.hpp"

#include <cstdint>

namespace farcall::tool {
namespace {

/// Devices take values, so each size is a type.
template <std::size_t Bytes>
struct payload {
  unsigned char bytes[Bytes];
};

template <std::size_t Bytes>
FARCALL_HOST_DEVICE std::uint64_t ends_of(const payload<Bytes>& p) {
  return std::uint64_t{p.bytes[0]} + p.bytes[Bytes - 1];
}

template <std::size_t Bytes>
void measure_payload(offload_figures& f, bench_session& session, std::size_t batches) {
  payload<Bytes> p{};
  p.bytes[0] = p.bytes[Bytes - 1] = 1;
  constexpr std::size_t calls = Bytes <= 1024 ? sync_calls : sync_calls / 10;
  f.payload.emplace_back(
      Bytes, session.measure(fmt::format("sync, {} as argument", format_bytes(Bytes)), batches,
                             calls, [&] {
                               for (std::size_t i = 0; i < calls; ++i) {
                                 require(sync(session.target(), pure_fn<ends_of<Bytes>>, p) == 2,
                                         "ends of the payload");
                               }
                             }));
}

} // namespace

offload_figures measure_device(bench_session& session, const bench_options& options) {
  const std::size_t batches = options.batches_or(200, 20);
  offload_figures f;
  f.sync_empty =
      measure_empty(session, "sync, empty, as fc::pure_fn", batches, pure_fn<offloaded::nothing>);
  f.sync_fixed = measure_empty(session, "sync, empty, as fc::device_fn", batches,
                               device_fn<offloaded::nothing>);
  f.sync_2d = measure_sums(session, batches, pure_fn<offloaded::add>);
  measure_payload<8>(f, session, batches);
  measure_payload<32>(f, session, batches);
  measure_payload<64>(f, session, batches);
  measure_payload<256>(f, session, batches);
  measure_payload<1024>(f, session, batches);
  measure_payload<4096>(f, session, batches);
  static_assert(device_payloads == 6);
  f.async = measure_windows(session, options, pure_fn<offloaded::add>);
  f.post = measure_posts(session, batches, pure_fn<offloaded::nothing>);
  f.left_out = "functions by pointer and arguments of no fixed size, which devices do not take; "
               "more than 4 KiB goes to a device by put()";
  return f;
}

} // namespace farcall::tool
