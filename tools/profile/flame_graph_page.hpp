// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>
#include <utility>

namespace farcall::tool {

/// Parts of the picture that are equal in all flame graphs.
struct flame_graph_page {
  static const std::string_view style;
  static const std::string_view script;
  /// Classes of colours, and their meanings.
  static const std::span<const std::pair<std::string_view, std::string_view>> legend;
};

} // namespace farcall::tool
