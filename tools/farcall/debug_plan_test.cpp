// SPDX-License-Identifier: Apache-2.0
#include "debug_plan.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

namespace farcall::tool {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class debug_plan_test : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    for (const char* name : {"gdb", "valgrind", "strace"})
      install(name);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void install(const std::string& name) const {
    std::ofstream(folder_ + "/" + name) << "#!/bin/sh\n";
    std::filesystem::permissions(folder_ + "/" + name, std::filesystem::perms::owner_all);
  }
  void remove(const std::string& name) const { std::filesystem::remove(folder_ + "/" + name); }

  [[nodiscard]] debug_plan plan(const debug_request& request, bool has_terminal = false,
                                const std::string& targets = "shm:2") const {
    return plan_debugging(request, parse_targets(targets), {"/bin/farcall", folder_, has_terminal});
  }

  [[nodiscard]] std::string refusal(const debug_request& request,
                                    const std::string& targets = "shm:2") const {
    try {
      (void)plan(request, false, targets);
    } catch (const usage_problem& e) {
      return e.what();
    } catch (const setting_error& e) {
      return e.what();
    }
    return "none";
  }

  std::string folder_ = testing::TempDir() + "farcall_debug_plan-" + std::to_string(getpid());
};

TEST_F(debug_plan_test, puts_gdb_before_the_host) {
  const debug_plan made = plan({.gdb = "0"});
  EXPECT_EQ(made.host.front(), "gdb");
  EXPECT_EQ(made.host.back(), "--args");
  EXPECT_THAT(made.host, Contains("-batch"));
  EXPECT_EQ(made.targets, "");
  EXPECT_FALSE(made.has_timeouts);
}

TEST_F(debug_plan_test, puts_gdb_before_one_target) {
  const debug_plan made = plan({.gdb = "2"});
  EXPECT_THAT(made.host, IsEmpty());
  EXPECT_THAT(made.targets, StartsWith("2:gdb -q -batch "));
  EXPECT_FALSE(made.takes_terminal);
}

TEST_F(debug_plan_test, gives_the_terminal_to_the_debugger_alone) {
  const debug_plan target = plan({.gdb = "1"}, true);
  EXPECT_THAT(target.targets, StartsWith("1:/bin/farcall process-group --terminal -- gdb -q "));
  EXPECT_THAT(target.targets, Not(HasSubstr("-batch")));
  EXPECT_TRUE(target.takes_terminal);
  const debug_plan host = plan({.gdb = "0"}, true);
  EXPECT_THAT(host.host, Not(Contains("-batch")));
  EXPECT_EQ(host.targets, "/bin/farcall process-group --");
  EXPECT_FALSE(host.takes_terminal);
}

TEST_F(debug_plan_test, puts_valgrind_before_all_or_one) {
  const debug_plan all = plan({.valgrind = "all"});
  EXPECT_THAT(all.host, ElementsAre("valgrind"));
  EXPECT_EQ(all.targets, "valgrind");
  EXPECT_FALSE(all.has_timeouts);
  EXPECT_TRUE(all.has_little_memory);
  EXPECT_EQ(plan({.valgrind = "1"}).targets, "1:valgrind");
  EXPECT_THAT(plan({.valgrind = "1"}).host, IsEmpty());
  EXPECT_EQ(plan({.valgrind = "0"}).targets, "");
}

TEST_F(debug_plan_test, puts_any_command_before_nodes) {
  const debug_plan made = plan({.wrap = "strace -f;2:gdb --args"});
  EXPECT_THAT(made.host, ElementsAre("strace", "-f"));
  EXPECT_EQ(made.targets, "strace -f;2:gdb --args");
  EXPECT_TRUE(made.has_timeouts);
}

TEST_F(debug_plan_test, refuses_impossible_requests) {
  EXPECT_THAT(refusal({.gdb = "1", .valgrind = "all"}), HasSubstr("give one of them"));
  EXPECT_THAT(refusal({.gdb = "1", .wrap = "strace"}), HasSubstr("give one of them"));
  EXPECT_THAT(refusal({.gdb = "3"}),
              HasSubstr("--gdb=3: there is no node 3; take one from 0, the host, to 2"));
  EXPECT_THAT(refusal({.valgrind = "x"}), HasSubstr("give the number of a node"));
  EXPECT_THAT(refusal({.wrap = "7:strace"}), HasSubstr("there is no node 7"));
  EXPECT_THAT(refusal({.wrap = "2:"}), HasSubstr("there is no command"));
  EXPECT_THAT(refusal({.wrap = "no-such-tool"}), HasSubstr("no-such-tool: no such program"));
  EXPECT_THAT(refusal({.gdb = "2"}, "shm,tcp://there:7070"),
              HasSubstr("node 2 is not started on this machine (tcp)"));
  EXPECT_EQ(refusal({.gdb = "1"}, "shm,tcp://there:7070"), "none");
}

TEST_F(debug_plan_test, names_missing_programs) {
  remove("gdb");
  remove("valgrind");
  EXPECT_THAT(refusal({.gdb = "0"}), HasSubstr("--gdb: gdb is not installed"));
  EXPECT_THAT(refusal({.valgrind = "all"}), HasSubstr("--valgrind: valgrind is not installed"));
}

} // namespace
} // namespace farcall::tool
