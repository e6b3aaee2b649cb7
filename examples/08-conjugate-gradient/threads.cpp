// SPDX-License-Identifier: Apache-2.0
#include "cg.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace cg {

#ifdef _OPENMP

bool has_threads() noexcept { return true; }

solution solve_by_threads(const csr_matrix& matrix, std::span<const double> b,
                          const solver_options& options, std::size_t threads, double& seconds) {
  std::vector<system_part> parts = split(matrix, b, threads);
  const int members = static_cast<int>(parts.size());
  std::vector<std::vector<double>> numbers(parts.size());
  std::vector<const double*> own_of(parts.size()); // the member's own entries of p
  std::vector<solution> solutions(parts.size());
#pragma omp parallel num_threads(members)
  {
    const auto me = static_cast<std::size_t>(omp_get_thread_num());
    // Copied by the thread, so that the memory is near its processor.
    const system_part part = parts[me];
    const row_block& rows = part.rows;
    const std::size_t before = rows.range.first - rows.first_column;
    const auto collect = [&](const std::vector<double>& mine, const auto& use) {
      numbers[me] = mine;
#pragma omp barrier
      use();
#pragma omp barrier
    };
    member m{.before = before, .after = rows.columns - before - rows.range.size()};
    m.add = [&](std::span<double> values) {
      collect({values.begin(), values.end()}, [&] {
        for (std::size_t k = 0; k < values.size(); ++k) {
          values[k] = 0;
          for (const std::vector<double>& other : numbers)
            values[k] += other[k];
        }
      });
    };
    m.largest = [&](double own) {
      collect({own}, [&] {
        for (const std::vector<double>& other : numbers)
          own = std::max(own, other[0]);
      });
      return own;
    };
    m.apply = [&](std::span<double> p, std::span<double> q) {
      own_of[me] = p.data() + before;
#pragma omp barrier
      for (std::size_t other = 0; other < parts.size(); ++other) {
        if (other == me) continue;
        const row_range shared = shared_columns(part, parts[other]);
        std::copy_n(own_of[other] + (shared.first - parts[other].rows.range.first), shared.size(),
                    p.data() + (shared.first - rows.first_column));
      }
      multiply_rows(rows.row_start, rows.column, rows.value, p, q);
    };
    solver_state state;
#pragma omp barrier
    const auto start = std::chrono::steady_clock::now();
    solutions[me] = conjugate_gradient(m, part.b, part.diagonal, options, state);
#pragma omp barrier
    if (me == 0)
      seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  solution whole = std::move(solutions.front());
  for (std::size_t other = 1; other < solutions.size(); ++other)
    whole.x.insert(whole.x.end(), solutions[other].x.begin(), solutions[other].x.end());
  return whole;
}

#else

bool has_threads() noexcept { return false; }

solution solve_by_threads(const csr_matrix&, std::span<const double>, const solver_options&,
                          std::size_t, double&) {
  throw std::logic_error("this program was compiled without OpenMP");
}

#endif

} // namespace cg
