#include "activity.hpp"
#include "recording.hpp"
#include "symbolizer.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

/// How a recording becomes a profile.
namespace farcall::tool {

namespace {

/// Frames of a profile, and which of them a place stands for.
class frame_table {
 public:
  frame_table(profile& into, std::size_t places) : into_(into), of_place_(places) {}

  void set(std::size_t place, const symbol& found, const std::string& module) {
    for (std::size_t i = 0; i < found.frames.size(); ++i) {
      const source_frame& frame = found.frames[i];
      of_place_[place].push_back(static_cast<std::uint32_t>(into_.frames.size()));
      into_.frames.push_back({.function = frame.function,
                              .module = module,
                              .file = frame.file,
                              .line = frame.line,
                              .address = found.address,
                              .is_inlined = i + 1 < found.frames.size()});
    }
  }
  /// Innermost first.
  [[nodiscard]] const std::vector<std::uint32_t>& of(std::size_t place) const {
    return of_place_[place];
  }

 private:
  profile& into_;
  std::vector<std::vector<std::uint32_t>> of_place_;
};

} // namespace

void recording::write_threads(profile& into) const {
  for (const sampled_thread& t : threads_) {
    const program_run& run = runs_[t.run];
    into.threads.push_back({.process = run.process,
                            .thread = t.thread,
                            .node = run.node,
                            .name = t.name,
                            .program = run.program,
                            .is_main = t.thread == run.process});
  }
}

void recording::finish(const modules& files, std::uint64_t start, const progress& tell,
                       profile& into) {
  number_nodes();
  write_threads(into);
  into.lost = lost_;

  // A module's places together, in the order of their offsets.
  std::vector<std::uint32_t> order(places_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, [this](std::uint32_t i) {
    return std::tuple(places_[i].module, places_[i].offset);
  });
  frame_table frames(into, places_.size());
  for (std::size_t at = 0; at < order.size();) {
    tell(at, order.size());
    const std::uint32_t module = places_[order[at]].module;
    std::size_t end = at;
    std::vector<std::uint64_t> offsets;
    for (; end < order.size() && places_[order[end]].module == module; ++end)
      offsets.push_back(places_[order[end]].offset);
    if (module == modules::none) {
      for (std::size_t i = 0; i < offsets.size(); ++i) {
        source_frame nameless{.function = address_text(offsets[i]), .file = {}, .line = 0};
        frames.set(order[at + i], {.address = offsets[i], .frames = {std::move(nameless)}}, {});
      }
    } else {
      const std::vector<symbol> symbols = symbolize(files.all()[module], offsets);
      for (std::size_t i = 0; i < offsets.size(); ++i)
        frames.set(order[at + i], symbols[i], files.all()[module].path);
    }
    at = end;
  }
  tell(order.size(), order.size());

  // Callers stand before whom they call.
  std::vector<std::uint32_t> ends(raw_stacks_.size());
  for (std::size_t i = 0; i < raw_stacks_.size(); ++i) {
    std::uint32_t stack = raw_stacks_[i].caller == profile_stack::none
                              ? profile_stack::none
                              : ends[raw_stacks_[i].caller];
    const auto& of_place = frames.of(raw_stacks_[i].place);
    for (auto frame = of_place.rbegin(); frame != of_place.rend(); ++frame) {
      into.stacks.push_back({.frame = *frame, .caller = stack});
      stack = static_cast<std::uint32_t>(into.stacks.size() - 1);
    }
    ends[i] = stack;
  }
  for (const raw_sample& s : samples_) {
    const std::uint64_t since = s.time > start ? s.time - start : 0;
    into.samples.push_back({.at = std::chrono::nanoseconds(since),
                            .thread = s.thread,
                            .stack = ends[s.stack],
                            .does = activity::computes});
  }
  classify_samples(into);
}

} // namespace farcall::tool
