#include "page.hpp"
#include "chart.hpp"
#include "drawing.hpp"
#include "markup.hpp"

#include <farcall/base/text.hpp>
#include <tools/common/table.hpp>

#include <cmath>
#include <sstream>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

constexpr const char* svg_names = "xmlns=\"http://www.w3.org/2000/svg\"";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

std::string inline_chart(const chart& c, std::size_t number) {
  const drawn_chart drawn = draw(c);
  return fmt::format(
      "<svg {0} viewBox=\"0 0 {1} {2}\" role=\"img\" aria-labelledby=\"t{3} d{3}\">\n"
      "<title id=\"t{3}\">{4}</title>\n<desc id=\"d{3}\">{5}</desc>\n"
      "<rect width=\"{1}\" height=\"{2}\" class=\"bg\"/>\n{6}</svg>\n",
      svg_names, coordinate(chart_width), coordinate(drawn.height), number, xml_text(title_of(c)),
      xml_text(description_of(c)), drawn.markup);
}

std::string cell(const std::string& text, const char* kind = "td") {
  return fmt::format("<{0}>{1}</{0}>", kind, xml_text(text));
}

std::string spread_cells(unit counts, const summary& value, double floor) {
  return cell(value_text(counts, value.p1)) + cell(value_text(counts, value.p50)) +
         cell(value_text(counts, value.p99)) + cell(value_text(counts, floor)) +
         cell(format_ratio(overhead(counts, value.p50, floor)));
}

constexpr const char* spread_headers = "<th scope=\"col\">p1</th><th scope=\"col\">p50</th>"
                                       "<th scope=\"col\">p99</th><th scope=\"col\">floor</th>"
                                       "<th scope=\"col\">to floor</th>";

std::string rows_of_table(const line_chart& c) {
  std::string out = fmt::format("<thead><tr><th scope=\"col\">{}</th>{}</tr></thead>\n",
                                xml_text(c.x.title), spread_headers);
  for (const chart_series& s : c.series) {
    out += fmt::format("<tbody><tr><th scope=\"rowgroup\" colspan=\"6\">{}</th></tr>\n",
                       xml_text(s.name));
    for (const chart_point& p : s.points) {
      out += fmt::format("<tr><th scope=\"row\">{}</th>{}</tr>\n",
                         xml_text(tick_text(c.x.counts, p.x)),
                         spread_cells(c.y.counts, p.value, p.floor));
    }
    out += "</tbody>\n";
  }
  return out;
}

std::string rows_of_table(const row_chart& c) {
  std::string out = fmt::format("<thead><tr><th scope=\"col\">{}</th>{}<th scope=\"col\">remark"
                                "</th></tr></thead>\n<tbody>\n",
                                xml_text(c.x.title), spread_headers);
  for (const chart_row& r : c.rows) {
    out += fmt::format("<tr><th scope=\"row\">{}</th>{}{}</tr>\n", xml_text(r.what),
                       spread_cells(c.x.counts, r.value, r.floor.p50), cell(r.remark));
  }
  return out + "</tbody>\n";
}

std::string section(const chart& c, std::size_t number) {
  const std::string rows = std::visit([](const auto& one) { return rows_of_table(one); }, c);
  return fmt::format("<section>\n<h2 class=\"unseen\">{0}</h2>\n<figure>\n{1}</figure>\n<details>\n"
                     "<summary>All figures of this chart</summary>\n"
                     "<div class=\"wide\"><table>\n<caption>{0}</caption>\n{2}</table></div>\n"
                     "</details>\n</section>\n",
                     xml_text(title_of(c)), inline_chart(c, number), rows);
}

std::string list(const std::vector<std::string>& lines) {
  std::string out = "<ul>\n";
  for (const std::string& line : lines)
    out += fmt::format("<li>{}</li>\n", xml_text(line));
  return out + "</ul>\n";
}

constexpr const char* page_style =
    ":root{color-scheme:light dark}\n"
    "body{margin:0 auto;max-width:1040px;padding:24px 20px 48px;line-height:1.5;"
    "font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;"
    "background:#ffffff;color:#1b1f24}\n"
    "h1{font-size:1.7rem;margin:0 0 .25rem}h2{font-size:1.2rem;margin:2.2rem 0 .5rem}\n"
    ".unseen{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);"
    "white-space:nowrap}section{margin-top:1.6rem}\n"
    "p{margin:.25rem 0 .75rem}ul{padding-left:1.2rem}\n"
    "figure{margin:0;overflow-x:auto;border:1px solid #d5dae0;border-radius:8px}\n"
    "figure svg{display:block;width:100%;min-width:640px;height:auto}\n"
    "details{margin:.5rem 0}summary{cursor:pointer}.wide{overflow-x:auto}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem}\n"
    "caption{text-align:left;padding:.4rem 0}\n"
    "th,td{padding:.2rem .8rem;text-align:right;border-bottom:1px solid #d5dae0}\n"
    "th[scope=row],th[scope=rowgroup],th:first-child,th:nth-child(7),td:nth-child(7){text-align:"
    "left}\n"
    "th[scope=col],td{white-space:nowrap}td:nth-child(7){white-space:normal}\n"
    "th[scope=row]{font-weight:400}\n"
    "@media (prefers-color-scheme:dark){body{background:#0b0e12;color:#e8ebef}"
    "figure,th,td{border-color:#2b323b}}\n"
    "@media print{figure{border:0;break-inside:avoid}}\n";

} // namespace

std::string html_page(const report& r) {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
      "<meta charset=\"utf-8\"/>\n"
      "<meta http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<link rel=\"icon\" href=\"data:,\"/>\n<title>{0}</title>\n<style>\n{1}{2}</style>\n"
      "</head>\n<body>\n<header>\n<h1>{0}</h1>\n<p>{3}</p>\n</header>\n<main>\n",
      xml_text(r.title), page_style, chart_style(), xml_text(r.text));
  out += "<p>\"To floor\" says how many times as long as its floor a figure takes; of rates, how "
         "many times as much the floor gives. The floor was measured in the same run.</p>\n";
  std::size_t number = 0;
  for (const chart& c : r.charts)
    out += section(c, ++number);
  if (!r.left_out.empty()) out += "<h2>Not measured</h2>\n" + list(r.left_out);
  out += "<h2>Circumstances</h2>\n" + list(lines_of(r.circumstances));
  return out + "</main>\n</body>\n</html>\n";
}

std::string svg_picture(const report& r) {
  constexpr double gap = 28;
  constexpr double line_height = 17;
  std::string charts;
  std::string words = r.text;
  drawing head;
  head.text({24, 34}, anchor::start, "ti", r.title);
  head.text({24, 54}, anchor::start, "mu", r.text);
  double y = 76;
  for (const chart& c : r.charts) {
    const drawn_chart drawn = draw(c);
    charts += fmt::format("<svg y=\"{}\" width=\"{}\" height=\"{}\">\n{}</svg>\n", coordinate(y),
                          coordinate(chart_width), coordinate(drawn.height), drawn.markup);
    y += drawn.height + gap;
    words += ' ' + title_of(c) + ": " + description_of(c);
  }
  drawing foot;
  foot.line({24, y - 14}, {chart_width - 24, y - 14}, "gr");
  std::vector<std::string> lines = lines_of(r.circumstances);
  for (const std::string& why : r.left_out)
    lines.push_back("not measured: " + why);
  for (const std::string& line : lines) {
    for (const std::string& part : wrapped(line, 125)) {
      foot.text({24, y + 4}, anchor::start, "mu", part);
      y += line_height;
    }
  }
  const double height = y + 8;
  return fmt::format("<svg {0} viewBox=\"0 0 {1} {2}\" width=\"{1}\" height=\"{2}\" role=\"img\" "
                     "aria-labelledby=\"title description\">\n<title id=\"title\">{3}</title>\n"
                     "<desc id=\"description\">{4}</desc>\n<style>\n{5}</style>\n"
                     "<rect width=\"{1}\" height=\"{2}\" class=\"bg\"/>\n{6}{7}{8}</svg>\n",
                     svg_names, coordinate(chart_width), coordinate(height), xml_text(r.title),
                     xml_text(words), chart_style(), head.markup(), charts, foot.markup());
}

} // namespace farcall::tool
