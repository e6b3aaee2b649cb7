// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>

#include <gtest/gtest.h>

namespace farcall::test {

/// A temporary folder of shell scripts that replace gdb and addr2line, which find the source lines
/// of a fault.
class helper_programs {
 public:
  helper_programs(std::initializer_list<const char*> names, const std::string& script) {
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    for (const char* const name : names) {
      std::ofstream(file(name)) << "#!/bin/sh\n" << script;
      std::filesystem::permissions(file(name), std::filesystem::perms::owner_all);
    }
  }
  helper_programs(const helper_programs&) = delete;
  helper_programs& operator=(const helper_programs&) = delete;
  ~helper_programs() { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string file(const std::string& name) const { return folder_ + "/" + name; }
  /// Returns a value of PATH that finds these scripts before other programs.
  [[nodiscard]] std::string path() const {
    const char* const others = std::getenv("PATH");
    return folder_ + ":" + (others == nullptr ? "/usr/bin:/bin" : others);
  }

 private:
  std::string folder_ = testing::TempDir() + "helpers-XXXXXX";
};

} // namespace farcall::test
