// SPDX-License-Identifier: Apache-2.0
#include "veprof.hpp"

#include "example_profile.hpp"

#include <tools/common/outcome.hpp>

#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

// A file of SX-Aurora's tool: all counters, at 1400 MHz.
const std::string of_the_original =
    "# version;PMMR;hostname;card;mhz\n"
    "0.1;35459249995776;aurora;1;1400\n"
    "#samples;USRCC;EX;VX;FPEC;VE;VECC;L1MCC;VE2;VAREC;VLDEC;PCCC;PMC10;VLEC;VLCME;FMAEC;PTCC;TTCC;"
    "VL;symbol\n"
    "10;700000000;2000;1000;0;9000;0;0;0;0;0;0;0;0;0;0;0;0;0;scalar\n"
    "30;2100000000;3000;1000;4200000000;200000;1050000000;140000000;0;700000000;420000000;"
    "280000000;0;1000;250;"
    "2100000000;0;0;256;a::long_name<int;2>::of_a_kernel\n";

void expect_bad(const std::string& text, const std::string& words) {
  EXPECT_THAT([&] { (void)parse_veprof(text, "x.out"); },
              ThrowsMessage<failed_run>(HasSubstr(words)));
}

TEST(veprof, writes_samples_and_time) {
  const std::string text = veprof_text(example_profile(), "host;1");
  EXPECT_THAT(text, HasSubstr("\n0.1;0;host:1;-;1000\n"));
  EXPECT_THAT(text, HasSubstr("\n3;30000000;1;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;axpy\n"));
}

// Parses like veprof_display: splits lines, converts fields to numbers if possible, and divides.
TEST(veprof, writes_what_other_readers_can_split_and_divide) {
  profile seen = example_profile();
  seen.samples_per_second = 0;
  seen.frames[seen.stacks[seen.samples.front().stack].frame].function = "NaN";
  std::istringstream lines(veprof_text(seen, ""));
  std::string line;
  std::set<std::string> names;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream fields(line);
    std::vector<std::string> all;
    for (std::string field; std::getline(fields, field, ';');) {
      EXPECT_NE(field, "") << line;
      all.push_back(field);
    }
    if (number == 2) {
      EXPECT_EQ(all.size(), 5U) << line;
    }
    if (number <= 3) continue;
    ASSERT_EQ(all.size(), 20U) << line;
    for (std::size_t i = 0; i < 19; ++i)
      EXPECT_EQ(all[i].find_first_not_of("0123456789"), std::string::npos) << line;
    EXPECT_GT(std::stod(all[1]), 0) << "cycles: " << line;
    EXPECT_GT(std::stod(all[2]) - std::stod(all[3]) + std::stod(all[5]), 0) << line;
    names.insert(all[19]);
  }
  EXPECT_THAT(names, testing::Contains("NaN()"));
}

TEST(veprof, reads_what_it_wrote) {
  const veprof_file file = parse_veprof(veprof_text(example_profile(), "here"), "x.out");
  EXPECT_EQ(file.version, "0.1");
  EXPECT_EQ(file.host, "here");
  EXPECT_EQ(file.mhz, 1000);
  ASSERT_EQ(file.rows.size(), 5U);
  EXPECT_EQ(file.rows[0].samples, 3);
  EXPECT_EQ(file.rows[4].symbol, "a:b <&\"'��]]> operator()");
  EXPECT_EQ(file.rows[0][ve_counter::usrcc], 3e7);
  EXPECT_EQ(file.rows[0][ve_counter::ex], std::nullopt);
  EXPECT_EQ(file.rows[0][ve_counter::vl], std::nullopt);
}

TEST(veprof, shows_only_the_columns_that_it_knows) {
  EXPECT_EQ(veprof_table(parse_veprof(veprof_text(example_profile(), "here"), "x.out")),
            "FUNCTION              SAMPLES %     TIME %   TIME [s]\n"
            "axpy                       25.0       25.0      0.030\n"
            "serve                      25.0       25.0      0.030\n"
            "solve(matrix<double> const&)\n"
            "                           25.0       25.0      0.030\n"
            "wait                       16.7       16.7      0.020\n"
            "a:b <&\"'��]]> operator()\n"
            "                            8.3        8.3      0.010\n"
            "12 samples\n");
}

TEST(veprof, shows_what_the_counters_tell) {
  // Function of_a_kernel: 2.1e9 of 2.8e9 cycles, 1.5 s; vectors for half of it, 0.75 s, of which
  // 0.5 s compute and 0.3 s load; 200000 of 3000 - 1000 + 200000 operations; 4.2e9 floating-point
  // operations, and 2.1e9 more than instructions, in 1.5 s; 200 elements per instruction; 0.1 s and
  // 0.2 s lost; three of four elements from the cache.
  EXPECT_EQ(
      veprof_table(parse_veprof(of_the_original, "x.out")),
      "FUNCTION              SAMPLES %     TIME %   TIME [s]  VECTIME [s]    VTIME %  VARITHM [s]"
      "  VLOAD [s]      VOP %     MFLOPS       MOPS   AVG VLEN  L1$ MISS [s]  PRTCNF [s]"
      "  LLC$E HIT %\n"
      "a::long_name<int;2>::of_a_kernel\n"
      "                           75.0       75.0      1.500        0.750       50.0        0.500"
      "      0.300       99.0     2800.0     1400.1      200.0         0.100       0.200"
      "         75.0\n"
      "scalar                     25.0       25.0      0.500        0.000        0.0        0.000"
      "      0.000       90.0        0.0        0.0        9.0         0.000       0.000"
      "            -\n"
      "40 samples\n");
}

TEST(veprof, refuses_other_files) {
  expect_bad("", "x.out: the file is empty");
  expect_bad("one line\n", "line 2: there is none; it is no veprof.out");
  expect_bad("a\nb\nc\n", "line 2: 1 fields instead of 5; it is no veprof.out");
  expect_bad("a\n0.2;;;;\nc\n", "line 2: version \"0.2\" instead of 0.1");
  expect_bad("a\n0.1;;;;fast\nc\n", "line 2: \"fast\" is no frequency");
  expect_bad("a\n0.1;;;;0\nc\n", "line 2: \"0\" is no frequency");
  expect_bad("a\n0.1;;;;inf\nc\n", "line 2: \"inf\" is no frequency");
  expect_bad("a\n0.1;;;;1\nc\nx\n", "line 4: 1 fields, a function has 20");
  expect_bad("a\n0.1;;;;1\nc\n;;;;;;;;;;;;;;;;;;;f\n", "line 4: a function without samples");
  expect_bad("a\n0.1;;;;1\nc\n1;2x;;;;;;;;;;;;;;;;;;f\n", "line 4: \"2x\" is no number");
  expect_bad("a\n0.1;;;;1\nc\n-1;;;;;;;;;;;;;;;;;;;f\n", "line 4: \"-1\" is no number");
  expect_bad("a\n0.1;;;;1\nc\ninf;;;;;;;;;;;;;;;;;;;f\n", "line 4: \"inf\" is no number");
  expect_bad("a\n0.1;;;;1\nc\nnan;;;;;;;;;;;;;;;;;;;f\n", "line 4: \"nan\" is no number");
}

TEST(veprof, refuses_truncated_files) {
  const std::string whole = of_the_original;
  std::size_t lines = 0;
  for (std::size_t length = 1; length < whole.size(); ++length) {
    const bool ends_a_line = whole[length - 1] == '\n';
    lines += ends_a_line ? 1 : 0;
    const std::string part = whole.substr(0, length);
    if (ends_a_line && lines >= 3)
      EXPECT_NO_THROW((void)parse_veprof(part, "x.out"));
    else
      EXPECT_THROW((void)parse_veprof(part, "x.out"), failed_run) << length;
  }
}

TEST(veprof, prints_a_file) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::tmpfile(), std::fclose);
  EXPECT_THAT([&] { print_veprof(out.get(), "/nowhere/veprof.out"); },
              ThrowsMessage<failed_run>(HasSubstr("cannot read /nowhere/veprof.out: No such")));
  EXPECT_THAT([&] { print_veprof(out.get(), "/"); },
              ThrowsMessage<failed_run>(HasSubstr("cannot read /: Is a directory")));
}

} // namespace
} // namespace farcall::tool
