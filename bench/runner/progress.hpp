#pragma once

#include <cstddef>
#include <string>

namespace farcall::tool {

/// A bar on standard error, drawn only when that is a terminal, and wiped when it is done, so that
/// it never ends up in a file or between the lines of a result. One at a time; not for several
/// threads.
class progress {
 public:
  progress(std::string title, std::size_t steps);
  ~progress();
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;
  progress(progress&&) = delete;
  progress& operator=(progress&&) = delete;

  /// Says what is being measured now and counts it as begun. Draws at once: steps take long enough
  /// to be worth it, and nothing is drawn while something is being measured.
  void begin_step(const std::string& what);

  /// What the step that was begun does now. Draws, too.
  void tell(const std::string& what) const { draw(what); }

  /// Wipes the bar; the destructor does it too.
  void finish();

 private:
  void draw(const std::string& what) const;

  std::string title_;
  std::size_t steps_;
  std::size_t begun_ = 0;
  bool visible_;
};

/// The line without control characters, for at most `width` columns: `title [####....]  40% what`.
[[nodiscard]] std::string progress_line(const std::string& title, std::size_t done,
                                        std::size_t steps, const std::string& what,
                                        std::size_t width);

} // namespace farcall::tool
