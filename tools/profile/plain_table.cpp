#include "plain_table.hpp"

#include <tools/common/table.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace farcall::tool {

void write_plain_table(std::FILE* to, const profile& p) {
  struct counts {
    std::size_t self = 0;
    std::size_t total = 0;
  };
  std::map<std::string, counts> functions;
  for (const profile_sample& s : p.samples) {
    std::set<std::string> seen;
    for (std::uint32_t at = s.stack; at != profile_stack::none; at = p.stacks[at].caller) {
      const std::string& name = p.frames[p.stacks[at].frame].function;
      if (at == s.stack) ++functions[name].self;
      if (seen.insert(name).second) ++functions[name].total;
    }
  }
  std::vector<std::pair<std::string, counts>> sorted(functions.begin(), functions.end());
  std::ranges::sort(sorted, std::greater{},
                    [](const auto& f) { return std::pair(f.second.self, f.first); });
  table text({{"self"}, {"total"}, {"function", table::align::left}});
  const auto share = [&](std::size_t count) {
    return fmt::format("{:.1f} %",
                       100.0 * static_cast<double>(count) / static_cast<double>(p.samples.size()));
  };
  for (const auto& [name, count] : sorted) {
    if (count.self != 0) text.add_row({share(count.self), share(count.total), name});
  }
  fmt::print(to, "{}", text.text());
}

} // namespace farcall::tool
