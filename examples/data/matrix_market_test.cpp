// SPDX-License-Identifier: Apache-2.0
#include "matrix.hpp"
#include "text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

namespace cg {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* good_header = "%%MatrixMarket matrix coordinate real symmetric\n";

csr_matrix parse(const std::string& text) {
  std::istringstream in{text};
  return parse_matrix_market(in, "t.mtx");
}

std::string complaint(const std::string& text) {
  try {
    parse(text);
  } catch (const input_error& e) {
    return e.what();
  }
  return "no complaint";
}

TEST(matrix_market, symmetric_file_gets_both_triangles) {
  const auto m =
      parse(std::string{good_header} + "% a comment\n\n3 3 4\n1 1 4\n2 2 5\n3 1 -1\n3 3 6\n");
  EXPECT_EQ(m.rows(), 3U);
  EXPECT_THAT(m.row_start, ElementsAre(0, 2, 3, 5));
  EXPECT_THAT(m.column, ElementsAre(0, 2, 1, 0, 2));
  EXPECT_THAT(m.value, ElementsAre(4, -1, 5, -1, 6));
}

TEST(matrix_market, general_file_with_symmetric_entries) {
  const auto m = parse("%%MatrixMarket matrix coordinate real general\n2 2 4\n2 1 -1\n1 1 2\n"
                       "1 2 -1\n2 2 2\n");
  EXPECT_THAT(m.column, ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(m.value, ElementsAre(2, -1, -1, 2));
}

TEST(matrix_market, accepts_what_writers_do) {
  EXPECT_EQ(
      parse("%%matrixmarket MATRIX Coordinate Integer Symmetric\r\n1 1 1\r\n1 1 7\r\n").value[0],
      7);
  EXPECT_EQ(parse(std::string{good_header} + "  1\t1  1 \n +1 1 +2.5e+0 ").value[0], 2.5);
  EXPECT_EQ(parse(std::string{good_header} + "1 1 1\n1 1 1\n\n \n").nonzeros(), 1U);
}

TEST(matrix_market, general_file_may_differ_by_rounding_only) {
  const std::string head = "%%MatrixMarket matrix coordinate real general\n2 2 4\n1 1 2\n2 2 2\n";
  EXPECT_NO_THROW(parse(head + "1 2 0.1\n2 1 0.10000000000000001\n"));
  EXPECT_EQ(complaint(head + "1 2 0.1\n2 1 0.1000001\n"),
            "t.mtx:5: the matrix is not symmetric: entry (1, 2) is 0.1 but (2, 1) is 0.1000001");
  // An explicit zero on one side only is allowed.
  EXPECT_NO_THROW(
      parse("%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 2\n2 2 2\n2 1 0\n"));
}

struct bad_text {
  const char* name;
  std::string text;
  const char* message;
};

std::ostream& operator<<(std::ostream& out, const bad_text& t) { return out << t.name; }

class refused : public testing::TestWithParam<bad_text> {};

TEST_P(refused, names_line_and_cause) {
  const std::string message = complaint(GetParam().text);
  EXPECT_EQ(message, GetParam().message);
  EXPECT_THAT(message, Not(HasSubstr("\n")));
}

std::string with_size(const std::string& rest) { return good_header + rest; }

INSTANTIATE_TEST_SUITE_P(
    matrix_market, refused,
    testing::Values(
        bad_text{"empty", "",
                 "t.mtx:1: the file is empty; a Matrix Market file starts with %%MatrixMarket"},
        bad_text{"no_banner", "3 3 4\n",
                 "t.mtx:1: the first line must start with %%MatrixMarket, not '3 3 4'"},
        bad_text{
            "short_banner", "%%MatrixMarket matrix\n",
            "t.mtx:1: the header must read '%%MatrixMarket matrix coordinate real symmetric', not "
            "'%%MatrixMarket matrix'"},
        bad_text{"array", "%%MatrixMarket matrix array real symmetric\n",
                 "t.mtx:1: format 'array' in the header cannot be used; it must be coordinate"},
        bad_text{"vector", "%%MatrixMarket vector coordinate real symmetric\n",
                 "t.mtx:1: object 'vector' in the header cannot be used; it must be matrix"},
        bad_text{
            "complex", "%%MatrixMarket matrix coordinate complex symmetric\n",
            "t.mtx:1: field 'complex' in the header cannot be used; it must be real or integer"},
        bad_text{
            "pattern", "%%MatrixMarket matrix coordinate pattern symmetric\n",
            "t.mtx:1: field 'pattern' in the header cannot be used; it must be real or integer"},
        bad_text{
            "skew", "%%MatrixMarket matrix coordinate real skew-symmetric\n",
            "t.mtx:1: symmetry 'skew-symmetric' in the header cannot be used; it must be symmetric "
            "or general"},
        bad_text{"conjunction", "%%MatrixMarket matrix coordinate Or symmetric\n",
                 "t.mtx:1: field 'Or' in the header cannot be used; it must be real or integer"},
        bad_text{"only_header", with_size("% nothing\n"),
                 "t.mtx:2: the file ends before the line with its sizes"},
        bad_text{"two_sizes", with_size("3 3\n"),
                 "t.mtx:2: expected 'rows columns entries', not '3 3'"},
        bad_text{"not_square", with_size("3 4 4\n"),
                 "t.mtx:2: the matrix is not square: 3 rows and 4 columns"},
        bad_text{"no_rows", with_size("0 0 0\n"), "t.mtx:2: the matrix has no rows"},
        bad_text{"negative_size", with_size("-3 -3 4\n"),
                 "t.mtx:2: number of rows '-3' is not a whole number without sign"},
        bad_text{"overflowing_size", with_size("99999999999999999999 99999999999999999999 4\n"),
                 "t.mtx:2: number of rows '99999999999999999999' is too large"},
        bad_text{"too_many_rows", with_size("4294967297 4294967297 4294967297\n"),
                 "t.mtx:2: 4294967297 rows are more than the 2147483647 that this program handles"},
        bad_text{"more_entries_than_places", with_size("3 3 7\n"),
                 "t.mtx:2: 7 entries are more than a symmetric matrix of 3 rows can have"},
        bad_text{
            "fewer_entries_than_rows", with_size("2000000000 2000000000 1\n1 1 1\n"),
            "t.mtx:2: 1 entries for 2000000000 rows leave some row without diagonal entry; the "
            "matrix is not positive definite"},
        bad_text{"truncated_at_line", with_size("3 3 4\n1 1 4\n2 2 5\n"),
                 "t.mtx:4: the file ends after 2 of the 4 entries promised on line 2"},
        bad_text{"truncated_in_line", with_size("3 3 4\n1 1 4\n2 2"),
                 "t.mtx:4: expected 'row column value', not '2 2'"},
        bad_text{"promised_far_too_many", with_size("2000000000 2000000000 2000000000\n1 1 4\n"),
                 "t.mtx:3: the file ends after 1 of the 2000000000 entries promised on line 2"},
        bad_text{"one_too_many", with_size("1 1 1\n1 1 4\n\n1 1 5\n"),
                 "t.mtx:5: more entries than the 1 promised on line 2"},
        bad_text{"row_zero", with_size("2 2 2\n1 1 4\n0 2 5\n"),
                 "t.mtx:4: row '0' is outside 1 to 2"},
        bad_text{"row_beyond", with_size("2 2 2\n1 1 4\n3 2 5\n"),
                 "t.mtx:4: row '3' is outside 1 to 2"},
        bad_text{"column_beyond", with_size("2 2 2\n1 1 4\n2 3 5\n"),
                 "t.mtx:4: column '3' is outside 1 to 2"},
        bad_text{"index_wraps", with_size("2 2 2\n1 1 4\n4294967298 2 5\n"),
                 "t.mtx:4: row '4294967298' is outside 1 to 2"},
        bad_text{"index_negative", with_size("2 2 2\n1 1 4\n-1 2 5\n"),
                 "t.mtx:4: row '-1' is not a whole number without sign"},
        bad_text{"index_fraction", with_size("2 2 2\n1 1 4\n1.5 2 5\n"),
                 "t.mtx:4: row '1.5' is not a whole number without sign"},
        bad_text{
            "duplicate", with_size("2 2 3\n1 1 4\n2 2 5\n1 1 4\n"),
            "t.mtx:5: entry (1, 1) or its mirror image is given a second time, first on line 3"},
        bad_text{
            "both_triangles", with_size("2 2 3\n1 1 4\n1 2 5\n2 1 5\n"),
            "t.mtx:5: entry (1, 2) or its mirror image is given a second time, first on line 4"},
        bad_text{"not_a_number", with_size("1 1 1\n1 1 four\n"),
                 "t.mtx:3: value 'four' is not a number"},
        bad_text{
            "fortran_exponent", with_size("1 1 1\n1 1 +1.5D+03\n"),
            "t.mtx:3: value '+1.5D+03' has the exponent letter D, as Fortran writes it; replace "
            "it by E"},
        bad_text{"letter_d_elsewhere", with_size("1 1 1\n1 1 D5\n"),
                 "t.mtx:3: value 'D5' is not a number"},
        bad_text{
            "byte_order_mark", "\xef\xbb\xbf%%MatrixMarket matrix coordinate real symmetric\n",
            "t.mtx:1: the file starts with a byte order mark; save it as UTF-8 without one, or "
            "as ASCII"},
        bad_text{"trailing_text", with_size("1 1 1\n1 1 4x\n"),
                 "t.mtx:3: value '4x' is not a number"},
        bad_text{"nan", with_size("1 1 1\n1 1 nan\n"), "t.mtx:3: value 'nan' is not finite"},
        bad_text{"minus_nan", with_size("1 1 1\n1 1 -NaN\n"),
                 "t.mtx:3: value '-NaN' is not finite"},
        bad_text{"infinity", with_size("1 1 1\n1 1 inf\n"), "t.mtx:3: value 'inf' is not finite"},
        bad_text{"too_large", with_size("1 1 1\n1 1 1e999\n"),
                 "t.mtx:3: value '1e999' does not fit a double"},
        bad_text{"extra_field", with_size("1 1 1\n1 1 1 0\n"),
                 "t.mtx:3: expected 'row column value', not '1 1 1 0'"},
        bad_text{
            "zero_diagonal", with_size("1 1 1\n1 1 0\n"),
            "t.mtx:3: diagonal entry (1, 1) is 0; a positive definite matrix has none that is zero "
            "or negative"},
        bad_text{
            "negative_diagonal", with_size("2 2 2\n1 1 1\n2 2 -3.5\n"),
            "t.mtx:4: diagonal entry (2, 2) is -3.5; a positive definite matrix has none that is "
            "zero or negative"},
        bad_text{"missing_diagonal", with_size("2 2 2\n1 1 4\n2 1 1\n"),
                 "t.mtx:2: row 2 has no diagonal entry; the matrix is not positive definite"},
        bad_text{"one_sided",
                 "%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 2\n2 2 2\n2 1 1\n",
                 "t.mtx:5: the matrix is not symmetric: entry (2, 1) is 1 but (1, 2) is missing"},
        bad_text{"control_characters", "\x01<\x7f>\n",
                 "t.mtx:1: the first line must start with %%MatrixMarket, not '?<?>'"}),
    [](const auto& info) { return std::string{info.param.name}; });

TEST(matrix_market, refuses_endless_lines) {
  EXPECT_EQ(complaint(std::string(100000, 'x')), "t.mtx:1: line is longer than 4095 characters");
  EXPECT_EQ(complaint(good_header + std::string(5000, ' ') + "\n"),
            "t.mtx:2: line is longer than 4095 characters");
}

TEST(matrix_market, longest_line_is_read) {
  EXPECT_EQ(parse(good_header + ("%" + std::string(4094, 'x')) + "\n1 1 1\n1 1 2\n").nonzeros(),
            1U);
}

TEST(matrix_market, quoted_input_is_cut) {
  EXPECT_LT(complaint(std::string(4000, 'x')).size(), 200U);
}

/// Damaged files give a matrix or a single clear message.
TEST(matrix_market, damaged_files_never_get_through_unnoticed) {
  const std::string good = with_size("4 4 7\n1 1 4\n2 2 4\n3 3 4\n4 4 4\n2 1 -1\n3 2 -1\n4 3 -1\n");
  std::mt19937 random{12345};
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (auto damage = random() % 3 + 1; damage > 0; --damage) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
      case 0:
        text[at] = static_cast<char>(random() % 256);
        break;
      case 1:
        text.erase(at, random() % 8);
        break;
      default:
        text.insert(at, 1, "0123456789 \n.-eE%"[random() % 17]);
      }
      if (text.empty()) text = " ";
    }
    try {
      const auto m = parse(text);
      ASSERT_EQ(m.column.size(), m.nonzeros());
      for (const auto column : m.column)
        ASSERT_LT(column, m.rows());
    } catch (const input_error& e) {
      ASSERT_THAT(e.what(), AllOf(StartsWith("t.mtx:"), Not(HasSubstr("\n"))));
    }
  }
}

class matrix_market_file : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_ = std::filesystem::path{testing::TempDir()} /
                                  ("matrix_market_" + std::to_string(std::random_device{}()));
};

std::string file_complaint(const std::filesystem::path& path) {
  try {
    read_matrix_market(path);
  } catch (const input_error& e) {
    return e.what();
  }
  return "no complaint";
}

TEST_F(matrix_market_file, is_read) {
  const auto path = folder_ / "good.mtx";
  std::ofstream{path} << good_header << "2 2 2\n1 1 4\n2 2 5\n";
  EXPECT_EQ(read_matrix_market(path).nonzeros(), 2U);
}

TEST_F(matrix_market_file, missing) {
  EXPECT_EQ(file_complaint(folder_ / "none.mtx"),
            (folder_ / "none.mtx").string() + ": cannot be opened: No such file or directory");
}

TEST_F(matrix_market_file, directory) {
  EXPECT_EQ(file_complaint(folder_),
            folder_.string() + ": is a directory, not a Matrix Market file");
}

TEST_F(matrix_market_file, bad_content_names_the_path) {
  const auto path = folder_ / "bad.mtx";
  std::ofstream{path} << good_header << "2 2 2\n1 1 4\n2 2 nan\n";
  EXPECT_EQ(file_complaint(path), path.string() + ":4: value 'nan' is not finite");
}

TEST(printable, replaces_and_cuts) {
  EXPECT_EQ(printable("a\nb\x1b[31m"), "a?b?[31m");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
}

} // namespace
} // namespace cg
