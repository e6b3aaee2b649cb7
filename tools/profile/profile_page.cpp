// SPDX-License-Identifier: Apache-2.0
#include "profile_page.hpp"

#include "code_kind.hpp"
#include "flame_graph.hpp"
#include "flame_graph_page.hpp"
#include "function_table.hpp"
#include "text.hpp"

#include <tools/common/table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

namespace farcall::tool {

namespace {

constexpr std::size_t most_rows = 100;

constexpr std::string_view page_style =
    R"(:root{color-scheme:light dark;--paper:#ffffff;--text:#1b1f24;
--muted:#5b6470;--line:#d5dae0;--program:#f5b27a;--libraries:#a9cbe8;--farcall:#9fd8c2;
--waiting:#dcdfe4;--idle:#eceef1}
@media (prefers-color-scheme:dark){:root{--paper:#12161b;--text:#e8ebef;--muted:#a4adb8;--line:#2b323b;
--program:#8a4a15;--libraries:#27506f;--farcall:#1d5a46;--waiting:#363d46;--idle:#252b33}}
body{margin:0;padding:20px 24px 48px;line-height:1.45;background:var(--paper);color:var(--text);
font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}
h1{font-size:1.5rem;margin:0 0 .2rem;overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:2rem 0 .5rem}
p{margin:.25rem 0 .75rem}.muted{color:var(--muted)}
.bar{display:flex;height:26px;border-radius:5px;overflow:hidden;margin:1rem 0 .5rem}
.bar i{display:block;min-width:0}.bar.small{height:10px;margin:0;border-radius:3px;min-width:220px}
.i1{background:var(--program)}.i2{background:var(--libraries)}.i3{background:var(--farcall)}
.i4{background:var(--waiting)}.i5{background:var(--idle)}
.legend{display:flex;flex-wrap:wrap;gap:4px 22px;margin:0;padding:0;list-style:none}
.dot{display:inline-block;width:.75em;height:.75em;border-radius:2px;margin-right:.45em}
.controls{margin:0 0 8px}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .9rem .25rem 0;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th{font-weight:600;color:var(--muted)}
th.t,td.t{text-align:left}td.name{white-space:normal;overflow-wrap:anywhere;min-width:14em;padding-left:1.2em;text-indent:-1.2em}
#own:not(:checked)~.wide .i3row{display:none}
@media (max-width:600px){body{padding:14px 12px 32px}}
)";

/// Number of samples of each colour: program, libraries, farcall, waiting, idle.
using shares = std::array<std::uint64_t, 5>;
constexpr std::array<std::string_view, 5> share_names = {"program", "libraries", "farcall",
                                                         "waiting", "idle"};

/// Colours of the functions of a profile, by name and module.
class function_colours {
 public:
  explicit function_colours(const profile& seen) {
    const code_kinds kinds(seen);
    for (const profile_frame& frame : seen.frames) {
      const code_kind kind = kinds.kind_of(frame);
      const auto [at, is_new] =
          kinds_.try_emplace({name_of(frame), valid_text(frame.module)}, kind);
      // An inlined function of another origin may have the name of a function of the program.
      if (!is_new) at->second = std::min(at->second, kind);
    }
  }

  [[nodiscard]] std::size_t of(const function_row& row) const {
    const auto at = kinds_.find({row.function, row.module});
    return static_cast<std::size_t>(at == kinds_.end() ? code_kind::library : at->second);
  }

 private:
  std::map<std::pair<std::string, std::string>, code_kind> kinds_;
};

shares shares_of(const function_group& group, const function_colours& colours) {
  shares sums{};
  for (const function_row& row : group.rows)
    sums.at(colours.of(row)) += row.self;
  sums[3] = group.waiting;
  sums[4] = group.idle;
  return sums;
}

std::string bar_of(const shares& sums, std::uint64_t all, std::string_view look) {
  std::string out = fmt::format("<div class=\"bar{}\">", look);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (sums[i] == 0) continue;
    const std::string share = percent(sums[i], all);
    out += fmt::format("<i class=\"i{}\" style=\"width:{}%\" title=\"{}: {} %\"></i>", i + 1, share,
                       share_names[i], share);
  }
  return out + "</div>\n";
}

std::string summary_of(const shares& sums, std::uint64_t all) {
  std::string out = bar_of(sums, all, "") + "<ul class=\"legend\">\n";
  for (std::size_t i = 0; i < sums.size(); ++i) {
    out += fmt::format("<li><span class=\"dot i{}\"></span>{} {} %</li>\n", i + 1, share_names[i],
                       percent(sums[i], all));
  }
  return out + "</ul>\n";
}

/// Returns a table of the processes, or an empty text if there is only one.
std::string processes_of(const profile& seen, const function_colours& colours) {
  const auto groups =
      function_groups(seen, {.group = function_table_options::per::node, .width = {}});
  if (groups.size() < 2) return {};
  std::string out =
      "<h2>Processes</h2>\n<div class=\"wide\"><table>\n<tr><th class=\"t\">process</th>"
      "<th>samples</th><th>computed</th><th>waited</th><th>idle</th><th></th></tr>\n";
  for (const function_group& g : groups) {
    out += fmt::format("<tr><td class=\"t\">{}</td><td>{}</td><td>{} %</td><td>{} %</td>"
                       "<td>{} %</td><td>{}</td></tr>\n",
                       xml_text(g.title), g.samples, percent(g.computing, g.samples),
                       percent(g.waiting, g.samples), percent(g.idle, g.samples),
                       bar_of(shares_of(g, colours), g.samples, " small"));
  }
  return out + "</table></div>\n";
}

std::string functions_of(const function_group& whole, const function_colours& colours) {
  std::string rows;
  bool has_own = false;
  std::size_t shown = 0;
  for (const function_row& row : whole.rows) {
    const std::size_t colour = colours.of(row) + 1;
    const bool is_own = colour == 3;
    // Rows of farcall do not count for the limit, because the page hides them at first.
    if (!is_own && ++shown > most_rows) break;
    has_own = has_own || is_own;
    fmt::format_to(std::back_inserter(rows),
                   "<tr class=\"i{0}row\"><td>{1}</td><td>{2} %</td><td>{3} %</td>"
                   "<td class=\"t name\"><span class=\"dot i{0}\"></span>{4}</td>"
                   "<td class=\"t\" title=\"{5}\">{6}</td></tr>\n",
                   colour, row.self, percent(row.self, whole.counted),
                   percent(row.total, whole.counted), xml_text(row.function), xml_text(row.module),
                   xml_text(base_name(row.module)));
  }
  std::string out = "<h2>Functions</h2>\n<p class=\"muted\">Samples of threads that computed. "
                    "<em>Self</em> counts samples in the function itself, <em>total</em> also "
                    "samples in functions that it called.</p>\n";
  if (has_own)
    out +=
        "<input type=\"checkbox\" id=\"own\"/> <label for=\"own\">functions of farcall</label>\n";
  return out +
         "<div class=\"wide\"><table>\n<tr><th>samples</th><th>self</th><th>total</th>"
         "<th class=\"t\">function</th><th class=\"t\">module</th></tr>\n" +
         rows + "</table></div>\n";
}

std::string notes_text(const std::vector<std::string>& notes) {
  if (notes.empty()) return {};
  std::string out = "<h2>Gaps of this profile</h2>\n<ul>\n";
  for (const std::string& note : notes)
    out += "<li>" + xml_text(note) + "</li>\n";
  return out + "</ul>\n";
}

} // namespace

std::string profile_page(const profile& seen, call_tree_options::roots root,
                         const std::vector<std::string>& notes) {
  const function_colours colours(seen);
  const auto groups = function_groups(seen, {});
  const function_group none;
  const function_group& whole = groups.empty() ? none : groups.front();
  const std::string title = xml_text(seen.command);
  std::string subtitle = fmt::format("{} samples in {:.4g} s", seen.samples.size(),
                                     std::chrono::duration<double>(seen.duration).count());
  if (seen.samples_per_second > 0)
    subtitle += fmt::format(", {} per second and thread", format_number(seen.samples_per_second));
  if (seen.lost > 0) subtitle += fmt::format("; the kernel dropped {} more", seen.lost);

  std::string page = R"(<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" lang="en"><head><meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; )"
                     R"(script-src 'unsafe-inline'; img-src data:"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<link rel="icon" href="data:,"/>)";
  page +=
      fmt::format("<title>{0}</title>\n<style>\n{1}</style></head>\n<body><header><h1>{0}</h1>\n"
                  "<p class=\"muted\">{2}</p></header>\n<main>\n",
                  title, page_style, subtitle);
  page += summary_of(shares_of(whole, colours), whole.samples);
  page += processes_of(seen, colours);
  page +=
      "<h2>Flame graph</h2>\n<p class=\"muted\">A frame is below its caller, and as wide as its "
      "share of the samples. A click zooms.</p>\n<div class=\"controls\"></div>";
  page += flame_graph(seen, {.root = root, .is_part_of_page = true});
  page += functions_of(whole, colours);
  page += notes_text(notes);
  return page + "</main></body>\n</html>\n";
}

} // namespace farcall::tool
