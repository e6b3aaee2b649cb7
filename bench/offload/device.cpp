// SPDX-License-Identifier: Apache-2.0
#include "offload.hpp"

#include <bench/runner/functions_device.hpp>
#include <bench/runner/gpu_code.hpp>
#include <tools/common/table.hpp>

#include <farcall/gpu/gpu.hpp>

#include <utility>

namespace farcall::tool {
namespace {

using offloaded::device_payloads;

template <std::size_t Bytes>
void measure_payload(offload_figures& f, bench_session& session, std::size_t batches) {
  const gpu::block<Bytes> payload = offloaded::some_payload<Bytes>();
  constexpr std::size_t calls = Bytes <= 1024 ? sync_calls : sync_calls / 10;
  f.payload.emplace_back(
      Bytes, session.measure(
                 fmt::format("sync, {} as argument", format_bytes(Bytes)), batches, calls, [&] {
                   for (std::size_t i = 0; i < calls; ++i) {
                     require(sync(session.target(), pure_fn<offloaded::ends_of_block<Bytes>>,
                                  payload) == 2,
                             "ends of the payload");
                   }
                 }));
}

template <std::size_t... Bytes>
void measure_payloads(offload_figures& f, bench_session& session, std::size_t batches,
                      std::index_sequence<Bytes...> /*sizes*/) {
  (measure_payload<Bytes>(f, session, batches), ...);
}

std::vector<figure> measure_launches(bench_session& session, std::size_t batches) {
  constexpr std::size_t launches = 200; // in a batch
  std::vector<figure> figures;
  // The GPU runs no resident worker here: measuring the floor has waited for the last one to end.
  code_for_gpus().visit_launches(
      session.device(), [&](const gpu::launch_variant& variant, const std::function<void()>& call) {
        const std::size_t calls = variant.launches == 1 ? launches : 1;
        figures.push_back(
            session.measure(variant.name, batches, calls * variant.launches, [&call, calls] {
              for (std::size_t i = 0; i < calls; ++i)
                call();
            }));
      });
  return figures;
}

} // namespace

offload_figures measure_device(bench_session& session, const bench_options& options) {
  const std::size_t batches = options.batches_or(200, 20);
  const bool is_gpu = session.kind() == link_kind::gpu;
  if (is_gpu) code_for_gpus().try_out(session.target());
  offload_figures f;
  f.sync_empty =
      measure_empty(session, "sync, empty, as fc::pure_fn", batches, pure_fn<gpu::nothing>);
  f.sync_fixed =
      measure_empty(session, "sync, empty, as fc::device_fn", batches, device_fn<gpu::nothing>);
  f.sync_2d = measure_sums(session, batches, pure_fn<offloaded::add>);
  measure_payloads(f, session, batches, device_payloads{});
  f.async = measure_windows(session, options, nullptr, pure_fn<offloaded::add>);
  f.post = measure_posts(session, batches, pure_fn<gpu::nothing>);
  if (is_gpu) f.launches = measure_launches(session, batches);
  f.left_out = "functions by pointer and arguments of no fixed size, which devices do not take; "
               "more than 4 KiB goes to a device by put()";
  return f;
}

std::size_t device_figures(link_kind kind) {
  return 4 + device_payloads::size() + (kind == link_kind::gpu ? gpu::launch_variants : 0);
}

} // namespace farcall::tool
