// SPDX-License-Identifier: Apache-2.0
#include "flame_graph.hpp"

#include "flame_graph_page.hpp"
#include "text.hpp"

#include <tools/common/table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

namespace farcall::tool {

namespace {

constexpr double picture_width = 1200;
constexpr double thinnest = 0.1;
constexpr std::size_t row_height = 17;
constexpr std::size_t header_height = 56;
constexpr std::size_t golden_angle = 137; // degrees
constexpr double letter_width = 7.3;      // pixels, in 12 px monospace

std::string module_style(const std::vector<std::string>& modules) {
  std::string light = ".none rect { fill: #d0d0d0; }\n";
  std::string dark = ".none rect { fill: #4a4a4a; }\n";
  for (std::size_t i = 0; i < modules.size(); ++i) {
    // Multiples of the golden angle give neighbouring modules very different hues.
    const std::size_t hue = i * golden_angle % 360;
    light += fmt::format(".m{0} rect, .key.m{0} {{ fill: hsl({1}, 70%, 72%); }}\n", i, hue);
    dark += fmt::format(".m{0} rect, .key.m{0} {{ fill: hsl({1}, 45%, 32%); }}\n", i, hue);
  }
  return light + "@media (prefers-color-scheme: dark) {\n" + dark + "}\n";
}

/// Returns as much of a name's beginning as fits into the space. Returns an empty text if hardly a
/// letter fits.
std::string label_of(const std::string& name, double space) {
  const double letters = (space - 6) / letter_width;
  if (letters < 3) return {};
  const auto most = static_cast<std::size_t>(letters);
  if (display_width(name) <= most) return name;
  std::size_t end = 0;
  for (std::size_t column = 0; end < name.size(); ++end) {
    const bool begins = (static_cast<unsigned char>(name[end]) & 0xC0U) != 0x80U;
    if (begins && ++column == most) break;
  }
  return name.substr(0, end) + "…";
}

/// Returns the legend of the colours, with as many modules as fit into a line.
std::string legend_of(const std::vector<std::string>& modules, std::size_t y) {
  std::string line;
  double left = picture_width - 12 * letter_width;
  std::size_t shown = 0;
  for (; shown < modules.size(); ++shown) {
    const std::string name = valid_text(base_name(modules[shown]));
    left -= static_cast<double>(display_width(name) + 4) * letter_width;
    if (left < 0) break;
    line += fmt::format(R"(<tspan class="key m{}">■</tspan> {}  )", shown, xml_text(name));
  }
  if (shown < modules.size()) line += fmt::format("and {} more", modules.size() - shown);
  if (line.empty()) return {};
  return fmt::format("<text class=\"legend\" x=\"6\" y=\"{}\">{}</text>\n", y, line);
}

struct frames_drawn {
  std::string elements;
  std::size_t left_out = 0;
  std::size_t levels = 0;
};

void draw_frame(std::string& out, const call_tree& tree, const call_node& node,
                std::uint64_t first_sample) {
  const std::uint64_t all = tree.nodes[0].total;
  const double per_sample = picture_width / static_cast<double>(all);
  const double x = static_cast<double>(first_sample) * per_sample;
  const double space = static_cast<double>(node.total) * per_sample;
  const std::size_t y = header_height + node.depth * row_height;
  const bool has_module = node.module != call_node::no_module;
  const auto to = std::back_inserter(out);
  fmt::format_to(to, R"(<g class="frame {}" data-s="{}" data-n="{}" data-y="{}"><title>{})",
                 has_module ? fmt::format("m{}", node.module) : "none", first_sample, node.total, y,
                 xml_text(node.name));
  if (has_module) out += '\n' + xml_text(tree.modules[node.module]);
  fmt::format_to(to, "\n{} samples, {} %; {} of its own</title>", node.total,
                 percent(node.total, all), node.self);
  fmt::format_to(to, R"(<rect x="{:.2f}" y="{}" width="{:.2f}" height="{}" rx="1"/>)", x, y, space,
                 row_height - 1);
  if (const std::string label = label_of(node.name, space); !label.empty())
    fmt::format_to(to, R"(<text x="{:.2f}" y="{}">{}</text>)", x + 3, y + 13, xml_text(label));
  out += "</g>\n";
}

frames_drawn draw(const call_tree& tree) {
  frames_drawn drawn;
  const std::uint64_t all = tree.nodes[0].total;
  if (all == 0) return drawn;
  draw_frame(drawn.elements, tree, tree.nodes[0], 0);
  // For each level, the horizontal position at which the next frame is drawn, counted in samples.
  // The callees of a function are drawn from its left edge, so the function's own samples remain at
  // the right.
  std::vector<std::uint64_t> next{0, 0};
  for (const std::uint32_t number : depth_first(tree)) {
    const call_node& node = tree.nodes[number];
    const std::uint64_t start = next[node.depth];
    next.resize(node.depth + 1U);
    next[node.depth] = start + node.total;
    next.push_back(start);
    if (node.total == 0) continue;
    if (static_cast<double>(node.total) * picture_width < thinnest * static_cast<double>(all)) {
      ++drawn.left_out;
      continue;
    }
    drawn.levels = std::max<std::size_t>(drawn.levels, node.depth);
    draw_frame(drawn.elements, tree, node, start);
  }
  return drawn;
}

} // namespace

std::string flame_graph(const profile& seen, const flame_graph_options& options) {
  const call_tree tree = make_call_tree(seen, options.tree);
  const std::uint64_t all = tree.nodes[0].total;
  const frames_drawn drawn = draw(tree);
  const std::size_t frames_end = header_height + (drawn.levels + 1) * row_height;
  const std::size_t height = frames_end + 10 + (tree.modules.empty() ? 0 : row_height);
  std::string note = fmt::format("{} samples", all);
  if (options.tree.only_computing) note += " of threads that computed";
  if (seen.samples_per_second > 0)
    note += fmt::format(", {} per second and thread", format_number(seen.samples_per_second));
  if (seen.lost > 0) note += fmt::format("; the kernel dropped {} more", seen.lost);
  if (drawn.left_out > 0)
    note += fmt::format("; {} frames are too thin to be drawn", drawn.left_out);
  const std::string& title = options.title.empty() ? seen.command : options.title;

  std::string svg = R"(<?xml version="1.0" encoding="UTF-8"?>)"
                    "\n";
  const auto to = std::back_inserter(svg);
  fmt::format_to(to,
                 R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1}" )"
                 R"(viewBox="0 0 {0:.0f} {1}" data-width="{0:.0f}" data-samples="{2}">)"
                 "\n",
                 picture_width, height, all);
  svg +=
      "<style>" + std::string(flame_graph_page::style) + module_style(tree.modules) + "</style>\n";
  fmt::format_to(to, R"(<text class="title" x="6" y="22">{}</text>)", xml_text(title));
  fmt::format_to(to,
                 "\n"
                 R"(<text class="note" x="6" y="42">{}</text>)",
                 note);
  fmt::format_to(to,
                 "\n"
                 R"(<text class="note" id="matched" x="{:.0f}" y="48" text-anchor="end"/>)",
                 picture_width - 6);
  svg += '\n' + drawn.elements;
  svg += legend_of(tree.modules, frames_end + row_height);
  svg += "<script><![CDATA[" + std::string(flame_graph_page::script) + "]]></script>\n</svg>\n";
  return svg;
}

} // namespace farcall::tool
