// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tests/support.hpp>

#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <string>

#include <sys/types.h>

namespace farcall::test {

/// Stops a process. Waits until none of its threads runs, since SIGSTOP stops them one after
/// another.
inline void stop_process(pid_t pid) {
  // Returns the letter of the state, which follows the program's name.
  const auto state = [pid] {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(file, text);
    const auto at = text.rfind(')');
    return at == std::string::npos || at + 2 >= text.size() ? '?' : text[at + 2];
  };
  ::kill(pid, SIGSTOP);
  EXPECT_TRUE(eventually([&] { return state() == 'T'; })) << "it was not stopped";
}

} // namespace farcall::test
