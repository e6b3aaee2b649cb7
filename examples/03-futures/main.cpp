// SPDX-License-Identifier: Apache-2.0

// Futures: continue with then(), join with when_all(), take the first with when_any(), co_await.
#include <farcall/farcall.hpp>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace fc = farcall;
using namespace std::chrono_literals;

double square(double x) { return x * x; }

int slow_result(int milliseconds) {
  std::this_thread::sleep_for(milliseconds * 1ms);
  return milliseconds;
}

// A coroutine: co_await suspends it until the result has arrived, without blocking a thread.
fc::future<double> length(fc::node target, double x, double y) {
  const double xx = co_await fc::async(target, square, x);
  const double yy = co_await fc::async(target, square, y);
  co_return xx + yy;
}

int main(int argc, char** argv) {
  fc::job job{argc, argv, fc::job_options{.targets = "shm:2"}};
  const fc::node target = job.targets().front();
  int right = 0;

  // then: runs once the result has arrived, and returns a future of its own result.
  fc::future<double> chained =
      fc::async(target, square, 3.0).then([](fc::future<double> ready) { return ready.get() + 1; });
  const double ten = chained.get();
  std::printf("then: %g\n", ten);
  right += ten == 10;

  // when_all on a vector: any number of calls of one kind, spread over all targets.
  std::vector<fc::future<double>> calls;
  while (calls.size() < 100) {
    const fc::node& next = job.targets()[calls.size() % job.targets().size()];
    calls.push_back(fc::async(next, square, static_cast<double>(calls.size())));
  }
  double sum = 0;
  for (auto& one : fc::when_all(std::move(calls)).get())
    sum += one.get();
  std::printf("when_all: %g\n", sum);
  right += sum == 328350;

  // when_all on calls of different kinds.
  auto [number, text] = fc::when_all(fc::async(target, square, 2.0),
                                     fc::async(target, [] { return std::string{"text"}; }))
                            .get();
  right += number.get() == 4 && text.get() == "text";

  // when_any: the slower one stays usable.
  std::vector<fc::future<int>> race;
  race.push_back(fc::async(job.targets().front(), slow_result, 300));
  race.push_back(fc::async(job.targets().back(), slow_result, 5));
  auto first = fc::when_any(std::move(race)).get();
  std::printf("when_any: number %zu was first\n", first.index);
  right += first.futures[first.index].get() > 0 && first.futures[1 - first.index].get() > 0;

  const double hypotenuse = length(target, 3, 4).get();
  std::printf("co_await: %g\n", hypotenuse);
  right += hypotenuse == 25;
  return right == 5 ? 0 : 1;
}
