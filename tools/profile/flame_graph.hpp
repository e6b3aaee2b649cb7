#pragma once

#include "call_tree.hpp"

#include <string>

namespace farcall::tool {

struct flame_graph_options {
  call_tree_options tree;
  std::string title; ///< empty: the profile's command
};

/// A picture (SVG, one file that needs no other) of the call tree: the root on top, each function
/// below its callers and as wide as its share of the samples, a colour for each module, which the
/// last line names. In a browser a click zooms, and a box searches (Ctrl-F) and tells the share of
/// what it found;
/// `#search=TEXT` and `#zoom=NUMBER OF THE FRAME` behind its address do the same. Without scripts
/// it can be read too. Frames of less than a tenth of a pixel are left out, and their number is
/// said. Equal profiles give equal bytes. Throws std::invalid_argument for a damaged profile.
[[nodiscard]] std::string flame_graph(const profile& seen, const flame_graph_options& options = {});

} // namespace farcall::tool
