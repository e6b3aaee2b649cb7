// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace farcall::test {

/// True if every other thread of the process sleeps.
[[nodiscard]] inline bool others_sleep() {
  int awake = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream stat(task.path() / "stat");
    std::string line;
    std::getline(stat, line);
    // The thread's state follows its name in parentheses, which may contain any character.
    const auto end = line.rfind(')');
    if (end == std::string::npos || end + 2 >= line.size() || line[end + 2] != 'S') ++awake;
  }
  return awake <= 1;
}

} // namespace farcall::test
