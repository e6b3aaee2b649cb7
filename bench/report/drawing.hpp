#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::tool {

struct xy {
  double x = 0;
  double y = 0;
};

/// Where a text stands at its place.
enum class anchor { start, middle, end };

/// Shapes of SVG, one after the other. Their looks are classes of chart_style().
class drawing {
 public:
  void line(xy from, xy to, std::string_view look);
  void rectangle(xy corner, double width, double height, std::string_view look);
  /// Lines through all of them; nothing for less than two.
  void path(const std::vector<xy>& through, std::string_view look);
  void area(const std::vector<xy>& around, std::string_view look);
  void text(xy at, anchor where, std::string_view look, std::string_view words);
  /// From below upwards, centred.
  void upright_text(xy at, std::string_view look, std::string_view words);
  /// The mark of the series with that number: shape and colour.
  void mark(xy at, std::size_t series);

  /// What follows is a group that pointing devices and screen readers tell by `title`.
  void begin_group(std::string_view title);
  void end_group() { out_ += "</g>\n"; }

  [[nodiscard]] const std::string& markup() const { return out_; }

 private:
  std::string out_;
};

/// Sizes of letters that the looks have, and how wide a text becomes at most.
inline constexpr double text_size = 13;
inline constexpr double label_size = 11.5;
[[nodiscard]] double text_width(std::string_view text, double size = text_size);

/// The text, or its beginning with an ellipsis where it would be wider than that.
[[nodiscard]] std::string shortened(std::string_view text, double width, double size = text_size);

/// Looks of a series: "l0" for lines and "f0" for what is filled, in that many colours.
inline constexpr std::size_t series_looks = 8;
[[nodiscard]] std::string line_look(std::size_t series);

/// The style sheet of all charts, for light and for dark backgrounds.
[[nodiscard]] std::string chart_style();

} // namespace farcall::tool
