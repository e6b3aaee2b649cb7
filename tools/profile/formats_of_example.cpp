// SPDX-License-Identifier: Apache-2.0

// Writes profiles in all formats into a folder, for third-party readers: the example, an empty one,
// and random ones. PREFIX.samples beside each has its number of samples.

#include "collapsed_stacks.hpp"
#include "example_profile.hpp"
#include "firefox_profile.hpp"
#include "flame_graph.hpp"
#include "gzip.hpp"
#include "pprof.hpp"
#include "profile_page.hpp"
#include "speedscope.hpp"
#include "text.hpp"
#include "veprof.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>

#include <cerrno>
#include <exception>
#include <memory>
#include <random>

namespace farcall::tool {
namespace {

void write_example(const std::string& path, const std::string& text) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"),
                                                             std::fclose);
  if (!file) throw failed_run("cannot make " + path + ": " + reason_text(errno));
  write_text(file.get(), text, path);
}

/// Returns a profile with names of arbitrary bytes and stacks of arbitrary shape; deterministic for
/// a seed.
profile random_profile(unsigned seed) {
  std::mt19937 bits(seed);
  const auto below = [&](std::size_t limit) { return static_cast<std::uint32_t>(bits() % limit); };
  const auto word = [&](std::size_t longest) {
    std::string text;
    for (std::size_t left = below(longest + 1); left > 0; --left)
      text += static_cast<char>(below(256));
    return text;
  };
  profile seen;
  seen.command = word(20);
  seen.samples_per_second = below(4) == 0 ? 0 : 100.0 * (1 + below(20));
  for (std::uint32_t i = 0; i < 40; ++i) {
    seen.frames.push_back({.function = word(12),
                           .module = below(4) == 0 ? "" : "/lib/" + std::to_string(below(5)),
                           .file = word(5),
                           .line = below(100),
                           .address = bits() * std::uint64_t{bits()},
                           .is_inlined = below(3) == 0});
  }
  for (std::uint32_t i = 0; i < 200; ++i)
    seen.stacks.push_back({below(40), i == 0 || below(6) == 0 ? profile_stack::none : below(i)});
  for (std::int32_t i = 0; i < 5; ++i) {
    seen.threads.push_back({.process = i / 2,
                            .thread = i,
                            .node = below(3) == 0 ? no_node : below(9),
                            .name = word(9),
                            .program = word(9),
                            .is_main = i % 2 == 0});
  }
  std::chrono::nanoseconds at{0};
  for (std::uint32_t left = 500 + below(500); left > 0; --left) {
    at += std::chrono::microseconds(below(5000));
    seen.samples.push_back({at, below(5), below(200), static_cast<activity>(below(3))});
  }
  seen.duration = at;
  return seen;
}

void write_all(const std::string& folder, const std::string& prefix, const profile& seen) {
  const std::string start = folder + '/' + prefix;
  write_example(start + ".samples", std::to_string(seen.samples.size()));
  write_example(start + ".collapsed", collapsed_stacks(seen));
  write_example(start + ".svg", flame_graph(seen));
  write_example(start + ".html",
                profile_page(seen, call_tree_options::roots::functions, {"A note."}));
  write_example(start + ".speedscope.json", speedscope_json(seen));
  write_example(start + ".firefox.json", firefox_profile_json(seen));
  write_example(start + ".pb.gz", gzip_compressed(pprof_protobuf(seen)));
  write_example(start + ".veprof", veprof_text(seen, "host"));
}

} // namespace
} // namespace farcall::tool

int main(int argc, char** argv) {
  using namespace farcall::tool;
  if (argc != 2) {
    std::fputs("usage: farcall-profile-formats FOLDER\n", stderr);
    return 2;
  }
  try {
    write_all(argv[1], "example", example_profile());
    write_all(argv[1], "farcall", profile_with_farcall());
    write_all(argv[1], "empty", profile{});
    for (unsigned seed = 1; seed <= 10; ++seed)
      write_all(argv[1], "random" + std::to_string(seed), random_profile(seed));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "farcall-profile-formats: %s\n", error.what());
    return 1;
  }
}
