// SPDX-License-Identifier: Apache-2.0
#include "variants.hpp"

#include "offload.hpp"

#include <bench/runner/functions.hpp>
#include <bench/runner/idle_threads.hpp>

#include <vector>

#include <fmt/format.h>

namespace farcall::tool {
namespace {

figure measure_idle_lanes(bench_session& session, std::size_t batches) {
  const idle_threads others(session.target(), idle_lane_count);
  return measure_empty(session, fmt::format("sync, empty, beside {} idle lanes", idle_lane_count),
                       batches, offloaded::nothing);
}

struct quotient {
  const char* what;
  const char* of;
  double value;
};

std::vector<quotient> quotients(const call_variants& v, const figure& empty) {
  return {
      {"handler with a ready future", "a plain one", v.ready_future.ns.p50 / empty.ns.p50},
      {"handler with a reply", "a plain one", v.reply.ns.p50 / empty.ns.p50},
      {"beside idle lanes", "without", v.idle_lanes.ns.p50 / v.one_lane.ns.p50},
  };
}

} // namespace

call_variants measure_variants(bench_session& session, std::size_t batches) {
  call_variants v;
  v.ready_future = measure_empty(session, "sync, empty, handler with a ready future", batches,
                                 offloaded::nothing_later);
  v.reply = measure_empty(session, "sync, empty, handler with a reply", batches,
                          offloaded::nothing_replied);
  v.one_lane = measure_empty(session, "sync, empty, again", batches, offloaded::nothing);
  v.idle_lanes = measure_idle_lanes(session, batches);
  return v;
}

std::string variants_text(const call_variants& v, const figure& empty) {
  std::string text;
  for (const quotient& q : quotients(v, empty)) {
    if (!text.empty()) text += "; ";
    text += fmt::format("{}: {:.2f} × {}", q.what, q.value, q.of);
  }
  return text + '\n';
}

json variants_json(const call_variants& v, const figure& empty) {
  json document;
  for (const figure* f : {&v.ready_future, &v.reply, &v.one_lane, &v.idle_lanes})
    document[f->what] = figure_json(*f);
  json ratios;
  for (const quotient& q : quotients(v, empty))
    ratios[q.what] = rounded(q.value);
  document["ratios"] = ratios;
  return document;
}

} // namespace farcall::tool
