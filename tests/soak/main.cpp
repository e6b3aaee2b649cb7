// SPDX-License-Identifier: Apache-2.0
#include "tests/sanitizer.hpp"
#include "tests/soak/soak.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

#include <unistd.h>

namespace soak {

void tally::wrong(const std::string& what) {
  ++wrongs_;
  const std::lock_guard guard(mutex_);
  if (texts_.size() < 20) texts_.push_back(what);
}

std::uint64_t tally::operations() const {
  std::uint64_t sum = 0;
  for (const auto& c : counts_)
    sum += c;
  return sum;
}

std::string tally::progress(std::chrono::seconds past, std::chrono::seconds all) const {
  constexpr long width = 30;
  const long filled = std::min<long>(width, past.count() * width / std::max<long>(1, all.count()));
  std::ostringstream out;
  out << "\r[" << std::string(static_cast<std::size_t>(filled), '#')
      << std::string(static_cast<std::size_t>(width - filled), '.') << "] " << past.count()
      << " of " << all.count() << " s, " << operations() << " operations, " << rounds_ << " jobs, "
      << kills_ << " kills, " << wrongs_ << " wrong ";
  return out.str();
}

std::string tally::summary(std::uint64_t seed, std::chrono::seconds took) const {
  std::ostringstream out;
  out << "soak: " << took.count() << " s, seed " << seed << ", " << rounds_ << " jobs, " << kills_
      << " targets killed, " << node_failures_ << " operations ended by that\n";
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    out << "  " << operation_names[i]
        << std::string(18 - std::string(operation_names[i]).size(), ' ') << counts_[i] << '\n';
  }
  const std::lock_guard guard(mutex_);
  for (const std::string& text : texts_)
    out << "  WRONG: " << text << '\n';
  out << (wrongs_ == 0
              ? "soak: all right\n"
              : "soak: " + std::to_string(wrongs_) + " wrong; the seed repeats the choices\n");
  return out.str();
}

} // namespace soak

namespace {

/// Handler of SIGALRM. A round takes three seconds, and a little longer after a death; a round of a
/// minute hangs.
void stuck(int /*signal*/) {
  constexpr char text[] = "soak: a round does not end; aborting\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, sizeof text - 1);
  std::abort();
}

} // namespace

int main(int argc, char** argv) {
  farcall::serve_if_target();
  using clock = std::chrono::steady_clock;
  std::chrono::seconds all(600);
  std::uint64_t seed = std::random_device{}();
  try {
    if (argc > 3 ||
        (argc > 1 && std::string(argv[1]).find_first_not_of("0123456789") != std::string::npos)) {
      std::fputs("usage: farcall_soak [seconds, default 600] [seed]\n", stderr);
      return 2;
    }
    if (argc > 1) all = std::chrono::seconds(std::stoul(argv[1]));
    if (argc > 2) seed = std::stoull(argv[2]);

    std::cout << "soak: " << all.count() << " s, seed " << seed << "\n" << std::flush;
    std::signal(SIGALRM, &stuck);
    farcall::test::start_symbolizer();
    soak::tally t;
    soak::generator random(seed);
    const auto begin = clock::now();
    const auto past = [&] {
      return std::chrono::duration_cast<std::chrono::seconds>(clock::now() - begin);
    };
    while (past() < all && t.wrongs() == 0) {
      const auto round = std::chrono::milliseconds(200 + random() % 3000);
      ::alarm(60);
      soak::run_round(random, std::min(clock::now() + round, begin + all), t);
      if (::isatty(STDERR_FILENO) != 0) std::cerr << t.progress(past(), all) << std::flush;
    }
    if (::isatty(STDERR_FILENO) != 0) std::cerr << '\n';
    std::cout << t.summary(seed, past());
    return t.wrongs() == 0 ? 0 : 1;
  } catch (const std::exception& e) {
    std::cerr << "soak: seed " << seed << ": " << e.what() << '\n';
    return 1;
  }
}
