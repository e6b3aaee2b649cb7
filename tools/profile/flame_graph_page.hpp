#pragma once

#include <string_view>

namespace farcall::tool {

/// What every flame graph has: how it looks, apart from the modules' colours, and what it does in
/// a browser.
struct flame_graph_page {
  static const std::string_view style;
  static const std::string_view script;
};

} // namespace farcall::tool
