// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace farcall::tool {

/// Parts of the picture that are equal in all flame graphs, namely the script and the style sheet.
/// The colours of the modules are not a part of this style sheet.
struct flame_graph_page {
  static const std::string_view style;
  static const std::string_view script;
};

} // namespace farcall::tool
