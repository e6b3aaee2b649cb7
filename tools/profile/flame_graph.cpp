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

/// Width in pixels for which labels are made. Scripts of the picture make them again for the width
/// of the window.
constexpr double usual_width = 1200;
constexpr double thinnest = 0.1;
constexpr std::size_t row_height = 18;
constexpr std::size_t header_height = 104;
constexpr double letter_width = 7.3; // pixels, in 12 px monospace

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

std::string_view class_of(const call_node& node) {
  if (node.is_waiting) return "w";
  if (!node.kind) return "n";
  switch (*node.kind) {
  case code_kind::program:
    return "p";
  case code_kind::library:
    return "l";
  case code_kind::farcall:
    return "f";
  }
  return "n";
}

struct frames_drawn {
  std::string elements;
  std::size_t left_out = 0;
  std::size_t levels = 0;

  [[nodiscard]] std::size_t height(std::size_t top) const {
    return top + (levels + 1) * row_height + 6;
  }
};

class frame_writer {
 public:
  frame_writer(const call_tree& tree, std::size_t top) : tree_(tree), top_(top) {}

  frames_drawn draw() {
    frames_drawn drawn;
    const std::uint64_t all = tree_.nodes[0].total;
    if (all == 0) return drawn;
    draw_frame(drawn.elements, tree_.nodes[0], 0);
    // For each level, the horizontal position at which the next frame is drawn, counted in samples.
    // The callees of a function are drawn from its left edge, so the function's own samples remain
    // at the right.
    std::vector<std::uint64_t> next{0, 0};
    for (const std::uint32_t number : depth_first(tree_)) {
      const call_node& node = tree_.nodes[number];
      const std::uint64_t start = next[node.depth];
      next.resize(node.depth + 1U);
      next[node.depth] = start + node.total;
      next.push_back(start);
      if (node.total == 0) continue;
      if (static_cast<double>(node.total) * usual_width < thinnest * static_cast<double>(all)) {
        ++drawn.left_out;
        continue;
      }
      drawn.levels = std::max<std::size_t>(drawn.levels, node.depth);
      draw_frame(drawn.elements, node, start);
    }
    return drawn;
  }

 private:
  void draw_frame(std::string& out, const call_node& node, std::uint64_t first_sample) const {
    const std::uint64_t all = tree_.nodes[0].total;
    const auto share = [&](std::uint64_t samples) {
      return 100 * static_cast<double>(samples) / static_cast<double>(all);
    };
    const std::size_t y = top_ + node.depth * row_height;
    const auto to = std::back_inserter(out);
    fmt::format_to(to, R"(<g class="frame {}" data-s="{}" data-n="{}" data-y="{}"><title>{})",
                   class_of(node), first_sample, node.total, y, xml_text(node.name));
    if (node.module != call_node::no_module) out += '\n' + xml_text(tree_.modules[node.module]);
    fmt::format_to(to, "\n{} samples, {} %; {} of its own</title>", node.total,
                   percent(node.total, all), node.self);
    fmt::format_to(to, R"(<rect x="{:.4f}%" y="{}" width="{:.4f}%" height="{}" rx="2"/>)",
                   share(first_sample), y, share(node.total), row_height - 1);
    const double space = share(node.total) * usual_width / 100;
    if (const std::string label = label_of(node.name, space); !label.empty()) {
      fmt::format_to(to, R"(<text x="{:.4f}%" dx="4" y="{}">{}</text>)", share(first_sample),
                     y + 13, xml_text(label));
    }
    out += "</g>\n";
  }

  const call_tree& tree_;
  std::size_t top_;
};

std::uint64_t computing_samples(const call_tree& tree) {
  std::uint64_t waiting = 0;
  for (const std::uint32_t child : tree.nodes[0].children) {
    if (tree.nodes[child].is_waiting) waiting += tree.nodes[child].total;
  }
  return tree.nodes[0].total - waiting;
}

std::string note_on(const profile& seen, std::uint64_t samples, std::size_t left_out) {
  std::string note = fmt::format("{} samples", samples);
  if (seen.samples_per_second > 0)
    note += fmt::format(", {} per second and thread", format_number(seen.samples_per_second));
  if (seen.lost > 0) note += fmt::format("; the kernel dropped {} more", seen.lost);
  if (left_out > 0) note += fmt::format("; {} frames are too thin to be drawn", left_out);
  return note;
}

/// Returns the title, the note, the legend of the colours, and the place of the search result.
std::string header_of(const std::string& title, const std::string& note) {
  std::string out = fmt::format("<text class=\"title\" x=\"8\" y=\"24\">{}</text>\n"
                                "<text class=\"note\" x=\"8\" y=\"43\">{}</text>\n"
                                "<text class=\"note\" x=\"8\" y=\"62\">",
                                xml_text(title), note);
  for (const auto& [name, text] : flame_graph_page::legend)
    out += fmt::format(R"(<tspan class="key {}">■</tspan> {} <tspan> </tspan>)", name, text);
  return out + "</text>\n";
}

std::string graph_of(const frames_drawn& drawn, std::size_t top, bool is_hidden) {
  return fmt::format("<g class=\"graph{}\" data-height=\"{}\">\n{}</g>\n", is_hidden ? " gone" : "",
                     drawn.height(top), drawn.elements);
}

} // namespace

std::string flame_graph(const profile& seen, const flame_graph_options& options) {
  const std::size_t top = options.is_part_of_page ? 0 : header_height;
  call_tree_options how{.root = options.root, .has_activities = true, .folds_farcall = true};
  const call_tree folded = make_call_tree(seen, how);
  how.folds_farcall = false;
  const call_tree whole = make_call_tree(seen, how);
  const bool has_folded = std::any_of(whole.nodes.begin(), whole.nodes.end(),
                                      [](const auto& n) { return n.kind == code_kind::farcall; });
  const std::uint64_t all = folded.nodes[0].total;
  const frames_drawn first = frame_writer(folded, top).draw();
  const std::string& title = options.title.empty() ? seen.command : options.title;

  std::string svg = options.is_part_of_page ? "" : "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  fmt::format_to(std::back_inserter(svg),
                 R"(<svg class="flames" xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" )"
                 R"(height="{1}" viewBox="0 0 {0:.0f} {1}" data-samples="{2}" )"
                 R"(data-computing="{3}">)"
                 "\n",
                 usual_width, first.height(top), all, computing_samples(folded));
  svg += "<style>" + std::string(flame_graph_page::style) + "</style>\n";
  if (!options.is_part_of_page) svg += header_of(title, note_on(seen, all, first.left_out));
  svg += graph_of(first, top, false);
  if (has_folded) svg += graph_of(frame_writer(whole, top).draw(), top, true);
  svg += "<script><![CDATA[" + std::string(flame_graph_page::script) + "]]></script>\n</svg>\n";
  return svg;
}

} // namespace farcall::tool
