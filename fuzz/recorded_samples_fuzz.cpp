// SPDX-License-Identifier: Apache-2.0

// Reads arbitrary bytes as the parts that servers' samplers send to `farcall prof`: gives samples
// whose references are all valid, or an error.

#include "../tools/profile/call_tree.hpp"
#include "../tools/profile/check.hpp"
#include "../tools/profile/server_sampler.hpp"

#include <farcall/base/error.hpp>
#include <farcall/call/pack.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace {

using namespace farcall;
using namespace farcall::tool;

struct told_by_sampler {
  std::vector<server_sampler::recorded_part> parts; ///< the last part has all threads
  std::vector<symbol> symbols;                      ///< for any places
};

told_by_sampler read(const std::uint8_t* data, std::size_t size) {
  // Aligned like messages.
  std::vector<std::byte> bytes(size + body_alignment);
  const auto at = reinterpret_cast<std::uintptr_t>(bytes.data()) % body_alignment;
  std::byte* const aligned = bytes.data() + (body_alignment - at) % body_alignment;
  if (size != 0) std::memcpy(aligned, data, size);
  reader r(aligned, size);
  told_by_sampler told;
  told.parts = r.read<std::vector<server_sampler::recorded_part>>();
  told.symbols = r.read<std::vector<symbol>>();
  // Places without frames are shown by their addresses.
  std::erase_if(told.symbols, [](const symbol& s) { return s.frames.empty(); });
  return told;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  recorded_samples all;
  std::vector<server_sampler::code_file> files;
  told_by_sampler told;
  try {
    told = read(data, size);
  } catch (const malformed_message&) {
    return 0;
  }
  for (server_sampler::recorded_part& part : told.parts) {
    files.insert(files.end(), part.files.begin(), part.files.end());
    const bool is_last = &part == &told.parts.back();
    if (!append(all, std::move(part.samples),
                is_last ? tool::told::all_threads : tool::told::new_threads, files.size()))
      break;
  }
  const symbol_source names{.path = [&](std::uint32_t file) { return files.at(file).path; },
                            .symbols =
                                [&](std::uint32_t file, std::span<const std::uint64_t> offsets) {
                                  (void)files.at(file);
                                  std::vector<symbol> found;
                                  for (std::size_t i = 0; i < offsets.size(); ++i) {
                                    found.push_back(told.symbols.empty()
                                                        ? symbol{offsets[i], {{"f", "f.cpp", 1}}}
                                                        : told.symbols[i % told.symbols.size()]);
                                  }
                                  return found;
                                }};
  profile seen;
  add_samples(all, names, 0, [](std::size_t, std::size_t) {}, seen);
  // Throws if a reference is invalid.
  check(seen);
  (void)make_call_tree(seen, {});
  return 0;
}
