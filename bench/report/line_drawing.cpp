#include "axis_scale.hpp"
#include "chart.hpp"
#include "drawing.hpp"
#include "label_places.hpp"
#include "markup.hpp"

#include <tools/common/table.hpp>

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

constexpr double edge_of_head = 24;
constexpr double left_margin = 100;
constexpr double plot_height = 350;
constexpr double legend_line = 21;
constexpr double sample_width = 34; ///< of a line in the legend
constexpr double most_dodge = 4;    ///< between the places of two series at the same x
constexpr double widest_dodge = 20; ///< of all of them
constexpr std::size_t most_y_ticks = 8;
constexpr std::size_t most_x_ticks = 12;

/// Of all floors together, if it is the same everywhere.
double one_floor(const line_chart& c) {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  double floor = none;
  for (const chart_series& s : c.series) {
    if (s.role != series_role::floor) continue;
    for (const chart_point& p : s.points) {
      if (std::isnan(floor)) floor = p.value.p50;
      if (p.value.p50 != floor) return none;
    }
  }
  return floor > 0 ? floor : none;
}

std::vector<double> xs_of(const line_chart& c) {
  std::vector<double> all;
  for (const chart_series& s : c.series) {
    for (const chart_point& p : s.points)
      all.push_back(p.x);
  }
  return all;
}

/// Bars may reach beyond what medians need; one that is interrupted must not press all others flat.
std::vector<double> ys_of(const line_chart& c) {
  std::vector<double> all;
  for (const chart_series& s : c.series) {
    for (const chart_point& p : s.points) {
      all.push_back(p.value.p50);
      if (s.role == series_role::published) continue;
      all.push_back(std::clamp(p.value.p99, p.value.p50, 2 * p.value.p50));
      all.push_back(std::clamp(p.value.p1, p.value.p50 / 2, p.value.p50));
    }
  }
  return all;
}

class line_drawing {
 public:
  explicit line_drawing(const line_chart& c)
      : chart_(c), floor_(is_rate(c.y.counts) ? std::nan("") : one_floor(c)),
        right_(chart_width - (std::isfinite(floor_) ? 78 : 28)), top_(draw_head()),
        x_(c.x, xs_of(c), axis_scale::ends::exact, left_margin + 40, right_ - 62, most_x_ticks),
        y_(c.y, ys_of(c), axis_scale::ends::rounded, top_ + plot_height, top_, most_y_ticks),
        labels_({left_margin + 2, top_ + 1, right_ - 2, top_ + plot_height - 1}),
        figures_(static_cast<double>(std::ranges::count_if(
            c.series, [](const chart_series& s) { return s.role == series_role::figure; }))) {}

  drawn_chart drawn() {
    draw_axes();
    for (const chart_series& s : chart_.series) {
      if (s.role == series_role::floor) draw_floor(s);
    }
    for (std::size_t i = 0; i < chart_.series.size(); ++i)
      draw_series(i);
    label_floors();
    label_points();
    return {out_.markup(), top_ + plot_height + 56};
  }

 private:
  /// Title, subtitle and legend; returns where the plot begins.
  double draw_head() {
    double y = 24;
    out_.text({edge_of_head, y}, anchor::start, "ti", chart_.title);
    for (const std::string& line : wrapped(subtitle(), 126)) {
      y += 19;
      out_.text({edge_of_head, y}, anchor::start, "mu", line);
    }
    y += 26;
    double x = edge_of_head;
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      const chart_series& s = chart_.series[i];
      const std::string ratio = overheads_of(s, chart_.y.counts);
      std::string name = ratio.empty() ? s.name : fmt::format("{} ({} floor)", s.name, ratio);
      name = shortened(name, chart_width - edge_of_head - sample_width - 30);
      const double width = sample_width + 8 + text_width(name) + 18;
      if (x > edge_of_head && x + width > chart_width - 10) {
        x = edge_of_head;
        y += legend_line;
      }
      draw_sample(i, {x, y - 4});
      out_.text({x + sample_width + 8, y}, anchor::start, "tx", name);
      x += width;
    }
    return y + 18;
  }

  [[nodiscard]] std::string subtitle() const {
    const bool has_spread = std::ranges::any_of(chart_.series, [](const chart_series& s) {
      return std::ranges::any_of(s.points,
                                 [](const chart_point& p) { return p.value.p1 < p.value.p99; });
    });
    const char* const key = "Lines are medians, bars go from the 1st to the 99th percentile.";
    if (!has_spread) return chart_.subtitle;
    return chart_.subtitle.empty() ? key : chart_.subtitle + ' ' + key;
  }

  void draw_sample(std::size_t i, xy at) {
    const bool is_floor = chart_.series[i].role == series_role::floor;
    out_.line(at, {at.x + sample_width, at.y}, is_floor ? "fl" : line_look(i));
    if (!is_floor) out_.mark({at.x + sample_width / 2, at.y}, i);
  }

  void draw_axes() {
    const double bottom = top_ + plot_height;
    for (const double tick : y_.ticks()) {
      out_.line({left_margin, y_.at(tick)}, {right_, y_.at(tick)}, "gr");
      out_.text({left_margin - 8, y_.at(tick) + 4}, anchor::end, "mu",
                tick_text(chart_.y.counts, tick));
    }
    double free_from = 0;
    for (const double tick : x_.ticks()) {
      const std::string text = tick_text(chart_.x.counts, tick);
      const double half = text_width(text, 12) / 2;
      out_.line({x_.at(tick), bottom}, {x_.at(tick), bottom + 5}, "ax");
      if (x_.at(tick) - half < free_from) continue;
      out_.text({x_.at(tick), bottom + 19}, anchor::middle, "mu", text);
      free_from = x_.at(tick) + half + 8;
    }
    out_.line({left_margin, bottom}, {right_, bottom}, "ax");
    if (x_.has_zero()) { // the axis is broken between zero and the logarithms
      const double at = (x_.at(0) + x_.begin()) / 2;
      out_.line({at - 5, bottom + 5}, {at - 1, bottom - 5}, "ax");
      out_.line({at + 1, bottom + 5}, {at + 5, bottom - 5}, "ax");
    }
    out_.text({(left_margin + right_) / 2, bottom + 42}, anchor::middle, "tx", chart_.x.title);
    out_.upright_text({20, top_ + plot_height / 2}, "tx",
                      y_.by() == scale::linear ? chart_.y.title : chart_.y.title + ", logarithmic");
    if (std::isfinite(floor_)) draw_ratios();
  }

  /// On the right: how many times the floor.
  void draw_ratios() {
    const double low = y_.low() / floor_;
    const double high = y_.high() / floor_;
    const std::vector<double> ticks = y_.by() == scale::linear
                                          ? linear_ticks(low, high, most_y_ticks, unit::per_second)
                                          : log10_ticks(low, high, most_y_ticks);
    for (const double tick : ticks) {
      const double at = y_.at(tick * floor_);
      out_.line({right_, at}, {right_ + 5, at}, "ax");
      out_.text({right_ + 9, at + 4}, anchor::start, "mu", tick_text(unit::count, tick) + " x");
    }
    out_.upright_text({chart_width - 8, top_ + plot_height / 2}, "tx", "times the floor");
  }

  /// Series at the same x stand beside each other, so that their bars do not hide each other.
  [[nodiscard]] xy at(const chart_point& p, std::size_t series) const {
    const double width = std::min(most_dodge * (figures_ - 1), widest_dodge);
    const bool is_figure = chart_.series[series].role == series_role::figure;
    const auto before = std::count_if(
        chart_.series.begin(), chart_.series.begin() + static_cast<std::ptrdiff_t>(series),
        [](const chart_series& s) { return s.role == series_role::figure; });
    const double dodge = is_figure && figures_ > 1
                             ? width * (static_cast<double>(before) / (figures_ - 1) - 0.5)
                             : 0;
    return {x_.at(p.x) + dodge, y_.at(p.value.p50)};
  }

  [[nodiscard]] bool has(const chart_point& p) const { return x_.has(p.x) && y_.has(p.value.p50); }

  void draw_floor(const chart_series& s) {
    std::vector<xy> line;
    std::vector<xy> band;
    std::vector<xy> back;
    for (const chart_point& p : s.points) {
      if (!has(p)) continue;
      line.push_back({x_.at(p.x), y_.at(p.value.p50)});
      if (!y_.has(p.value.p1) || !y_.has(p.value.p99)) continue;
      band.push_back({x_.at(p.x), y_.at(p.value.p99)});
      back.push_back({x_.at(p.x), y_.at(p.value.p1)});
    }
    if (line.size() == 1) line = {{left_margin, line.front().y}, {right_, line.front().y}};
    band.insert(band.end(), back.rbegin(), back.rend());
    out_.area(band, "ff fb");
    out_.path(line, "fl");
    block(line);
  }

  void block(const std::vector<xy>& line) {
    for (std::size_t i = 1; i < line.size(); ++i)
      labels_.block_line(line[i - 1].x, line[i - 1].y, line[i].x, line[i].y);
  }

  void draw_series(std::size_t i) {
    const chart_series& s = chart_.series[i];
    if (s.role == series_role::floor) return;
    std::vector<xy> line;
    const auto end_line = [&] {
      out_.path(line, line_look(i));
      block(line);
      line.clear();
    };
    for (const chart_point& p : s.points) {
      if (has(p)) {
        line.push_back(at(p, i));
      } else {
        end_line(); // what was not measured is a gap
      }
    }
    end_line();
    for (const chart_point& p : s.points) {
      if (has(p)) draw_point(s, p, i);
    }
  }

  void draw_point(const chart_series& s, const chart_point& p, std::size_t i) {
    const xy where = at(p, i);
    const unit counts = chart_.y.counts;
    const double ratio = overhead(counts, p.value.p50, p.floor);
    std::string title = fmt::format("{}, {}: {}", s.name, tick_text(chart_.x.counts, p.x),
                                    value_text(counts, p.value.p50));
    if (p.value.samples > 1) {
      title += fmt::format(" (p1 {}, p99 {})", value_text(counts, p.value.p1),
                           value_text(counts, p.value.p99));
    }
    if (std::isfinite(ratio)) title += fmt::format(", {} its floor", format_ratio(ratio));
    out_.begin_group(title);
    if (std::isfinite(p.value.p1) && std::isfinite(p.value.p99) && p.value.p1 < p.value.p99) {
      const std::string look = fmt::format("l{} er", i % series_looks);
      const double low = y_.at(p.value.p1);
      const double high = y_.at(p.value.p99);
      out_.line({where.x, low}, {where.x, high}, look);
      out_.line({where.x - 3, low}, {where.x + 3, low}, look);
      if (p.value.p99 <= y_.high()) {
        out_.line({where.x - 3, high}, {where.x + 3, high}, look);
      } else { // it goes on beyond the chart
        out_.path({{where.x - 3, high + 5}, {where.x, high}, {where.x + 3, high + 5}}, look);
      }
      labels_.block_line(where.x, low, where.x, high);
    }
    out_.mark(where, i);
    out_.end_group();
    labels_.block({where.x - 5, where.y - 5, where.x + 5, where.y + 5});
  }

  void label_floors() {
    for (const chart_series& s : chart_.series) {
      if (s.role != series_role::floor || s.points.empty()) continue;
      const std::string text =
          fmt::format("{} {}", std::isfinite(floor_) ? "floor" : s.name,
                      std::isfinite(floor_) ? value_text(chart_.y.counts, floor_) : "");
      std::vector<box> candidates;
      for (const chart_point& p : {s.points.back(), s.points.front()}) {
        if (!has(p)) continue;
        const double width = text_width(text, label_size);
        const double left = std::clamp(x_.at(p.x) - width / 2, left_margin + 4, right_ - width - 4);
        const double y = y_.at(p.value.p50);
        candidates.push_back({left, y + 4, left + width, y + 18});
        candidates.push_back({left, y - 18, left + width, y - 4});
      }
      if (!put_label(candidates, "fla", text, false))
        (void)put_label(candidates, "fla", text, true);
    }
  }

  bool put_label(const std::vector<box>& candidates, std::string_view look, const std::string& text,
                 bool may_lie_on_lines) {
    const std::optional<box> found = labels_.place(candidates, may_lie_on_lines);
    if (!found) return false;
    out_.text({(found->left + found->right) / 2, found->bottom - 3}, anchor::middle, look, text);
    return true;
  }

  /// Beside the last point of a line, above or below the others. Where lines leave no room, the
  /// label may lie on one.
  void label_point(const chart_point& p, std::size_t i, bool is_last, bool may_lie_on_lines) {
    const std::string text = value_text(chart_.y.counts, p.value.p50);
    const double width = text_width(text, label_size);
    const xy m = at(p, i);
    constexpr double high = 14;
    std::vector<box> around{{m.x - width / 2, m.y - 7 - high, m.x + width / 2, m.y - 7},
                            {m.x - width / 2, m.y + 7, m.x + width / 2, m.y + 7 + high},
                            {m.x + 8, m.y - high / 2, m.x + 8 + width, m.y + high / 2},
                            {m.x - 8 - width, m.y - high / 2, m.x - 8, m.y + high / 2}};
    const std::vector<box> above_first = around;
    if (is_last) std::swap(around[0], around[2]);
    if (!put_label(around, "la", text, false) && may_lie_on_lines)
      (void)put_label(above_first, "la", text, true);
  }

  /// The ends of all lines first, then what is between them, as far as there is room.
  void label_points() {
    for (const int round : {0, 1, 2}) {
      for (std::size_t i = 0; i < chart_.series.size(); ++i) {
        if (chart_.series[i].role == series_role::floor) continue;
        std::vector<chart_point> known;
        std::ranges::copy_if(chart_.series[i].points, std::back_inserter(known),
                             [&](const chart_point& p) { return has(p); });
        for (std::size_t k = 0; k < known.size(); ++k) {
          const int turn = k + 1 == known.size() ? 0 : k == 0 ? 1 : 2;
          if (turn == round) label_point(known[k], i, turn == 0, round < 2 || figures_ == 1);
        }
      }
    }
  }

  const line_chart& chart_;
  double floor_;
  double right_;
  drawing out_;
  double top_;
  axis_scale x_;
  axis_scale y_;
  label_places labels_;
  double figures_; ///< how many series there are of them
};

} // namespace

drawn_chart draw(const line_chart& c) { return line_drawing(c).drawn(); }

} // namespace farcall::tool
