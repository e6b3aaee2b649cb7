#pragma once

#include <optional>
#include <span>
#include <vector>

namespace farcall::tool {

/// A rectangle of a picture, whose y grows downwards.
struct box {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
};

/// Finds places for labels where they hide neither each other nor what else is drawn.
class label_places {
 public:
  explicit label_places(box area) : area_(area) {}

  /// Labels keep away from this rectangle.
  void block(box taken) { taken_.push_back(taken); }
  /// Labels keep away from this line, unless they may lie on lines.
  void block_line(double x1, double y1, double x2, double y2) {
    lines_.push_back({x1, y1, x2, y2});
  }

  /// The first of these that is free and within the area; it is taken from then on.
  std::optional<box> place(std::span<const box> candidates, bool may_lie_on_lines);

 private:
  struct segment {
    double x1, y1, x2, y2;
  };
  [[nodiscard]] bool is_free(const box& wanted, bool may_lie_on_lines) const;
  [[nodiscard]] static bool crosses(const segment& line, const box& area);

  box area_;
  std::vector<box> taken_;
  std::vector<segment> lines_;
};

} // namespace farcall::tool
