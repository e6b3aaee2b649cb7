// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace farcall::tool {

/// Content type of Prometheus' text format, version 0.0.4.
inline constexpr std::string_view metrics_type = "text/plain; version=0.0.4; charset=utf-8";

/// Collects all lines of one metric in Prometheus' text format, because the format requires that
/// they follow each other.
class metric_family {
 public:
  metric_family(std::string name, std::string_view type, std::string_view help)
      : name_(std::move(name)),
        text_(fmt::format("# HELP {} {}\n# TYPE {} {}\n", name_, help, name_, type)) {}

  /// Adds a line with a value. `labels` is the text between the braces, and may be empty. The
  /// values of the labels must be quoted, for instance by quoted_text().
  void add(std::string_view labels, double value) {
    text_ += labels.empty() ? fmt::format("{} {}\n", name_, value)
                            : fmt::format("{}{{{}}} {}\n", name_, labels, value);
  }

  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string name_;
  std::string text_;
};

} // namespace farcall::tool
