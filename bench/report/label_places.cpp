#include "label_places.hpp"

#include <algorithm>
#include <array>

namespace farcall::tool {

std::optional<box> label_places::place(std::span<const box> candidates, bool may_lie_on_lines) {
  const auto free = std::ranges::find_if(
      candidates, [&](const box& wanted) { return is_free(wanted, may_lie_on_lines); });
  if (free == candidates.end()) return std::nullopt;
  taken_.push_back(*free);
  return *free;
}

bool label_places::is_free(const box& wanted, bool may_lie_on_lines) const {
  if (wanted.left < area_.left || wanted.right > area_.right || wanted.top < area_.top ||
      wanted.bottom > area_.bottom)
    return false;
  const bool is_taken = std::ranges::any_of(taken_, [&](const box& b) {
    return wanted.left < b.right && b.left < wanted.right && wanted.top < b.bottom &&
           b.top < wanted.bottom;
  });
  if (is_taken) return false;
  return may_lie_on_lines ||
         std::ranges::none_of(lines_, [&](const segment& s) { return crosses(s, wanted); });
}

/// Clips the line at each side of the rectangle; what is left of it is inside.
bool label_places::crosses(const segment& line, const box& area) {
  const double dx = line.x2 - line.x1;
  const double dy = line.y2 - line.y1;
  double first = 0;
  double last = 1;
  const std::array<std::array<double, 2>, 4> sides{{{-dx, line.x1 - area.left},
                                                    {dx, area.right - line.x1},
                                                    {-dy, line.y1 - area.top},
                                                    {dy, area.bottom - line.y1}}};
  for (const auto& [direction, distance] : sides) {
    if (direction == 0) {
      if (distance < 0) return false;
      continue;
    }
    const double at = distance / direction;
    if (direction < 0) first = std::max(first, at);
    if (direction > 0) last = std::min(last, at);
  }
  return first <= last;
}

} // namespace farcall::tool
