// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/settings.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <algorithm>

namespace farcall {
namespace {

constexpr std::uint64_t max_cpus = 4096;

} // namespace

url_option cpu_option() {
  return {"cpu", "number of the processor to run on", 0, max_cpus, 1, "", ""};
}

url_option program_option() { return {"program", "path of the program to run", 0, 0, 1, "", ""}; }

url_option count_option() { return {"count", "number of such targets", 1, max_targets, 1, "", ""}; }

std::uint64_t read_count(std::string_view place, const std::string& what, target_url& /*url*/) {
  const auto colon = place.find(':');
  if (colon == std::string_view::npos) return 1;
  return parse_number(place.substr(colon + 1), "the number of targets in " + what, 1, max_targets);
}

const transport_entry* find_transport(std::span<const transport_entry> rows,
                                      std::string_view scheme) noexcept {
  const auto at =
      std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.scheme == scheme; });
  return at == rows.end() ? nullptr : &*at;
}

} // namespace farcall
