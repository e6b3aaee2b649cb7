// SPDX-License-Identifier: Apache-2.0
#include "cg.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace cg {
namespace {

csr_matrix dense(const std::vector<std::vector<double>>& rows) {
  csr_matrix m;
  for (const auto& row : rows) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      if (row[column] == 0) continue;
      m.column.push_back(static_cast<std::uint32_t>(column));
      m.value.push_back(row[column]);
    }
    m.row_start.push_back(m.value.size());
  }
  return m;
}

solution solve(const csr_matrix& m, const std::vector<double>& b, const solver_options& options,
               const observer& tell = {}) {
  return conjugate_gradient([&](auto p, auto q) { multiply(m, p, q); }, b, diagonal(m), options,
                            tell);
}

class solver : public testing::TestWithParam<preconditioner> {};
INSTANTIATE_TEST_SUITE_P(, solver, testing::Values(preconditioner::none, preconditioner::jacobi),
                         [](const auto& info) {
                           return info.param == preconditioner::none ? "none" : "jacobi";
                         });

TEST_P(solver, small_system_by_hand) {
  // 4x + y = 1, x + 3y = 2 has the solution (1/11, 7/11).
  const auto x =
      solve(dense({{4, 1}, {1, 3}}), {1, 2}, {.tolerance = 1e-14, .precondition = GetParam()});
  EXPECT_EQ(x.how, outcome::converged);
  EXPECT_LE(x.iterations, 3U);
  EXPECT_NEAR(x.x[0], 1.0 / 11, 1e-14);
  EXPECT_NEAR(x.x[1], 7.0 / 11, 1e-14);
}

TEST_P(solver, finds_a_known_solution) {
  const auto m = poisson(12);
  std::vector<double> wanted(m.rows());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    wanted[i] = std::sin(static_cast<double>(i));
  std::vector<double> b(m.rows());
  multiply(m, wanted, b);
  const auto x = solve(m, b, {.tolerance = 1e-12, .precondition = GetParam()});
  EXPECT_EQ(x.how, outcome::converged);
  EXPECT_LT(relative_difference(x.x, wanted), 1e-10);
  EXPECT_LT(true_residual(m, x.x, b), 1e-11);
}

TEST_P(solver, counts_iterations_as_products) {
  const auto m = poisson(5);
  const std::vector<double> b(m.rows(), 1.0);
  std::uint64_t products = 0;
  std::uint64_t told = 0;
  const auto x = conjugate_gradient(
      [&](auto p, auto q) {
        ++products;
        multiply(m, p, q);
      },
      b, diagonal(m), {.precondition = GetParam()},
      [&](std::uint64_t iteration, double) { EXPECT_EQ(iteration, ++told); });
  EXPECT_EQ(products, x.iterations);
  EXPECT_EQ(told, x.iterations);
}

TEST_P(solver, gives_up_at_the_limit) {
  const auto m = poisson(10);
  const auto x = solve(m, std::vector<double>(m.rows(), 1.0),
                       {.max_iterations = 3, .precondition = GetParam()});
  EXPECT_EQ(x.how, outcome::too_many_iterations);
  EXPECT_EQ(x.iterations, 3U);
  EXPECT_GT(x.residual, 1e-10);
}

TEST_P(solver, limit_of_zero_computes_nothing) {
  const auto x = solve(poisson(2), std::vector<double>(8, 1.0),
                       {.max_iterations = 0, .precondition = GetParam()});
  EXPECT_EQ(x.how, outcome::too_many_iterations);
  EXPECT_EQ(x.iterations, 0U);
  EXPECT_EQ(x.residual, 1);
}

TEST_P(solver, zero_right_hand_side) {
  const auto x = solve(poisson(3), std::vector<double>(27, 0.0), {.precondition = GetParam()});
  EXPECT_EQ(x.how, outcome::converged);
  EXPECT_EQ(x.iterations, 0U);
  EXPECT_THAT(x.x, testing::Each(0));
}

TEST_P(solver, notices_an_indefinite_matrix) {
  // Positive diagonal, symmetric, and yet (1, -1) has a negative energy.
  const auto x = solve(dense({{1, 2}, {2, 1}}), {1, -1}, {.precondition = GetParam()});
  EXPECT_EQ(x.how, outcome::not_positive_definite);
}

TEST_P(solver, notices_numbers_out_of_range) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto m = poisson(2);
  std::vector<double> b(8, 1.0);
  b[3] = infinity;
  EXPECT_EQ(solve(m, b, {.precondition = GetParam()}).how, outcome::not_finite);
  b[3] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(solve(m, b, {.precondition = GetParam()}).how, outcome::not_finite);
  const auto broken = [](auto, std::span<double> q) { std::ranges::fill(q, std::nan("")); };
  b[3] = 1;
  EXPECT_EQ(conjugate_gradient(broken, b, diagonal(m), {.precondition = GetParam()}).how,
            outcome::not_finite);
}

TEST_P(solver, units_do_not_matter) {
  for (const double unit : {1e-300, 1e-160, 1e160, 1e300}) {
    auto m = poisson(3);
    for (double& value : m.value)
      value *= unit;
    std::vector<double> wanted(m.rows());
    for (std::size_t i = 0; i < wanted.size(); ++i)
      wanted[i] = static_cast<double>(i + 1);
    std::vector<double> b(m.rows());
    multiply(m, wanted, b);
    const auto x = solve(m, b, {.precondition = GetParam()});
    EXPECT_EQ(x.how, outcome::converged) << unit;
    EXPECT_LT(relative_difference(x.x, wanted), 1e-8) << unit;
    EXPECT_LT(true_residual(m, x.x, b), 1e-9) << unit;
  }
}

TEST_P(solver, same_products_give_the_same_bits) {
  const auto m = poisson(9);
  const std::vector<double> b(m.rows(), 1.0);
  const solver_options options{.precondition = GetParam()};
  EXPECT_EQ(solve(m, b, options).x, solve(m, b, options).x);
}

TEST(jacobi, helps_where_the_diagonal_is_uneven) {
  const std::size_t n = 200;
  csr_matrix m;
  for (std::size_t i = 0; i < n; ++i) {
    const double scale = std::pow(10.0, static_cast<double>(i % 7));
    if (i > 0) {
      m.column.push_back(static_cast<std::uint32_t>(i - 1));
      m.value.push_back(-0.1);
    }
    m.column.push_back(static_cast<std::uint32_t>(i));
    m.value.push_back(scale);
    if (i + 1 < n) {
      m.column.push_back(static_cast<std::uint32_t>(i + 1));
      m.value.push_back(-0.1);
    }
    m.row_start.push_back(m.value.size());
  }
  const std::vector<double> b(n, 1.0);
  const auto plain = solve(m, b, {.precondition = preconditioner::none});
  const auto scaled = solve(m, b, {.precondition = preconditioner::jacobi});
  EXPECT_EQ(scaled.how, outcome::converged);
  EXPECT_LT(scaled.iterations * 2, plain.iterations);
}

TEST(true_residual, is_computed_for_a_wrong_solution) {
  const auto m = dense({{2, 0}, {0, 2}});
  EXPECT_EQ(true_residual(m, std::vector<double>{0, 0}, std::vector<double>{3, 4}), 1);
  EXPECT_EQ(true_residual(m, std::vector<double>{1.5, 2}, std::vector<double>{3, 4}), 0);
  EXPECT_EQ(true_residual(m, std::vector<double>{3, 4}, std::vector<double>{0, 0}), 10);
  EXPECT_TRUE(std::isnan(
      true_residual(m, std::vector<double>{std::nan(""), 0}, std::vector<double>{3, 4})));
}

TEST(relative_difference, of_vectors) {
  const std::vector<double> y{3, 4};
  EXPECT_EQ(relative_difference(y, y), 0);
  EXPECT_EQ(relative_difference(std::vector<double>{0, 0}, y), 1);
}

TEST(missing_gain, depends_on_the_time_of_an_iteration) {
  // An iteration takes 50 µs in the first case, and 100 µs in the second.
  EXPECT_EQ(missing_gain(2, 0.006, 0.005, 100),
            "this matrix is too small to gain by targets: an iteration takes one thread 50.0 us");
  EXPECT_THAT(missing_gain(2, 0.01, 0.01, 100), testing::StartsWith("targets gained nothing: "));
  EXPECT_THAT(missing_gain(2, 2.0, 1.0, 0), testing::StartsWith("targets gained nothing: "));
}

TEST(missing_gain, is_no_text_if_targets_gained_or_could_not) {
  EXPECT_EQ(missing_gain(2, 0.004, 0.005, 100), "");
  EXPECT_EQ(missing_gain(1, 0.006, 0.005, 100), "") << "one target works like one thread";
}

} // namespace
} // namespace cg
