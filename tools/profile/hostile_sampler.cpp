// SPDX-License-Identifier: Apache-2.0
#include "server_sampler.hpp"

#include <farcall/farcall.hpp>
#include <farcall/server/server.hpp>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <thread>

/// A server for the tests of `farcall prof`. "hostile_sampler PROGRAM WHAT" serves that program,
/// and has a sampler that sends invalid data.
namespace farcall::tool {
namespace {

std::string what; // NOLINT(bugprone-throwing-static-initialization): an empty one

/// Returns recorded data of one process with one thread, sampled once in a function of a file.
server_sampler::recorded_part first_part() {
  server_sampler::recorded_part part;
  part.samples.runs.emplace_back().program = "/bin/hostile";
  part.samples.threads.push_back({.run = 0, .number = 1, .name = "hostile"});
  part.samples.places.push_back({.module = 0, .offset = 16});
  part.samples.stacks.push_back({.place = 0});
  part.samples.samples.push_back({.time = 1});
  part.files.push_back({"/nowhere\n\033[2J", "00"});
  part.is_last = true;
  return part;
}

/// Names the sampler's functions in calls, so that this program's table of callables contains them
/// and hosts can call them. This function itself is never called.
[[gnu::used]] void name_functions(const node& n) {
  namespace own = server_sampler;
  (void)sync(n, fn<own::sample>, std::int64_t{0}, sampler_options{});
  (void)sync(n, fn<own::take>, own::recorded_counts{}, false);
  (void)sync(n, fn<own::symbols>, std::uint32_t{0}, std::span<const std::uint64_t>());
  (void)sync(n, fn<own::time>);
}

void wait_for_ever() { std::this_thread::sleep_for(std::chrono::hours(1)); }

} // namespace

namespace server_sampler {

std::string sample(std::int64_t /*process*/, const sampler_options& /*options*/) {
  return what == "controls" ? "\033[2J" : "";
}

recorded_part take(const recorded_counts& has, bool is_over) {
  recorded_part part;
  part.is_last = true;
  if (has.samples == 0) part = first_part();
  if (is_over) {
    part.samples.runs = first_part().samples.runs;
    part.samples.threads = first_part().samples.threads;
  }
  if (what == "silent" && has.samples != 0) wait_for_ever();
  if (what == "silent_at_end" && is_over) wait_for_ever();
  if (what == "endless") part.is_last = false;
  if (what == "contradicts" && has.samples != 0) part.samples.samples.push_back({.stack = 7});
  if (what == "deep" && has.samples != 0) {
    const auto first = static_cast<std::uint32_t>(has.stacks);
    for (std::uint32_t i = 0; i < 100'000; ++i)
      part.samples.stacks.push_back({.place = 0, .caller = first + i - 1});
    // Use each of the new stacks in a sample.
    for (std::uint32_t i = 0; i < 100'000; ++i)
      part.samples.samples.push_back({.stack = first + i});
  }
  return part;
}

std::vector<symbol> symbols(std::uint32_t /*file*/, std::span<const std::uint64_t> offsets) {
  std::vector<symbol> found(offsets.size());
  for (std::size_t i = 0; i < offsets.size(); ++i)
    found[i] = {offsets[i], {{"hostile\n\033[2J", "/\033[2J", 1}}};
  if (what == "fewer_names") found.pop_back();
  if (what == "many_names") found[0].frames.resize(100'000);
  return found;
}

std::uint64_t time() { return what == "clock" ? std::numeric_limits<std::uint64_t>::max() / 2 : 0; }

} // namespace server_sampler
} // namespace farcall::tool

int main(int argc, char** argv) {
  using namespace farcall;
  tool::what = argc > 1 ? argv[argc - 1] : "";
  serve_if_target();
  if (argc < 3) return 1;
  block_end_signals();
  server_options options;
  options.listen = {"127.0.0.1", 0};
  options.plain = true;
  options.program = argv[1];
  options.arguments = {argv[1], "job"};
  options.sampler = {argv[0], argv[2]};
  server serving(std::move(options));
  serve_until_signalled(serving);
}
