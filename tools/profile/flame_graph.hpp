// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "call_tree.hpp"

#include <string>

namespace farcall::tool {

struct flame_graph_options {
  call_tree_options::roots root = call_tree_options::roots::functions;
  std::string title = {}; ///< if it is empty, the profile's command is the title
  /// True for a picture in an HTML page, which has the title and the legend. An element of the
  /// class "controls" directly before the picture gets the search box and the switches.
  bool is_part_of_page = false;
};

/// Returns the call tree as a self-contained SVG picture, which a browser draws as wide as the
/// window. The root is on top. Each function is below its caller, and as wide as its share of the
/// samples. Colours tell the code of the program, of libraries and of farcall apart. Samples of
/// threads that wait or are idle are grey and at the right.
///
/// In a browser, a click zooms, and a search box (Ctrl-F) shows the share of the matching
/// functions. Two switches show the functions of farcall one by one, and the waiting threads.
/// `#search=TEXT`, `#zoom=NUMBER OF THE FRAME`, `#farcall` and `#waiting` in the URL do the same.
/// Without scripts, the picture shows the waiting threads, and successive functions of farcall as
/// one frame.
///
/// Frames narrower than a tenth of a pixel of 1200 are omitted and counted. Equal profiles give
/// equal bytes. Throws std::invalid_argument if the profile is damaged.
[[nodiscard]] std::string flame_graph(const profile& seen, const flame_graph_options& options = {});

} // namespace farcall::tool
