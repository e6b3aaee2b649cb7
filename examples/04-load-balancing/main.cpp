// SPDX-License-Identifier: Apache-2.0

// Work of very unequal size on several targets: the first idle target gets the next piece.
#include <farcall/farcall.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

namespace fc = farcall;

// Returns the longest Collatz chain that starts in [first, last): cheap for small numbers,
// expensive for large ones.
std::uint32_t longest_chain(std::uint64_t first, std::uint64_t last) {
  std::uint32_t longest = 0;
  for (std::uint64_t start = first; start < last; ++start) {
    std::uint32_t length = 0;
    for (std::uint64_t n = start; n > 1; n = n % 2 == 0 ? n / 2 : 3 * n + 1)
      ++length;
    if (length > longest) longest = length;
  }
  return longest;
}

struct piece {
  std::uint64_t first;
  std::uint64_t last;
};

int main(int argc, char** argv) {
  fc::job job{argc, argv, fc::job_options{.targets = "shm:3"}};

  // Each piece is twice as large as the one before, up to a limit, then it starts over.
  std::vector<piece> pieces;
  for (std::uint64_t first = 1, size = 100; pieces.size() < 60; first += size) {
    size = size < 12800 ? size * 2 : 100;
    pieces.push_back({first, first + size});
  }

  // One call in flight per target. running[i] belongs to node_of[i].
  std::vector<fc::future<std::uint32_t>> running;
  std::vector<fc::node> node_of;
  std::vector<int> pieces_done(job.size());
  std::size_t next = 0;
  for (const fc::node& target : job.targets()) {
    if (next == pieces.size()) break;
    running.push_back(fc::async(target, longest_chain, pieces[next].first, pieces[next].last));
    node_of.push_back(target);
    ++next;
  }

  std::uint32_t longest = 0;
  while (!running.empty()) {
    auto any = fc::when_any(std::move(running)).get();
    running = std::move(any.futures);
    const auto i = static_cast<std::ptrdiff_t>(any.index);
    const fc::node target = node_of[any.index];
    longest = std::max(longest, running[any.index].get());
    ++pieces_done[target.id()];
    if (next < pieces.size()) {
      running[any.index] = fc::async(target, longest_chain, pieces[next].first, pieces[next].last);
      ++next;
    } else {
      running.erase(running.begin() + i);
      node_of.erase(node_of.begin() + i);
    }
  }

  int total = 0;
  for (const fc::node& target : job.targets()) {
    std::printf("node %u did %d pieces\n", target.id(), pieces_done[target.id()]);
    total += pieces_done[target.id()];
  }
  const std::uint32_t expected = longest_chain(1, pieces.back().last);
  std::printf("longest chain below %llu: %u, expected %u\n",
              static_cast<unsigned long long>(pieces.back().last), longest, expected);
  return longest == expected && total == static_cast<int>(pieces.size()) ? 0 : 1;
}
