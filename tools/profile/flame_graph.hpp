// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "call_tree.hpp"

#include <string>

namespace farcall::tool {

struct flame_graph_options {
  call_tree_options tree;
  std::string title; ///< title; if it is empty, the profile's command is the title
};

/// Returns the call tree as a self-contained SVG picture. The root is on top. Each function is
/// below its caller, and as wide as its share of the samples. Modules have different colours, and
/// the last line is a legend. In a browser, a click zooms, and a search box (Ctrl-F) shows the
/// share of the matching functions; `#search=TEXT` and `#zoom=NUMBER OF THE FRAME` in the URL do
/// the same. The picture is readable without scripts too. Frames narrower than a tenth of a pixel
/// are omitted and counted. Equal profiles give equal bytes. Throws std::invalid_argument if the
/// profile is damaged.
[[nodiscard]] std::string flame_graph(const profile& seen, const flame_graph_options& options = {});

} // namespace farcall::tool
