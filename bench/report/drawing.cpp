#include "drawing.hpp"
#include "markup.hpp"

#include <farcall/base/text.hpp>
#include <tools/common/table.hpp>

#include <array>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

constexpr double mark_radius = 4;

/// Colours that those who see few can tell apart, too (Okabe and Ito), darker for white paper and
/// lighter for black.
constexpr std::array<const char*, series_looks> on_light{
    "#0072b2", "#c04a00", "#00805c", "#a8447f", "#7a6300", "#3a8fc4", "#5b3fa6", "#555555"};
constexpr std::array<const char*, series_looks> on_dark{"#5ab4f0", "#ff9b52", "#3ed6a6", "#f2a3cf",
                                                        "#e8d44d", "#a9dcff", "#bba6f7", "#c8c8c8"};
/// Different lines, too, for those who see no colours.
constexpr std::array<const char*, series_looks> dashes{"none", "8 4", "2 3", "10 3 2 3",
                                                       "14 4", "5 2", "1 4", "10 3 2 3 2 3"};

struct palette {
  const char* paper;
  const char* text;
  const char* muted;
  const char* grid;
  const char* floor;
  const std::array<const char*, series_looks>& series;
};
constexpr palette light{"#ffffff", "#1b1f24", "#5b6470", "#e4e7eb", "#6b7280", on_light};
constexpr palette dark{"#12161b", "#e8ebef", "#a4adb8", "#2b323b", "#9aa4b1", on_dark};

std::string colours(const palette& p) {
  std::string css =
      fmt::format(".bg{{fill:{0}}}.tx,.ti,.la{{fill:{1}}}.la,.fla{{stroke:{0}}}.mu{{fill:{2}}}"
                  ".gr{{stroke:{3}}}.ax{{stroke:{2}}}.fl{{stroke:{4}}}.ff,.fla{{fill:{4}}}\n",
                  p.paper, p.text, p.muted, p.grid, p.floor);
  for (std::size_t i = 0; i < series_looks; ++i)
    css += fmt::format(".l{0}{{stroke:{1}}}.f{0}{{fill:{1};stroke:{2}}}", i, p.series[i], p.paper);
  return css + '\n';
}

std::string points_text(const std::vector<xy>& places) {
  std::string out;
  for (const xy& p : places)
    out += fmt::format("{}{},{}", out.empty() ? "" : " ", coordinate(p.x), coordinate(p.y));
  return out;
}

const char* anchor_text(anchor where) {
  switch (where) {
  case anchor::start:
    return "start";
  case anchor::middle:
    return "middle";
  default:
    return "end";
  }
}

} // namespace

void drawing::line(xy from, xy to, std::string_view look) {
  out_ +=
      fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" class=\"{}\"/>\n",
                  coordinate(from.x), coordinate(from.y), coordinate(to.x), coordinate(to.y), look);
}

void drawing::rectangle(xy corner, double width, double height, std::string_view look) {
  out_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" class=\"{}\"/>\n",
                      coordinate(corner.x), coordinate(corner.y), coordinate(width),
                      coordinate(height), look);
}

void drawing::path(const std::vector<xy>& through, std::string_view look) {
  if (through.size() < 2) return;
  out_ += fmt::format("<polyline points=\"{}\" class=\"{}\"/>\n", points_text(through), look);
}

void drawing::area(const std::vector<xy>& around, std::string_view look) {
  if (around.size() < 3) return;
  out_ += fmt::format("<polygon points=\"{}\" class=\"{}\"/>\n", points_text(around), look);
}

void drawing::text(xy at, anchor where, std::string_view look, std::string_view words) {
  out_ +=
      fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n",
                  coordinate(at.x), coordinate(at.y), anchor_text(where), look, xml_text(words));
}

void drawing::upright_text(xy at, std::string_view look, std::string_view words) {
  out_ += fmt::format("<text transform=\"translate({} {}) rotate(-90)\" text-anchor=\"middle\" "
                      "class=\"{}\">{}</text>\n",
                      coordinate(at.x), coordinate(at.y), look, xml_text(words));
}

void drawing::mark(xy at, std::size_t series) {
  const std::string look = fmt::format("f{} mk", series % series_looks);
  const double r = mark_radius;
  const auto around = [&](std::vector<xy> corners) {
    for (xy& corner : corners)
      corner = {at.x + corner.x * r, at.y + corner.y * r};
    area(corners, look);
  };
  switch (series % 6) {
  case 0:
    out_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" class=\"{}\"/>\n", coordinate(at.x),
                        coordinate(at.y), coordinate(r), look);
    return;
  case 1:
    rectangle({at.x - r, at.y - r}, 2 * r, 2 * r, look);
    return;
  case 2:
    around({{0, -1.25}, {1.2, 0.9}, {-1.2, 0.9}});
    return;
  case 3:
    around({{0, -1.35}, {1.35, 0}, {0, 1.35}, {-1.35, 0}});
    return;
  case 4:
    around({{0, 1.25}, {1.2, -0.9}, {-1.2, -0.9}});
    return;
  default:
    around({{-0.4, -1.2},
            {0.4, -1.2},
            {0.4, -0.4},
            {1.2, -0.4},
            {1.2, 0.4},
            {0.4, 0.4},
            {0.4, 1.2},
            {-0.4, 1.2},
            {-0.4, 0.4},
            {-1.2, 0.4},
            {-1.2, -0.4},
            {-0.4, -0.4}});
  }
}

void drawing::begin_group(std::string_view title) {
  out_ += fmt::format("<g><title>{}</title>\n", xml_text(title, line_ends::kept));
}

double text_width(std::string_view text, double size) {
  // Letters of the widest of the usual fonts without serifs are less wide on average.
  return 0.57 * size * static_cast<double>(display_width(text));
}

std::string shortened(std::string_view text, double width, double size) {
  constexpr double slack = 0.01; // of sums that are the same number
  if (text_width(text, size) <= width + slack) return std::string(text);
  constexpr std::string_view ellipsis = "…";
  while (!text.empty() && text_width(text, size) + text_width(ellipsis, size) > width) {
    while (text.size() > 1 && (static_cast<unsigned char>(text.back()) & 0xC0U) == 0x80U)
      text.remove_suffix(1);
    text.remove_suffix(1);
  }
  return std::string(text).append(ellipsis);
}

std::string line_look(std::size_t series) { return fmt::format("l{} ln", series % series_looks); }

std::string chart_style() {
  std::string css =
      "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;"
      "font-size:13px}\n"
      ".ti{font-size:18px;font-weight:600}.mu{font-size:12px}.mk{stroke-width:1}\n"
      ".la,.fla{font-size:11.5px;paint-order:stroke;stroke-width:3px;stroke-linejoin:round;"
      "font-variant-numeric:tabular-nums}.fla{font-weight:600}\n"
      ".gr,.ax{stroke-width:1}.ln,.er,.fl{fill:none}.ln{stroke-width:2;stroke-linejoin:round}\n"
      ".er{stroke-width:1.5;stroke-opacity:.6}.fl{stroke-width:2;stroke-dasharray:6 4}\n"
      ".ft{stroke-width:3;stroke-dasharray:none}.fb{stroke:none;fill-opacity:.1}"
      ".ov{stroke:none;fill-opacity:.22}\n";
  for (std::size_t i = 0; i < series_looks; ++i)
    css += fmt::format(".l{}.ln{{stroke-dasharray:{}}}", i, dashes[i]);
  return css + '\n' + colours(light) + "@media (prefers-color-scheme:dark){\n" + colours(dark) +
         "}\n";
}

} // namespace farcall::tool
