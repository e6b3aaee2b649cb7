#pragma once

#include "node_table.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace farcall::tool {

/// The terminal, taken for a live view and given back as it was, also when a signal ends the
/// process. One at a time.
class screen {
 public:
  /// Throws failed_run where the terminal cannot do what is needed, which names TERM.
  screen();
  screen(const screen&) = delete;
  screen& operator=(const screen&) = delete;
  ~screen();

  /// What the keys have asked for.
  struct wishes {
    node_order order = node_order::node;
    bool is_paused = false;
    bool quits = false;
  };

  /// Takes the keys that were pressed, at once; true when there were any, or the size has changed.
  bool take_keys();
  [[nodiscard]] const wishes& asked() const noexcept { return asked_; }

  /// Draws: `title` on top, then the table of the nodes as far as they fit, then the keys.
  void draw(const std::string& title, const std::vector<node_rates>& nodes);

 private:
  wishes asked_;
  std::size_t first_row_ = 0; ///< scrolled to
};

} // namespace farcall::tool
