// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace farcall::tool {

/// A progress bar on standard error, drawn only on a terminal and erased at the end, so that files
/// and results stay free of it. Only one may exist at a time; not thread-safe.
class progress {
 public:
  progress(std::string title, std::size_t steps);
  ~progress();
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;
  progress(progress&&) = delete;
  progress& operator=(progress&&) = delete;

  /// Begins a step, counts it, and draws it at once: steps are long, and drawing during a
  /// measurement would disturb it.
  void begin_step(const std::string& what);

  /// Draws another text for the current step.
  void tell(const std::string& what) const { draw(what); }

  /// Erases the bar, like the destructor.
  void finish();

 private:
  void draw(const std::string& what) const;

  std::string title_;
  std::size_t steps_;
  std::size_t begun_ = 0;
  bool visible_;
};

/// Returns the line without control characters, at most `width` columns: `title [####....]  40%
/// what`.
[[nodiscard]] std::string progress_line(const std::string& title, std::size_t done,
                                        std::size_t steps, const std::string& what,
                                        std::size_t width);

} // namespace farcall::tool
