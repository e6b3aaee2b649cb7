// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/tcp/handshake.hpp>
#include <tests/command.hpp>
#include <tests/helper_programs.hpp>
#include <tests/network/proxy.hpp>
#include <tests/sanitizer.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

/// Tests of jobs of equals: calls and collectives over each transport, and the end of all nodes
/// when one ends.
namespace farcall::test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string program(const std::string& targets, const std::string& arguments) {
  return "env FARCALL_TARGETS=" + targets + " " FARCALL_SPMD_PROGRAM " " + arguments;
}

/// Text that the host prints once when a job fails.
constexpr const char* said_once = "all nodes are ended";

// ---- jobs without failures ----------------------------------------------------------------------

TEST(spmd, nodes_call_each_other_and_do_things_together) {
  for (const unsigned nodes : {4U, 3U, 1U}) {
    const std::string others =
        nodes == 1 ? std::string("none") : "shm:" + std::to_string(nodes - 1);
    command c(program(others, "works"));
    EXPECT_EQ(c.end(), 0) << c.text();
    EXPECT_EQ(c.count("works on"), nodes) << c.text();
    EXPECT_THAT(c.text(), Not(HasSubstr("farcall[")));
  }
}

/// Returns the URL of a program that serves; empty if it does not serve.
std::string url_of(command& server) {
  if (!server.says("tcp://") || !server.says("\n")) return {};
  const std::size_t from = server.text().find("tcp://");
  return server.text().substr(from, server.text().find_first_of(", \n", from) - from);
}

TEST(spmd, programs_serve_at_several_places) {
  command server(FARCALL_SPMD_PROGRAM
                 " works --farcall-serve=127.0.0.1:0,127.0.0.2:0 --farcall-plain=yes");
  EXPECT_TRUE(server.says("tcp://127.0.0.1:")) << server.text();
  EXPECT_TRUE(server.says("tcp://127.0.0.2:")) << server.text();
  ::kill(server.pid(), SIGTERM);
  EXPECT_EQ(server.end(), 0);
}

TEST(spmd, nodes_may_be_elsewhere) {
  command server(FARCALL_SPMD_PROGRAM " works --farcall-serve=127.0.0.1:0 --farcall-plain=yes");
  const std::string url = url_of(server);
  ASSERT_FALSE(url.empty()) << server.text();
  command c(program("'" + url + "?count=2,shm'", "works"));
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("works on"), 4U) << c.text();
  EXPECT_THAT(c.text(), Not(HasSubstr("farcall[")));

  command keeping(FARCALL_SPMD_PROGRAM " late 0 --farcall-serve=127.0.0.1:0 --farcall-plain=yes "
                                       "--farcall-keep-output=yes");
  command kept(program(url_of(keeping), "late 0"));
  EXPECT_EQ(kept.end(), 6) << kept.text();
  EXPECT_TRUE(keeping.says("after 1 of 2"));
  EXPECT_EQ(kept.count("after 1 of 2"), 0U) << kept.text();
  ::kill(keeping.pid(), SIGTERM);
  EXPECT_EQ(keeping.end(), 0);

  // The server reports the ends of its nodes.
  command failing(program("'" + url + ",shm'", "works 3"));
  EXPECT_EQ(failing.end(), 0) << failing.text();
  ::kill(server.pid(), SIGTERM);
  EXPECT_EQ(server.end(), 0) << server.text();
}

/// Waits for the handshake of the job's first lane. Returns false if the lane does not lead through
/// the proxy: its opener tries the server's own address, too, if the proxy is slow.
bool leads_lane(const proxy& between) {
  constexpr std::size_t lane = 1; // 0 is the control connection
  constexpr std::size_t first_words =
      sizeof(tcp::preamble) + sizeof(tcp::nonce) + sizeof(tcp::connect_request);
  while (between.recorded().size() <= lane || between.recorded().at(lane).size() < first_words) {
    if (between.has_ended(lane)) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// Ends the connection of a lane while one node computes and the other one is in a barrier. Returns
/// false if no lane leads through the proxy.
bool end_by_lost_lane(const std::string& computing_node) {
  const std::string does = "states " + computing_node + " barrier";
  command server(FARCALL_SPMD_PROGRAM " " + does +
                 " --farcall-serve=127.0.0.1:0 --farcall-plain=yes");
  const std::string url = url_of(server);
  EXPECT_FALSE(url.empty()) << server.text();
  if (url.empty()) return true;
  proxy between(static_cast<std::uint16_t>(std::stoul(url.substr(url.rfind(':') + 1))));
  command c(program(between.url(), does));
  // The node in the barrier opens a lane to the computing one.
  const bool is_led = leads_lane(between);
  if (is_led) {
    between.finish(1);
    EXPECT_EQ(c.end(), 1) << c.text();
    EXPECT_THAT(c.text(), HasSubstr("the connection of a lane between it and the host"));
    EXPECT_THAT(c.text(), HasSubstr("all nodes are ended"));
  } else {
    ::kill(c.pid(), SIGTERM);
    (void)c.end();
  }
  ::kill(server.pid(), SIGTERM);
  (void)server.end();
  return is_led;
}

// A barrier's messages may have been lost with the connection, so the job cannot go on.
TEST(spmd, a_lost_connection_of_a_lane_ends_the_job) {
  for (const char* const computing_node : {"0", "1"}) {
    while (!end_by_lost_lane(computing_node)) {
    }
  }
}

TEST(spmd, a_thread_of_its_own_may_run_handlers) {
  command c(program("shm:2", "thread"));
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("works on"), 3U) << c.text();
}

TEST(spmd, the_exit_status_includes_code_after_the_job) {
  for (const unsigned failing : {0U, 2U}) {
    command c(program("shm:2", "late " + std::to_string(failing)));
    EXPECT_EQ(c.end(), 6) << c.text();
    EXPECT_EQ(c.count(" of 3"), 3U) << c.text();
  }
}

// ---- jobs with failures -------------------------------------------------------------------------

struct way {
  const char* arguments; ///< way in which the node ends
  int status;            ///< exit status of the host if a target ends so
  int host_status;       ///< exit status of the host if it ends so itself
  const char* said;      ///< text that the host prints about a target
};

TEST(spmd, a_node_that_ends_ends_the_others) {
  const way ways[] = {{"exit", 3, 3, "exited with status 3 without closing"},
                      {"exit0", 1, 1, "exited with status 0 without closing"},
                      {"kill", 128 + SIGKILL, 128 + SIGKILL, "SIGKILL"},
                      {"handler", 3, 3, "exited with status 3 without closing"}};
  for (const way& w : ways) {
    for (const unsigned node : {0U, 2U}) {
      command c(program("shm:2", "ends " + std::to_string(node) + " " + w.arguments));
      EXPECT_EQ(c.end(), node == 0 ? w.host_status : w.status) << c.text();
      EXPECT_EQ(c.count(said_once), 1U) << c.text();
      if (node == 0) {
        EXPECT_THAT(c.text(), HasSubstr("the host (node 0)"));
      } else {
        EXPECT_THAT(c.text(), HasSubstr("node 2 (process "));
        EXPECT_THAT(c.text(), HasSubstr(w.said));
      }
    }
  }
}

TEST(spmd, an_exception_that_leaves_the_job_ends_the_others) {
  for (const unsigned node : {0U, 2U}) {
    command c(program("shm:2", "caught " + std::to_string(node) + " throw"));
    EXPECT_EQ(c.end(), 4) << c.text();
    EXPECT_EQ(c.count("caught: thrown out of main"), 1U) << c.text();
    EXPECT_EQ(c.count("has left its job of equals by an exception"), 1U) << c.text();
  }
  command c(program("shm:2", "ends 2 throw"));
  EXPECT_EQ(c.end(), 128 + SIGABRT) << c.text();
  // The log replaces line ends inside a message by this character.
  EXPECT_EQ(c.count("\uFFFD"), 0U) << c.text();
}

TEST(spmd, nodes_in_different_collectives_are_told_so) {
  command c(program("shm", "caught 1 mismatch"));
  EXPECT_EQ(c.end(), 4) << c.text();
  EXPECT_THAT(c.text(), HasSubstr("the nodes call different collectives"));
  command closing(program("shm:2", "closes 1"));
  EXPECT_EQ(closing.end(), 5) << closing.text();
  EXPECT_THAT(closing.text(), HasSubstr("in the end of the job"));
}

TEST(spmd, nodes_that_name_different_roots_are_told_so) {
  for (const char* chosen : {"1", "2", "3", "4"}) {
    command c(program("shm:3", std::string("roots ") + chosen));
    EXPECT_EQ(c.end(), 5) << chosen << ": " << c.text();
    EXPECT_THAT(c.text(), HasSubstr("root")) << chosen;
  }
  command same(program("shm:3", "roots 0"));
  EXPECT_EQ(same.end(), 0) << same.text();
}

TEST(spmd, killing_a_node_in_any_state_ends_all) {
  for (const char* state : {"computing", "waiting", "calling", "barrier", "closing"}) {
    for (const unsigned killed : {0U, 1U, 2U}) {
      // Node 2 computes.
      command c(program("shm:2", std::string("states 2 ") + state));
      for (const char* line : {"0 ", "1 ", "2 "})
        ASSERT_TRUE(c.says(line)) << c.text();
      while (c.process_of(killed) == 0)
        ASSERT_TRUE(c.says("\n", c.count("\n") + 1));
      ::kill(c.process_of(killed), SIGKILL);
      EXPECT_EQ(c.end(), 128 + SIGKILL) << state << " " << killed << ": " << c.text();
      EXPECT_EQ(c.count(said_once), 1U) << c.text();
    }
  }
}

TEST(spmd, a_fault_ends_the_others_before_its_report) {
  if (under_sanitizer) return; // a sanitizer reports faults itself
  const helper_programs slow({"gdb", "addr2line"}, "exec sleep 1000\n");
  command c("env PATH=" + slow.path() + " " + program("shm:2", "states 2 faulting"));
  EXPECT_EQ(c.end(), 128 + SIGSEGV) << c.text();
  EXPECT_EQ(c.count(said_once), 1U) << c.text();
  EXPECT_THAT(c.text(), HasSubstr("(SIGSEGV): at address 0x10, in farcall::test::"));
  EXPECT_EQ(c.count("takes too long"), 1U) << c.text();
  EXPECT_LT(c.text().find(said_once), c.text().find("takes too long")) << c.text();
}

/// Returns the number of direct children of a process.
std::size_t children_of(pid_t process) {
  const std::string number = std::to_string(process);
  std::ifstream file("/proc/" + number + "/task/" + number + "/children");
  std::size_t count = 0;
  for (pid_t child = 0; file >> child;)
    ++count;
  return count;
}

TEST(spmd, a_host_that_is_killed_ends_nodes_that_join) {
  // Node 2 never joins, so all nodes stay in the constructor. It ends when its parent does.
  command c(program("'shm,exec:" FARCALL_SPMD_PROGRAM " stuck'", "states 1 waiting"));
  ASSERT_TRUE(c.says("stuck"));
  EXPECT_EQ(children_of(c.pid()), 2U);
  ::kill(c.pid(), SIGKILL);
  EXPECT_EQ(c.end(), 128 + SIGKILL);
}

TEST(spmd, only_the_node_that_cannot_start_is_blamed) {
  command c(program("'shm,exec:/no/such/program'", "states 1 waiting"));
  EXPECT_EQ(c.end(), 128 + SIGABRT);
  EXPECT_THAT(c.text(), HasSubstr("/no/such/program"));
  EXPECT_THAT(c.text(), Not(HasSubstr("node 1")));
}

TEST(spmd, a_node_that_cannot_join_says_why) {
  command c(program("'shm?cpu=4000,shm'", "states 0 waiting"));
  EXPECT_EQ(c.end(), 128 + SIGABRT);
  EXPECT_THAT(c.text(), HasSubstr("running on processor 4000"));
  EXPECT_THAT(c.text(), Not(HasSubstr("without closing")));
}

TEST(spmd, surviving_jobs_go_on_without_a_node) {
  for (const std::string from : {"", " later"}) {
    command c(program("shm:2", "survive 1" + from));
    EXPECT_EQ(c.end(), 0) << c.text();
    EXPECT_EQ(c.count("survived"), 2U) << c.text();
    EXPECT_THAT(c.text(), HasSubstr("the other nodes go on"));
  }
}

// ---- the command --------------------------------------------------------------------------------

TEST(spmd, farcall_run_labels_the_lines_of_all_nodes) {
  command c(FARCALL_COMMAND " run --spmd --label -n 3 " FARCALL_SPMD_PROGRAM " late 1");
  EXPECT_EQ(c.end(), 6) << c.text();
  for (const char* rank : {"0", "1", "2"})
    EXPECT_EQ(c.count(std::string(rank) + ": after " + rank + " of 3\n"), 1U) << c.text();
  // The lines of a node that ends all others are not lost.
  command failing(FARCALL_COMMAND " run --spmd --label -n 3 " FARCALL_SPMD_PROGRAM
                                  " caught 2 throw");
  EXPECT_EQ(failing.end(), 4) << failing.text();
  EXPECT_EQ(failing.count("2: caught: thrown out of main\n"), 1U) << failing.text();
}

TEST(spmd, farcall_run_starts_a_job_of_equals) {
  command c(FARCALL_COMMAND " run --spmd -n 3 " FARCALL_SPMD_PROGRAM " late 1");
  EXPECT_EQ(c.end(), 6) << c.text();
  EXPECT_EQ(c.count(" of 3"), 3U) << c.text();
  command alone(FARCALL_COMMAND " run --spmd -n 1 " FARCALL_SPMD_PROGRAM " late 1");
  EXPECT_EQ(alone.end(), 0) << alone.text();
  EXPECT_EQ(alone.count("after 0 of 1"), 1U) << alone.text();
  command without(FARCALL_COMMAND " run -n 2 " FARCALL_SPMD_PROGRAM " late 2");
  EXPECT_EQ(without.end(), 0) << without.text();
  EXPECT_EQ(without.count(" of 2"), 2U) << without.text();
}

TEST(spmd, farcall_run_spmd_refuses_plain_jobs) {
  command c(FARCALL_COMMAND " run --spmd -n 3 " FARCALL_SPMD_PROGRAM " plain");
  EXPECT_NE(c.end(), 0);
  EXPECT_THAT(c.text(), HasSubstr("this program makes a plain farcall::job"));
  command works(FARCALL_COMMAND " run -n 3 " FARCALL_SPMD_PROGRAM " plain");
  EXPECT_EQ(works.end(), 0) << works.text();
}

} // namespace
} // namespace farcall::test
