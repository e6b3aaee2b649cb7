// SPDX-License-Identifier: Apache-2.0

// C++ in target regions: a global object with constructor and destructor, templates, exceptions
// inside a region, and mapped members. Each process prints a line when it destroys its object.
#include <omp.h>

#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace {

template <class T>
class grid {
 public:
  explicit grid(int n) : n_(n), cells_(new T[static_cast<std::size_t>(n)]()) {
#pragma omp target enter data map(to : this[0 : 1], cells_[0 : n_])
  }
  grid(const grid&) = delete;
  grid& operator=(const grid&) = delete;
  ~grid() {
#pragma omp target exit data map(delete : cells_[0 : n_], this[0 : 1])
    delete[] cells_;
  }

  void add(T value) {
#pragma omp target teams distribute parallel for
    for (int i = 0; i < n_; ++i)
      cells_[i] += value + T(i);
  }
  T sum() {
#pragma omp target update from(cells_[0 : n_])
    return std::accumulate(cells_, cells_ + n_, T());
  }

 private:
  int n_;
  T* cells_;
};

// Programs of LLVM 15 end by a fault if such an object has a destructor, by the packaged plugin,
// too.
#if __clang_major__ >= 16
#define HAS_DESTRUCTOR 1
#endif

#pragma omp declare target
class global_value {
 public:
  global_value() : value_(41) {}
  global_value(const global_value&) = delete;
  global_value& operator=(const global_value&) = delete;
#ifdef HAS_DESTRUCTOR
  ~global_value() { std::printf("destroyed: %d\n", value_); }
#endif
  int next() { return ++value_; }

 private:
  int value_;
} the_value;
#pragma omp end declare target

} // namespace

int main() {
  int next = 0;
#pragma omp target map(from : next)
  next = the_value.next();
  std::printf("next: %d\n", next);
  grid<double> g(100);
  g.add(1);
  g.add(2);
  std::printf("sum: %g\n", g.sum());
  int caught = 0;
// Regions of LLVM 15 catch no exceptions.
#if __clang_major__ >= 16
#pragma omp target map(from : caught)
  {
    try {
      std::vector<int> numbers(3);
      caught = numbers.at(3);
    } catch (const std::out_of_range&) {
      caught = 1;
    }
  }
#else
  caught = 1;
#endif
  std::printf("caught: %d\n", caught);
  return 0;
}
