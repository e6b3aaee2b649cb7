#include "axis_scale.hpp"
#include "chart.hpp"
#include "drawing.hpp"
#include "markup.hpp"

#include <tools/common/table.hpp>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

constexpr double row_height = 40;
constexpr double bar_height = 12;
constexpr double edge = 24;
constexpr double widest_name = 330;
constexpr double value_column = 84;
constexpr double ratio_column = 78;

std::vector<double> values_of(const row_chart& c) {
  std::vector<double> all;
  for (const chart_row& r : c.rows) {
    all.insert(all.end(), {r.value.p50, r.floor.p50});
    all.push_back(std::clamp(r.value.p99, r.value.p50, 2 * r.value.p50));
    all.push_back(std::clamp(r.value.p1, r.value.p50 / 2, r.value.p50));
  }
  return all;
}

double name_width(const row_chart& c) {
  double widest = 60;
  for (const chart_row& r : c.rows)
    widest = std::max(widest, text_width(r.what));
  return std::min(widest, widest_name);
}

bool has_floors(const row_chart& c) {
  return std::ranges::any_of(c.rows, [](const chart_row& r) { return std::isfinite(r.floor.p50); });
}

class row_drawing {
 public:
  explicit row_drawing(const row_chart& c)
      : chart_(c), has_floors_(has_floors(c)), names_(edge + name_width(c)), begin_(names_ + 18),
        end_(chart_width - edge - value_column - (has_floors_ ? ratio_column : 0)),
        top_(draw_head()), bottom_(top_ + row_height * static_cast<double>(c.rows.size())),
        x_(c.x, values_of(c), axis_scale::ends::rounded, begin_, end_ - 6,
           static_cast<std::size_t>(std::max(3.0, (end_ - begin_) / 62))) {}

  drawn_chart drawn() {
    draw_axis();
    double middle = top_ + row_height / 2;
    for (const chart_row& r : chart_.rows) {
      draw_row(r, middle);
      middle += row_height;
    }
    return {out_.markup(), bottom_ + 56};
  }

 private:
  double draw_head() {
    double y = 24;
    out_.text({edge, y}, anchor::start, "ti", chart_.title);
    for (const std::string& line : wrapped(chart_.subtitle, 126)) {
      y += 19;
      out_.text({edge, y}, anchor::start, "mu", line);
    }
    y += 26;
    draw_key(y);
    out_.text({end_ + value_column - 4, y}, anchor::end, "mu", "p50");
    if (has_floors_)
      out_.text({end_ + value_column + ratio_column, y}, anchor::end, "mu", "to floor");
    return y + 8;
  }

  /// What the shapes mean.
  void draw_key(double y) {
    double x = edge;
    const double middle = y - 4;
    const auto word = [&](const char* text) {
      out_.text({x, y}, anchor::start, "mu", text);
      x += text_width(text, 12) + 22;
    };
    out_.mark({x + 4, middle}, 0);
    x += 14;
    word("median");
    draw_bar(x, x + 24, middle);
    x += 32;
    word("1st to 99th percentile");
    if (!has_floors_) return;
    out_.line({x + 2, middle - 8}, {x + 2, middle + 8}, "fl ft");
    x += 10;
    word("floor of the figure");
    out_.rectangle({x, middle - bar_height / 2}, 24, bar_height, "f0 ov");
    x += 32;
    word("between the two");
  }

  void draw_bar(double from, double to, double y, bool goes_on = false) {
    out_.line({from, y}, {to, y}, "l0 er");
    out_.line({from, y - 4}, {from, y + 4}, "l0 er");
    if (goes_on) { // beyond the chart
      out_.path({{to - 5, y - 4}, {to, y}, {to - 5, y + 4}}, "l0 er");
    } else {
      out_.line({to, y - 4}, {to, y + 4}, "l0 er");
    }
  }

  void draw_axis() {
    double free_from = 0;
    for (const double tick : x_.ticks()) {
      const double at = x_.at(tick);
      const std::string text = tick_text(chart_.x.counts, tick);
      const double half = text_width(text, 12) / 2;
      out_.line({at, top_}, {at, bottom_}, "gr");
      if (at - half < free_from) continue;
      out_.text({at, bottom_ + 18}, anchor::middle, "mu", text);
      free_from = at + half + 8;
    }
    out_.line({begin_, bottom_}, {end_, bottom_}, "ax");
    out_.text({(begin_ + end_) / 2, bottom_ + 40}, anchor::middle, "tx",
              x_.by() == scale::linear ? chart_.x.title : chart_.x.title + ", logarithmic");
  }

  void draw_name(const std::string& name, double middle) {
    std::vector<std::string> lines =
        wrapped(name, static_cast<std::size_t>((names_ - edge) / text_width("n") + 0.01));
    if (lines.size() > 2) lines.resize(2);
    double y = middle + 4 - 8 * static_cast<double>(lines.size() - 1);
    for (const std::string& line : lines) {
      out_.text({names_, y}, anchor::end, "tx", shortened(line, names_ - edge));
      y += 16;
    }
  }

  [[nodiscard]] std::string words_of(const chart_row& r) const {
    const unit counts = chart_.x.counts;
    if (!std::isfinite(r.value.p50)) return fmt::format("{}: {}", r.what, r.remark);
    std::string words =
        fmt::format("{}: {} (p1 {}, p99 {})", r.what, value_text(counts, r.value.p50),
                    value_text(counts, r.value.p1), value_text(counts, r.value.p99));
    if (std::isfinite(r.floor.p50))
      words += fmt::format(", floor {}", value_text(counts, r.floor.p50));
    return r.remark.empty() ? words : words + "; " + r.remark;
  }

  void draw_row(const chart_row& r, double middle) {
    out_.begin_group(words_of(r));
    if (!r.what.empty()) draw_name(r.what, middle);
    if (!std::isfinite(r.value.p50)) {
      const std::string why = r.remark.empty() ? "not measured" : "not measured: " + r.remark;
      out_.text({begin_ + 8, middle + 4}, anchor::start, "mu",
                shortened(why, chart_width - edge - begin_ - 8, 12));
      out_.end_group();
      return;
    }
    if (x_.has(r.floor.p50)) {
      const double from = x_.at(std::min(r.floor.p50, r.value.p50));
      const double to = x_.at(std::max(r.floor.p50, r.value.p50));
      if (x_.has(r.value.p50))
        out_.rectangle({from, middle - bar_height / 2}, to - from, bar_height, "f0 ov");
      const double at = x_.at(r.floor.p50);
      out_.line({at, middle - 12}, {at, middle + 12}, "fl ft");
    }
    if (x_.has(r.value.p50)) {
      if (r.value.p1 < r.value.p99) {
        draw_bar(x_.at(r.value.p1), x_.at(r.value.p99), middle, r.value.p99 > x_.high());
      }
      out_.mark({x_.at(r.value.p50), middle}, 0);
    }
    out_.text({end_ + value_column - 4, middle + 4}, anchor::end, "tx",
              value_text(chart_.x.counts, r.value.p50));
    if (has_floors_) {
      out_.text({end_ + value_column + ratio_column, middle + 4}, anchor::end, "tx",
                format_ratio(overhead(chart_.x.counts, r.value.p50, r.floor.p50)));
    }
    out_.end_group();
  }

  const row_chart& chart_;
  bool has_floors_;
  double names_;
  double begin_;
  double end_;
  drawing out_;
  double top_;
  double bottom_;
  axis_scale x_;
};

} // namespace

drawn_chart draw(const row_chart& c) { return row_drawing(c).drawn(); }

} // namespace farcall::tool
