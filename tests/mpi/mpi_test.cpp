// SPDX-License-Identifier: Apache-2.0

// Tests of jobs whose processes mpirun starts, and whose nodes use the mpi transport from its
// module.

#include <tests/command.hpp>
#include <tests/support.hpp>

#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::test {
namespace {

#if defined(MPI_MODULE)

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

/// Returns the command of a job. The variables let Open MPI start processes as root, and more of
/// them than there are CPUs.
std::string run(int processes, const std::string& mode, const std::string& options = "") {
  return "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
         "OMPI_MCA_rmaps_base_oversubscribe=1 FARCALL_TRANSPORT_MODULES=" MPI_MODULE " " MPI_EXEC
         " " +
         options + " -n " + std::to_string(processes) + " " MPI_PROGRAM " " + mode;
}

class mpi_jobs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v " MPI_EXEC " >/dev/null 2>&1") != 0) {
      GTEST_SKIP() << MPI_EXEC " is not installed";
    }
  }
};

TEST_F(mpi_jobs, have_targets_that_call_each_other) {
  command c(run(3, "works"));
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_THAT(c.text(), AllOf(HasSubstr("0-1 mpi\n"), HasSubstr("0-2 mpi\n")));
}

TEST_F(mpi_jobs, wake_threads_that_sleep) {
  command c(run(2, "sleeps"));
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_THAT(c.text(), HasSubstr("woken"));
}

TEST_F(mpi_jobs, initialise_mpi_for_equals) {
  command c(run(3, "launched"));
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("right\n"), 3U) << c.text();
  EXPECT_EQ(c.count(" mpi\n"), 3U) << c.text();
}

TEST_F(mpi_jobs, go_on_beside_messages_of_the_program) {
  command c(run(3, "multiple"));
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("right\n"), 3U) << c.text();
  EXPECT_EQ(c.count(" mpi\n"), 3U) << c.text();
}

TEST_F(mpi_jobs, respect_the_thread_level_of_mpi) {
  for (const char* level : {"funneled", "serialized"}) {
    command c(run(2, level));
    EXPECT_EQ(c.end(), 0) << level << ": " << c.text();
    EXPECT_EQ(c.count("right\n"), 2U) << level << ": " << c.text();
    EXPECT_EQ(c.count(" mpi\n"), 2U) << level << ": " << c.text();
  }
}

TEST_F(mpi_jobs, reach_nodes_without_calls_if_mpi_is_single_threaded) {
  for (const auto& [mode, processes] : {std::pair{"barriers", 4}, std::pair{"called", 2}}) {
    command c(run(processes, mode));
    EXPECT_EQ(c.end(), 0) << mode << ": " << c.text();
    EXPECT_EQ(c.count("right\n"), static_cast<std::size_t>(processes)) << mode << ": " << c.text();
  }
}

TEST_F(mpi_jobs, fail_if_mpi_is_finalised_too_early) {
  command c(run(2, "too-early"));
  // The host ends nodes whose lanes are lost, and the job, perhaps before either process prints the
  // exception that it caught.
  (void)c.end();
  EXPECT_THAT(c.text(), AnyOf(HasSubstr("caught: "), HasSubstr("connection of a lane")));
}

TEST_F(mpi_jobs, may_be_of_some_processes_only) {
  command c(run(4, "part"));
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("right\n"), 3U) << c.text();
  EXPECT_EQ(c.count(" mpi\n"), 3U) << c.text();
}

TEST_F(mpi_jobs, free_their_communicator_with_the_programs) {
  command c(run(2, "frees"));
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("by mpi: made 1, left 0\n"), 2U) << c.text();
}

TEST_F(mpi_jobs, make_no_communicator_that_they_do_not_use) {
  command c("env TEST_ONE_MACHINE=1 TEST_NO_MODULES=1 " + run(2, "frees"));
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("by shm: made 0, left 0\n"), 2U) << c.text();
}

TEST_F(mpi_jobs, may_be_followed_by_others) {
  command c(run(2, "two"));
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_THAT(c.text(), AllOf(HasSubstr("first of 2 by mpi\n"), HasSubstr("second of 2 by shm\n")));
}

TEST_F(mpi_jobs, may_end_after_mpi) {
  command c(run(2, "finalized"));
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("right\n"), 2U) << c.text();
}

TEST_F(mpi_jobs, use_another_transport_if_mpi_has_no_threads) {
  command c(run(2, "single"));
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count(" by shm\n"), 2U) << c.text();
  EXPECT_EQ(c.count("MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level)"), 2U) << c.text();
}

TEST_F(mpi_jobs, end_when_a_process_exits_in_the_middle) {
  command c(run(2, "leaves"));
  EXPECT_NE(c.end(), 0);
  EXPECT_THAT(c.text(), HasSubstr("node 1"));
}

TEST_F(mpi_jobs, lose_a_node_and_go_on) {
  command c(run(3, "dies", MPI_RECOVERS));
  EXPECT_TRUE(c.says("others go on")) << c.text();
  EXPECT_THAT(c.text(), HasSubstr("caught: node 1 ("));
  // MPI_Finalize may wait for the dead process.
  ::kill(c.pid(), SIGTERM);
  (void)c.end();
}

/// Checks that the module refuses a process with an MPI library for which it was not built.
void expect_refusal(const char* how) {
  // MPICH loads UCX, whose memory hooks crash in a sanitizer's.
  const std::string hooks = under_sanitizer ? "UCX_MEM_EVENTS=no " : "";
  command c("env " + hooks +
            "FARCALL_TRANSPORT_MODULES=" MPI_MODULE " " MPI_OTHER_PROGRAM " " MPI_OTHER_LIBRARY
            " " +
            std::string(how));
  const int status = c.end();
  if (status == 77) GTEST_SKIP() << MPI_OTHER_LIBRARY " is not installed";
  EXPECT_EQ(status, 0) << c.text();
  EXPECT_THAT(c.text(), AllOf(HasSubstr("absent: "), HasSubstr(MPI_OTHER_LIBRARY),
                              HasSubstr("FARCALL_TRANSPORT_MODULES")));
}

TEST(mpi_libraries, linked_by_a_program_must_be_the_modules) { expect_refusal("linked"); }
TEST(mpi_libraries, used_by_an_interpreter_must_be_the_modules) { expect_refusal("used"); }

#else

TEST(mpi, carries_jobs) {
  GTEST_SKIP()
      << "built without MPI (libopenmpi-dev), or with another standard library, or as a shared one";
}

#endif

} // namespace
} // namespace farcall::test
