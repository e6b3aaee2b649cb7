// SPDX-License-Identifier: Apache-2.0
#include <tests/command.hpp>

#include <csignal>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

/// Tests of reductions: results over each transport, messages, and failures.
namespace farcall::test::reductions_test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string on_targets(const std::string& targets, const std::string& mode) {
  return "env FARCALL_TARGETS=" + targets + " " FARCALL_REDUCTIONS_PROGRAM " " + mode;
}
std::string on_nodes(unsigned nodes, const std::string& mode) {
  return on_targets(nodes == 1 ? "none" : "shm:" + std::to_string(nodes - 1), mode);
}

TEST(reductions, all_numbers_of_nodes) {
  for (unsigned nodes = 1; nodes <= 8; ++nodes) {
    command c(on_nodes(nodes, "works"));
    EXPECT_EQ(c.end(), 0) << nodes << ": " << c.text();
    EXPECT_EQ(c.count("works on"), nodes) << c.text();
    EXPECT_THAT(c.text(), Not(HasSubstr("farcall[")));
  }
}

TEST(reductions, a_progress_thread_may_combine) {
  command c("env FARCALL_PROGRESS=thread " + on_nodes(4, "works"));
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("works on"), 4U) << c.text();
}

/// Expects that the nodes of a job have passed all checks, and that each reached the next one by
/// this transport.
void expect_works_over(const std::string& transport, command& c, unsigned nodes) {
  EXPECT_EQ(c.end(), 0) << nodes << " nodes: " << c.text();
  EXPECT_EQ(c.count("works on"), nodes) << c.text();
  EXPECT_EQ(c.count("by " + transport), nodes) << c.text();
}

/// Runs jobs on targets of a server. `serves` are the server's options, `reaches` are variables of
/// the hosts.
void expect_works_on_server(const std::string& serves, const std::string& reaches) {
  command server("env TEST_OWN_MACHINES=1 " FARCALL_REDUCTIONS_PROGRAM
                 " transport --farcall-serve=127.0.0.1:0 " +
                 serves);
  ASSERT_TRUE(server.says("tcp://") && server.says("\n")) << server.text();
  const std::size_t from = server.text().find("tcp://");
  const std::string url =
      server.text().substr(from, server.text().find_first_of(", \n", from) - from);
  for (const unsigned others : {1U, 2U, 3U, 5U, 7U}) {
    command c("env TEST_OWN_MACHINES=1 " + reaches + " " +
              on_targets(url + "?count=" + std::to_string(others), "transport"));
    expect_works_over("tcp", c, others + 1);
  }
  ::kill(server.pid(), SIGTERM);
  EXPECT_EQ(server.end(), 0) << server.text();
}

TEST(reductions, over_tcp) { expect_works_on_server("--farcall-plain=yes", ""); }

TEST(reductions, over_tls) {
  const std::string key = testing::TempDir() + "reductions-" + std::to_string(::getpid()) + ".key";
  command made(FARCALL_COMMAND " keygen " + key);
  ASSERT_EQ(made.end(), 0) << made.text();
  expect_works_on_server("--farcall-key=" + key, "FARCALL_KEY=" + key);
  std::filesystem::remove(key);
}

#if defined(UCX_MODULE)
TEST(reductions, over_ucx) {
  command c("env TEST_OWN_MACHINES=1 UCX_TLS=tcp FARCALL_TRANSPORT_MODULES=" UCX_MODULE " " +
            on_targets("ucx:3", "transport"));
  expect_works_over("ucx", c, 4);
}
#endif

#if defined(MPI_MODULE)
TEST(reductions, over_mpi) {
  command c("env TEST_OWN_MACHINES=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
            "OMPI_MCA_rmaps_base_oversubscribe=1 FARCALL_TRANSPORT_MODULES=" MPI_MODULE " " MPI_EXEC
            " -n 4 " FARCALL_REDUCTIONS_PROGRAM " transport");
  expect_works_over("mpi", c, 4);
}
#endif

TEST(reductions, numbers_of_messages) {
  command c(on_nodes(4, "counted"));
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("counted"), 4U) << c.text();
}

/// Expects that all nodes of a job get an error, and that one of the errors has this text.
void expect_errors(const std::string& mode, const std::string& text, unsigned nodes = 4) {
  command c(on_nodes(nodes, mode));
  EXPECT_EQ(c.end(), 5) << mode << ": " << c.text();
  EXPECT_EQ(c.count("\nerror: ") + (c.text().starts_with("error: ") ? 1 : 0), nodes)
      << mode << ": " << c.text();
  EXPECT_THAT(c.text(), HasSubstr(text)) << mode;
}

TEST(reductions, nodes_that_differ_are_told_so) {
  expect_errors("sizes", "values of different sizes to an all_reduce: this one, node");
  expect_errors("long_sizes", "values of different sizes to an all_reduce: this one, node");
  expect_errors("no_values", "values of different sizes to an all_reduce");
  expect_errors("no_values_to_scan", "values of different sizes to a scan");
  expect_errors("value_sizes", "values of different types to an all_reduce");
  expect_errors("long_value_sizes", "values of different types to an all_reduce");
  expect_errors("types", "values of different types to an all_reduce");
  expect_errors("operations", "a scan different operations");
  expect_errors("roots", "different roots of a reduce");
  expect_errors("no_root", "there is no node 4");
}

TEST(reductions, a_node_that_goes_on_tells_that_others_differ) {
  expect_errors("kinds", "the nodes have called different collectives before", 3);
}

TEST(reductions, nodes_that_wait_for_each_other_are_told_so) {
  expect_errors("circle", "different roots of a broadcast");
  expect_errors("broadcast_in_reduce", "different collectives");
}

TEST(reductions, nodes_may_wait_for_long) {
  command c(on_nodes(4, "compared"));
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("compared"), 4U) << c.text();
}

TEST(reductions, a_failure_on_one_node_is_told_to_all) {
  command c(on_nodes(4, "throws"));
  EXPECT_EQ(c.end(), 5) << c.text();
  EXPECT_EQ(c.count("error: an all_reduce has failed on node 2: no such sum"), 3U) << c.text();
}

TEST(reductions, an_exception_of_any_type_is_told_to_all) {
  command c(on_nodes(4, "throws_number"));
  EXPECT_EQ(c.end(), 5) << c.text();
  EXPECT_EQ(c.count("error: an all_reduce has failed on node 2: an exception that is no "
                    "std::exception"),
            3U)
      << c.text();
}

TEST(reductions, a_node_that_is_late_is_named) {
  command c(on_nodes(3, "late"));
  EXPECT_EQ(c.end(), 5) << c.text();
  EXPECT_THAT(c.text(),
              HasSubstr("an all_reduce was not over before its deadline: nothing has come"));
}

TEST(reductions, a_dead_node_ends_them) {
  command c(on_nodes(4, "dies"));
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("survived"), 3U) << c.text();
}

} // namespace
} // namespace farcall::test::reductions_test
