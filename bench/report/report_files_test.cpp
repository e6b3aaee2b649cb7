// SPDX-License-Identifier: Apache-2.0
#include "report_files.hpp"

#include <tools/common/outcome.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include <unistd.h>

namespace farcall::tool {
namespace {

namespace fs = std::filesystem;

class report_files_test : public testing::Test {
 protected:
  report_files_test() {
    std::string made = (fs::temp_directory_path() / "report-XXXXXX").string();
    folder_ = mkdtemp(made.data());
    files_.html = (folder_ / "page.html").string();
    files_.script = FARCALL_CHARTS;
  }
  ~report_files_test() override { fs::remove_all(folder_); }

  static std::string content(const fs::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  report measured_{
      "bench", "", "here", {row_chart{"", "", {}, {{"row", only(3), only(2), ""}}}}, {}};
  fs::path folder_;
  report_files files_;
};

TEST_F(report_files_test, leave_no_file_behind_until_they_are_written) {
  files_.check();
  EXPECT_FALSE(fs::exists(files_.html)) << "an interrupted run leaves nothing";
  files_.write(measured_);
  EXPECT_TRUE(content(files_.html).ends_with("</html>\n"));
}

TEST_F(report_files_test, replace_all_of_a_file_and_not_before) {
  std::ofstream(files_.html) << std::string(1'000'000, 'x');
  files_.check();
  EXPECT_EQ(fs::file_size(files_.html), 1'000'000U);
  files_.write(measured_);
  EXPECT_EQ(content(files_.html).find("xxx"), std::string::npos);
}

TEST_F(report_files_test, refuse_what_cannot_be_written) {
  files_.html = (folder_ / "none" / "page.html").string();
  EXPECT_THROW(files_.check(), usage_problem);
  files_.html = folder_.string();
  EXPECT_THROW(files_.check(), usage_problem);
}

TEST_F(report_files_test, refuse_the_same_file_under_two_names) {
  files_.svg = (folder_ / "." / "page.html").string();
  EXPECT_THROW(files_.check(), usage_problem);
  EXPECT_FALSE(fs::exists(files_.html));

  std::ofstream(files_.html) << "kept";
  files_.svg = (folder_ / "link").string();
  fs::create_symlink(files_.html, files_.svg);
  EXPECT_THROW(files_.check(), usage_problem);
  EXPECT_EQ(content(files_.html), "kept");
}

TEST_F(report_files_test, tell_of_a_full_disk) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  files_.html = "/dev/full";
  files_.check();
  try {
    files_.write(measured_);
    FAIL() << "a full disk was not noticed";
  } catch (const failed_run& e) {
    EXPECT_NE(std::string(e.what()).find("cannot write /dev/full: "), std::string::npos)
        << e.what();
  }
}

TEST_F(report_files_test, are_refused_without_the_script_that_draws) {
  files_.script = (folder_ / "none").string();
  EXPECT_THROW(files_.check(), failed_run);
  EXPECT_FALSE(fs::exists(files_.html));
}

TEST_F(report_files_test, are_not_touched_if_the_script_fails) {
  files_.script = (folder_ / "charts").string();
  std::ofstream(files_.script) << "raise SystemExit('no paper')";
  std::ofstream(files_.html) << "kept";
  files_.check();
  try {
    files_.write(measured_);
    FAIL() << "a script that fails was not noticed";
  } catch (const failed_run& e) {
    EXPECT_EQ(std::string(e.what()),
              "cannot draw the charts: " + files_.script + " ended with status 1: no paper\n");
  }
  EXPECT_EQ(content(files_.html), "kept");
}

TEST_F(report_files_test, are_not_touched_without_figures) {
  std::ofstream(files_.html) << "kept";
  files_.check();
  EXPECT_THROW(files_.write({"bench", "", "", {}, {}}), failed_run);
  EXPECT_EQ(content(files_.html), "kept");
}

} // namespace
} // namespace farcall::tool
