// SPDX-License-Identifier: Apache-2.0
#include "cg.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <stdexcept>

namespace cg {
namespace {

using testing::Each;
using testing::ElementsAre;

/// Returns a matrix with rows of the given lengths, all values 1.
csr_matrix with_row_lengths(const std::vector<std::size_t>& lengths) {
  csr_matrix m;
  for (const std::size_t length : lengths) {
    for (std::size_t k = 0; k < length; ++k) {
      m.column.push_back(static_cast<std::uint32_t>(k));
      m.value.push_back(1);
    }
    m.row_start.push_back(m.value.size());
  }
  return m;
}

TEST(poisson, one_point) {
  const auto m = poisson(1);
  EXPECT_THAT(m.value, ElementsAre(6));
  EXPECT_THAT(m.column, ElementsAre(0));
}

TEST(poisson, counts_and_row_sums) {
  const std::uint64_t n = 5;
  const auto m = poisson(n);
  EXPECT_EQ(m.rows(), n * n * n);
  EXPECT_EQ(m.nonzeros(), 7 * n * n * n - 6 * n * n);
  std::vector<double> ones(m.rows(), 1.0);
  std::vector<double> sums(m.rows());
  multiply(m, ones, sums);
  EXPECT_EQ(sums[0], 3);                     // a corner lacks three neighbours
  EXPECT_EQ(sums[2 * n * n + 2 * n + 2], 0); // an inner point lacks none
  EXPECT_THAT(diagonal(m), Each(6));
}

TEST(poisson, is_symmetric_and_sorted) {
  const auto m = poisson(4);
  const auto at = [&](std::size_t row, std::uint32_t column) {
    for (auto k = m.row_start[row]; k < m.row_start[row + 1]; ++k) {
      if (m.column[k] == column) return m.value[k];
    }
    return std::numeric_limits<double>::quiet_NaN();
  };
  for (std::uint32_t row = 0; row < m.rows(); ++row) {
    for (auto k = m.row_start[row]; k < m.row_start[row + 1]; ++k) {
      EXPECT_EQ(at(m.column[k], row), m.value[k]);
      if (k > m.row_start[row]) {
        EXPECT_LT(m.column[k - 1], m.column[k]);
      }
    }
  }
}

TEST(poisson, refuses_sizes_that_would_overflow) {
  EXPECT_THROW(poisson(0), std::invalid_argument);
  EXPECT_THROW(poisson(1291), std::invalid_argument);
  EXPECT_THROW(poisson(std::numeric_limits<std::uint64_t>::max()), std::invalid_argument);
}

TEST(poisson, bytes_are_what_it_takes) {
  const auto m = poisson(20);
  const auto used = static_cast<double>(m.nonzeros() * 12 + m.row_start.size() * 8);
  EXPECT_GE(poisson_bytes(20), used);
  EXPECT_LT(poisson_bytes(20), 1.1 * used);
}

TEST(balance_rows, equal_rows) {
  const auto m = with_row_lengths({2, 2, 2, 2, 2, 2});
  EXPECT_THAT(balance_rows(m, 3), ElementsAre(row_range{0, 2}, row_range{2, 4}, row_range{4, 6}));
}

TEST(balance_rows, counts_nonzeros_not_rows) {
  const auto m = with_row_lengths({6, 1, 1, 1, 1, 1, 1});
  EXPECT_THAT(balance_rows(m, 2), ElementsAre(row_range{0, 1}, row_range{1, 7}));
}

TEST(balance_rows, more_parts_than_rows) {
  const auto m = with_row_lengths({1, 1});
  EXPECT_THAT(balance_rows(m, 5), ElementsAre(row_range{0, 1}, row_range{1, 2}));
}

TEST(balance_rows, is_empty_without_rows_or_parts) {
  EXPECT_TRUE(balance_rows(csr_matrix{}, 3).empty());
  EXPECT_TRUE(balance_rows(with_row_lengths({1}), 0).empty());
}

TEST(balance_rows, covers_every_row_once_and_about_evenly) {
  std::mt19937 random{1};
  for (int round = 0; round < 200; ++round) {
    std::vector<std::size_t> lengths(random() % 300 + 1);
    for (auto& length : lengths)
      length = random() % 20 + 1;
    const auto m = with_row_lengths(lengths);
    const std::size_t parts = random() % 17 + 1;
    const auto ranges = balance_rows(m, parts);
    ASSERT_EQ(ranges.size(), std::min(parts, lengths.size()));
    std::size_t next = 0;
    for (const auto& range : ranges) {
      ASSERT_EQ(range.first, next);
      ASSERT_GT(range.size(), 0U);
      next = range.last;
      const auto share = m.row_start[range.last] - m.row_start[range.first];
      ASSERT_LE(share, m.nonzeros() / ranges.size() + 40);
    }
    ASSERT_EQ(next, m.rows());
  }
}

TEST(extract, blocks_multiply_like_the_whole) {
  const auto m = poisson(6);
  std::vector<double> p(m.rows());
  for (std::size_t i = 0; i < p.size(); ++i)
    p[i] = static_cast<double>(i * i % 17) / 3;
  std::vector<double> whole(m.rows());
  multiply(m, p, whole);
  for (const auto& range : balance_rows(m, 5)) {
    const auto block = extract(m, range);
    EXPECT_LT(block.columns, m.rows());
    std::vector<double> q(range.size());
    multiply_rows(block.row_start, block.column, block.value,
                  std::span{p}.subspan(block.first_column, block.columns), q);
    for (std::size_t i = 0; i < q.size(); ++i)
      EXPECT_EQ(q[i], whole[range.first + i]);
  }
}

} // namespace
} // namespace cg
