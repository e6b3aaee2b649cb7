// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace farcall {

/// Copies the output of one source to a descriptor that several sources share, or to a function.
/// Like `srun`, copies only whole lines, so that lines of different sources do not mix. An
/// unfinished line is held until it ends or has `max_line` bytes; a longer line is written in
/// parts. All forwarders of one descriptor are used by one thread at a time.
class line_forwarder {
 public:
  /// Longest line that is held, including the label and the line end.
  static constexpr std::size_t max_line = std::size_t{64} << 10;

  /// Makes a forwarder that writes `label` before each line. If a long line is written in parts,
  /// each part becomes a line. With an empty label, all bytes are written unchanged. The caller
  /// owns `to`.
  line_forwarder(int to, std::string label)
      : to_(to), label_(std::move(label)),
        max_(label_.empty() ? max_line : max_line - label_.size() - 1) {}

  /// Makes a forwarder that passes each line to the function `to`, without its line end. A long
  /// line is passed in parts. The function must not throw.
  explicit line_forwarder(std::function<void(std::string_view line)> to)
      : to_(-1), max_(max_line), receive_(std::move(to)) {}

  /// Takes output of the source and writes the lines that are whole. Blocks while the descriptor is
  /// full. Returns false once the reader of the descriptor has gone. If writing fails for another
  /// reason, for instance because the disk is full, drops this output and all later output of the
  /// source. This is logged once in a process.
  bool take(std::string_view bytes);

  /// Ends the output of the source. Writes the rest of an unfinished line, with a line end if lines
  /// are labelled. Returns false once the reader of the descriptor has gone, like take().
  bool finish();

 private:
  bool pass(std::string_view lines);
  bool write(std::string_view bytes);

  int to_;
  std::string label_;
  std::size_t max_;  ///< most bytes of a line that are held
  std::string rest_; ///< beginning of an unfinished line
  /// Function that gets the lines; if empty, they are written to the descriptor.
  std::function<void(std::string_view line)> receive_;
  bool is_broken_ = false;
  bool has_reader_ = true;
};

/// Returns the label of a node, such as "2: ", like `srun --label`.
[[nodiscard]] std::string node_label(unsigned node);

/// Writes all bytes. Blocks, even if the descriptor is non-blocking. Returns false, with errno, if
/// writing fails.
[[nodiscard]] bool write_all(int to, std::string_view bytes) noexcept;

} // namespace farcall
