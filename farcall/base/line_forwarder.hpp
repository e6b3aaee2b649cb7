#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace farcall {

/// Brings what one source prints to a descriptor that others print to as well, in whole lines, so
/// that lines of several sources do not mix. Holds an unfinished line, at most `longest_line` bytes
/// of it: longer ones pass in parts. As `srun` does. One thread at a time, for all that go to one
/// descriptor.
class line_forwarder {
 public:
  /// With label and end.
  static constexpr std::size_t longest_line = std::size_t{64} << 10;

  /// `label` is put before each line, and a part of a line is then a line of its own; empty: the
  /// bytes pass as they are. `to` stays its owner's.
  line_forwarder(int to, std::string label)
      : to_(to), label_(std::move(label)),
        most_(label_.empty() ? longest_line : longest_line - label_.size() - 1) {}

  /// What the source has printed next. Blocks while the descriptor takes nothing. False once its
  /// reader has gone. Where it can be written no more for another reason, as a file on a full disk,
  /// the program says so once, and goes on: what comes then is dropped.
  bool take(std::string_view bytes);

  /// The source prints no more: what there is of a line goes on, with its end if lines are
  /// labelled. As take().
  bool finish();

 private:
  bool pass(std::string_view lines);
  bool write(std::string_view bytes);

  int to_;
  std::string label_;
  std::size_t most_; ///< held of a line
  std::string rest_; ///< of a line that is not finished
  bool is_broken_ = false;
  bool has_reader_ = true;
};

/// "2: ", as `srun --label` writes it.
[[nodiscard]] std::string node_label(unsigned node);

/// Writes all; blocks, also where the descriptor does not. False, and errno, where it cannot.
[[nodiscard]] bool write_all(int to, std::string_view bytes) noexcept;

} // namespace farcall
