// SPDX-License-Identifier: Apache-2.0
#include "openmp_plugin.hpp"
#include "outcome.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

namespace farcall::tool::openmp_plugin_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

/// Writes a file in the folder for temporary files, and removes it at the end.
class temporary_file {
 public:
  explicit temporary_file(const std::string& content)
      : path_(testing::TempDir() + "farcall_openmp_plugin_test-" + std::to_string(getpid())) {
    std::ofstream{path_, std::ios::binary} << content;
  }
  temporary_file(const temporary_file&) = delete;
  temporary_file& operator=(const temporary_file&) = delete;
  ~temporary_file() { std::filesystem::remove(path_); }

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string message_of(const std::vector<std::string>& libraries) {
  try {
    (void)omptarget_version("./app", libraries);
  } catch (const usage_problem& e) {
    return e.what();
  }
  return "no usage_problem";
}

TEST(openmp_plugins, needed_libraries_are_read_from_a_program) {
  EXPECT_THAT(needed_libraries(own_program()), Contains(StartsWith("libc.so")));
}

TEST(openmp_plugins, scripts_need_no_libraries) {
  const temporary_file script("#!/bin/sh\nexec ./app\n");
  EXPECT_THAT(needed_libraries(script.path()), IsEmpty());
  const temporary_file empty("");
  EXPECT_THAT(needed_libraries(empty.path()), IsEmpty());
}

TEST(openmp_plugins, a_program_that_ends_early_is_refused) {
  std::ifstream whole{own_program(), std::ios::binary};
  std::string head(4096, '\0');
  whole.read(head.data(), static_cast<std::streamsize>(head.size()));
  const temporary_file damaged(head);
  EXPECT_THROW((void)needed_libraries(damaged.path()), failed_run);
}

TEST(openmp_plugins, the_version_is_the_one_of_the_library) {
  EXPECT_EQ(omptarget_version("./app", {"libm.so.6", "libomptarget.so.16"}), "16");
  EXPECT_EQ(omptarget_version("./app", {"libomptarget.so.15"}), "15");
  EXPECT_EQ(omptarget_version("./app", {"libm.so.6"}), "");
}

TEST(openmp_plugins, other_versions_are_refused_with_the_compilers_to_use) {
  EXPECT_THAT(message_of({"libomptarget.so.19.1"}), HasSubstr("./app uses libomptarget.so.19.1"));
  EXPECT_THAT(message_of({"libomptarget.so.14"}), HasSubstr("clang-15 or clang-16"));
  EXPECT_THAT(message_of({"libomptarget.so"}), HasSubstr("uses libomptarget.so"));
}

TEST(openmp_plugins, a_folder_comes_before_the_path) {
  EXPECT_EQ(path_with("/a", ""), "/a");
  EXPECT_EQ(path_with("/a", "/b:/c"), "/a:/b:/c");
}

} // namespace
} // namespace farcall::tool::openmp_plugin_test
