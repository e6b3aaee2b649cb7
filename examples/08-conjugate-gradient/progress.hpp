/// \file
/// Progress of a long run.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>

namespace cg {

/// One line on a terminal that tells how far a long run has come.
class progress_line {
 public:
  explicit progress_line(const char* what) : what_{what} {}
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;
  ~progress_line() {
    if (shown_) std::fputs("\r\033[K", stderr);
  }
  void operator()(std::uint64_t iteration, double residual) {
    if (!terminal_) return;
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return;
    next_ = now + std::chrono::milliseconds{200};
    shown_ = true;
    std::fprintf(stderr, "\r\033[K%s: iteration %llu, residual %.1e", what_,
                 static_cast<unsigned long long>(iteration), residual);
  }

 private:
  const char* what_;
  bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_ =
      std::chrono::steady_clock::now() + std::chrono::milliseconds{500};
};

} // namespace cg
