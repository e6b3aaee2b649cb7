// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "node_table.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace farcall::tool {

/// Shows a live view, for which it takes over the whole terminal. Restores the terminal when the
/// object is destroyed, and also if a signal ends the process. Only one object may exist at a time.
class screen {
 public:
  /// Throws failed_run if the terminal cannot show a live view. The error names the variable TERM.
  screen();
  screen(const screen&) = delete;
  screen& operator=(const screen&) = delete;
  ~screen();

  /// The user's choices, which the user makes by pressing keys.
  struct wishes {
    node_order order = node_order::node;
    bool is_paused = false;
    bool shows_help = false;
    bool quits = false;
  };

  /// Handles the keys that were pressed, without waiting for more. If a signal asks the process to
  /// end, sets quits as a key would. Returns true if a key was pressed, or if the size of the
  /// terminal has changed.
  bool take_keys();
  [[nodiscard]] const wishes& asked() const noexcept { return asked_; }

  /// Draws the screen: `title` in the first line, then as many rows of the table as fit, and the
  /// keys in the last line. If the user has asked for help, explains the keys and columns instead.
  void draw(const std::string& title, const std::vector<node_rates>& nodes);

 private:
  static void draw_help(int rows, int columns);

  wishes asked_;
  std::size_t first_row_ = 0; ///< scrolled to
};

} // namespace farcall::tool
