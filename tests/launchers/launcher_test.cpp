// SPDX-License-Identifier: Apache-2.0
#include <tests/command.hpp>
#include <tests/support.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

/// Tests jobs of processes that Open MPI's mpirun has started.
namespace farcall::test {
namespace {

using testing::HasSubstr;
using testing::Not;

bool is_there(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

/// Without these settings, mpirun refuses to run as root, and to start more processes than CPUs.
const std::string mpirun = "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                           "OMPI_MCA_rmaps_base_oversubscribe=1 mpirun ";
const std::string program = FARCALL_LAUNCHED_PROGRAM " ";

#ifdef FARCALL_HAS_UCX
constexpr bool has_ucx = true;
#else
constexpr bool has_ucx = false;
#endif

class mpirun_test : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("LSAN_OPTIONS", "suppressions=" FARCALL_LEAKS_OF_OTHERS ":print_suppressions=0", 1);
    if (!is_there("mpirun")) GTEST_SKIP() << "mpirun is not installed (openmpi-bin)";
  }
};

TEST_F(mpirun_test, starts_one_job) {
  command c(mpirun + "-n 4 " + program + "works");
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("4 nodes\n"), 1U) << c.text();
  EXPECT_EQ(c.count(" shm\n"), 9U) << c.text();
}

TEST_F(mpirun_test, starts_a_job_of_equals) {
  command c(mpirun + "-n 3 " + program + "equals");
  EXPECT_EQ(c.end(), 0) << c.text();
  for (const char* rank : {"rank 0 of 3", "rank 1 of 3", "rank 2 of 3"})
    EXPECT_EQ(c.count(rank), 1U) << c.text();
}

TEST_F(mpirun_test, starts_a_job_of_equals_in_c) {
  command c(mpirun + "-n 3 " FARCALL_C_EQUALS_PROGRAM " 3");
  EXPECT_EQ(c.end(), 0) << c.text();
}

TEST_F(mpirun_test, adds_targets_that_the_user_names) {
  command c("env FARCALL_TARGETS=shm:2 " + mpirun + "-n 2 " + program + "works");
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("4 nodes\n"), 1U) << c.text();
}

/// Returns why no target for ARM can be started; empty if `./run test` has built it.
std::string why_not_emulated() {
  std::string why;
  if (!std::filesystem::exists(FARCALL_EMULATED_PROGRAM)) {
    why = FARCALL_EMULATED_PROGRAM " is not built; ./run cross aarch64 builds it";
  } else if (!is_there("qemu-aarch64")) {
    why = "qemu-aarch64 is not installed; ./run cross aarch64 installs it";
  }
  const char* built = std::getenv("FARCALL_CROSS");
  if (!why.empty() && built != nullptr && std::string(built).find("aarch64") != std::string::npos)
    ADD_FAILURE() << why << ", and FARCALL_CROSS says it is there";
  return why;
}

TEST_F(mpirun_test, adds_devices_and_other_instruction_sets) {
  if (const std::string why = why_not_emulated(); !why.empty()) GTEST_SKIP() << why;
  command c("env FARCALL_START_TIMEOUT_MS=60000 FARCALL_TARGETS='cuda-emulated:0,"
            "exec:qemu-aarch64 -L /usr/aarch64-linux-gnu " FARCALL_EMULATED_PROGRAM " works' " +
            mpirun + "-n 2 " + program + "works");
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("4 nodes\n"), 1U) << c.text();
  for (const char* pair : {"0-1 shm\n", "0-2 cuda\n", "0-3 shm\n", "1-3 shm\n", "3-1 shm\n"})
    EXPECT_THAT(c.text(), HasSubstr(pair));
}

TEST_F(mpirun_test, gives_nodes_as_many_workers_as_the_user_says) {
  command c("env FARCALL_WORKERS=3 FARCALL_TARGETS='shm?workers=2' " + mpirun + "-n 2 " + program +
            "has-workers");
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("1 has 3 workers\n"), 1U) << c.text();
  EXPECT_EQ(c.count("2 has 2 workers\n"), 1U) << c.text();
}

TEST_F(mpirun_test, gives_equals_one_worker) {
  command c("env FARCALL_WORKERS=2 " + mpirun + "-n 2 " + program + "equals");
  EXPECT_NE(c.end(), 0);
  EXPECT_THAT(c.text(), HasSubstr("FARCALL_WORKERS"));
}

TEST_F(mpirun_test, starts_a_job_of_equals_of_one_process) {
  command c(mpirun + "-n 1 " + program + "equals");
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("rank 0 of 1\n"), 1U) << c.text();
}

TEST_F(mpirun_test, starts_no_target_beside_one_process) {
  command c(mpirun + "-n 1 " + program + "works");
  EXPECT_NE(c.end(), 0) << c.text();
  EXPECT_EQ(c.count(" nodes\n"), 0U) << c.text();
  EXPECT_EQ(c.count("has started one process of this program"), 1U) << c.text();
  for (const char* way : {"FARCALL_TARGETS=shm", "FARCALL_PROCESS_MANAGER=none"}) {
    command named("env " + (way + (" " + mpirun)) + "-n 1 " + program + "works");
    EXPECT_EQ(named.end(), 0) << named.text();
    EXPECT_EQ(named.count("2 nodes\n"), 1U) << named.text();
  }
}

TEST_F(mpirun_test, starts_separate_jobs_on_request) {
  command c("env FARCALL_PROCESS_MANAGER=none " + mpirun + "-n 2 " + program + "works");
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("2 nodes\n"), 2U) << c.text();
}

TEST_F(mpirun_test, later_jobs_start_their_own_targets) {
  command c(mpirun + "-n 3 " + program + "twice");
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_THAT(c.text(), HasSubstr("first of 3\n"));
  EXPECT_THAT(c.text(), HasSubstr("second of 2\n"));
}

TEST_F(mpirun_test, does_not_start_programs_that_a_node_starts) {
  command c(mpirun + "-n 2 " + program + "starts");
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("2 nodes\n"), 2U) << c.text();
}

TEST_F(mpirun_test, tells_of_a_node_that_is_killed) {
  command c(mpirun + "--enable-recovery -n 3 " + program + "dies");
  (void)c.end(); // mpirun's own status differs by version
  EXPECT_THAT(c.text(), HasSubstr("caught: node 1 ("));
  EXPECT_THAT(c.text(), HasSubstr("others go on"));
}

TEST_F(mpirun_test, has_no_stopped_nodes_left) {
  command c("env FARCALL_PEER_TIMEOUT_MS=300 " + mpirun + "--enable-recovery -n 2 " + program +
            "stops");
  (void)c.end(); // all processes end, with mpirun's own status
  EXPECT_THAT(c.text(), HasSubstr("caught: node 1 ("));
  EXPECT_THAT(c.text(), HasSubstr("and was killed"));
}

TEST_F(mpirun_test, ends_all_when_the_host_is_killed) {
  command c(mpirun + "-n 3 " + program + "host");
  ASSERT_TRUE(c.says("\n"));
  ::kill(std::stoi(c.text().substr(c.text().find("host ") + 5)), SIGKILL);
  EXPECT_NE(c.end(), 0);
}

TEST_F(mpirun_test, tells_of_a_process_that_does_not_come) {
  command c("env FARCALL_START_TIMEOUT_MS=500 " + mpirun + "-n 3 " + program + "misses waits");
  EXPECT_NE(c.end(), 0);
  EXPECT_THAT(c.text(), HasSubstr("start_failed: the 3 processes"));
  EXPECT_THAT(c.text(), HasSubstr("farcall::job early in main()"));
}

TEST_F(mpirun_test, ends_when_the_host_leaves_before) {
  command c("env FARCALL_START_TIMEOUT_MS=500 " + mpirun + "-n 3 " + program + "misses-host");
  (void)c.end(); // mpirun's own status
  EXPECT_THAT(c.text(), HasSubstr("has waited for the others in vain"));
  EXPECT_THAT(c.text(), HasSubstr("FARCALL_START_TIMEOUT_MS"));
}

TEST_F(mpirun_test, ends_when_a_process_leaves_before) {
  command c(mpirun + "-n 3 " + program + "misses 3");
  EXPECT_NE(c.end(), 0);
}

TEST_F(mpirun_test, reports_an_invalid_setting) {
  command c("env FARCALL_PROCESS_MANAGER=pmi3 " + mpirun + "-n 2 " + program + "works");
  EXPECT_NE(c.end(), 0);
  EXPECT_THAT(c.text(), HasSubstr("FARCALL_PROCESS_MANAGER"));
  EXPECT_THAT(c.text(), HasSubstr("auto"));
}

TEST_F(mpirun_test, starts_servers_that_are_no_targets_of_each_other) {
  command c(mpirun + "-n 2 " + program + "works --farcall-serve=127.0.0.1:0 --farcall-plain=yes");
  EXPECT_TRUE(c.says("farcall: serving at tcp://127.0.0.1:", 2));
  ::kill(c.pid(), SIGTERM);
  (void)c.end(); // mpirun's own status
}

#ifdef FARCALL_COMMAND
TEST_F(mpirun_test, starts_no_further_processes_for_the_command) {
  for (const char* options : {"-n 2", "--spmd -n 3", "--hosts /dev/null"}) {
    command c(mpirun + "-n 2 " FARCALL_COMMAND " run " + options + " " + program + "works");
    EXPECT_NE(c.end(), 0) << c.text();
    EXPECT_EQ(c.count("has started 2 processes of this command"), 1U) << c.text();
    EXPECT_EQ(c.count(" nodes\n"), 0U) << c.text();
  }
}

TEST_F(mpirun_test, makes_one_job_of_commands_that_name_no_targets) {
  command c(mpirun + "-n 2 " FARCALL_COMMAND " run " + program + "works");
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("2 nodes\n"), 1U) << c.text();
  command equals(mpirun + "-n 2 " FARCALL_COMMAND " run --spmd " + program + "equals");
  EXPECT_EQ(equals.end(), 0) << equals.text();
  EXPECT_EQ(equals.count("rank 1 of 2\n"), 1U) << equals.text();
}

TEST_F(mpirun_test, starts_the_processes_of_one_command) {
  command c(mpirun + "-n 1 " FARCALL_COMMAND " run -n 3 " + program + "works");
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("3 nodes\n"), 1U) << c.text();
}

TEST_F(mpirun_test, starts_jobs_of_commands_where_the_user_says_so) {
  command c("env FARCALL_PROCESS_MANAGER=none " + mpirun + "-n 2 " FARCALL_COMMAND " run -n 3 " +
            program + "works");
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("3 nodes\n"), 2U) << c.text();
}
#endif

#ifdef FARCALL_AMUDP_PROGRAM
// L, S and C start processes in different ways; C and S run other commands.
TEST_F(mpirun_test, starts_no_further_processes_for_programs_of_amudp) {
  for (const char* letter : {"L", "S", "C"}) {
    command c("env AMUDP_SSH_SERVERS=localhost AMUDP_CSPAWN_CMD='echo started' " + mpirun +
              "-n 2 " FARCALL_AMUDP_PROGRAM " 2 " + letter + " size");
    EXPECT_NE(c.end(), 0) << c.text();
    EXPECT_EQ(c.count("has started 2 processes of this program"), 1U) << c.text();
    EXPECT_EQ(c.count("processes\n"), 0U) << c.text();
    EXPECT_EQ(c.count("started\n"), 0U) << c.text();
  }
}

TEST_F(mpirun_test, starts_a_program_of_amudp_once) {
  command c(mpirun + "-n 1 " FARCALL_AMUDP_PROGRAM " 3 L size");
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("3 processes\n"), 1U) << c.text();
}

TEST_F(mpirun_test, starts_jobs_of_amudp_where_the_user_says_so) {
  command c("env FARCALL_PROCESS_MANAGER=none " + mpirun +
            "-n 2 " FARCALL_AMUDP_PROGRAM " 3 L size");
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("3 processes\n"), 2U) << c.text();
}
#endif

#ifdef FARCALL_MPI_PROGRAM
TEST_F(mpirun_test, starts_programs_that_use_mpi_too) {
  for (const char* order : {"before", "after", "communicator"}) {
    command c(mpirun + "-n 3 " FARCALL_MPI_PROGRAM " " + order);
    EXPECT_EQ(c.end(), 0) << order << ": " << c.text();
    EXPECT_EQ(c.count("right\n"), 3U) << order << ": " << c.text();
  }
}
#endif

TEST(process_manager, that_is_gone_is_reported) {
  command c("env FARCALL_PROCESS_MANAGER=pmix PMIX_RANK=0 PMIX_NAMESPACE=nobody " + program +
            "works");
  EXPECT_NE(c.end(), 0);
  EXPECT_THAT(c.text(), HasSubstr("FARCALL_PROCESS_MANAGER=none"));
}

// ---- several machines ---------------------------------------------------------------------------

/// Three machines, as far as programs can tell: namespaces for network, processes and host names. A
/// bridge connects them, over which mpirun starts its daemons.
class machines {
 public:
  machines() {
    const int status = std::system(script("up").c_str());
    is_allowed_ = !WIFEXITED(status) || WEXITSTATUS(status) != 77;
    EXPECT_TRUE(status == 0 || !is_allowed_);
  }
  ~machines() { (void)!std::system(script("down").c_str()); }
  machines(const machines&) = delete;
  machines& operator=(const machines&) = delete;

  [[nodiscard]] bool are_allowed() const noexcept { return is_allowed_; }
  /// Returns a command that runs mpirun with at most two processes on each machine.
  [[nodiscard]] std::string run(const std::string& more) const {
    return script("run") + " " + more;
  }
  /// Changes the second or third machine: "unplug 2", "plug 2", "crash 3".
  static void have(const std::string& what) { EXPECT_EQ(std::system(script(what).c_str()), 0); }

 private:
  static std::string script(const std::string& verb) {
    return "sh " FARCALL_MACHINES_SCRIPT " " + verb;
  }
  bool is_allowed_ = false;
};

class machines_test : public mpirun_test {
 protected:
  void SetUp() override {
    mpirun_test::SetUp();
    if (IsSkipped()) return;
    if (::geteuid() != 0 || !is_there("ip")) GTEST_SKIP() << "only root has network namespaces";
    if (!between_.are_allowed()) GTEST_SKIP() << "no network namespace can be made here";
  }
  machines between_;
  /// Options of mpirun: all processes use UCX, if it is built in. UCX's hooks in memory functions
  /// crash together with a sanitizer's.
  const std::string modules_ = !has_ucx ? ""
                               : under_sanitizer
                                   ? "-x FARCALL_TRANSPORT_MODULES=ucx -x UCX_MEM_EVENTS=no "
                                   : "-x FARCALL_TRANSPORT_MODULES=ucx ";
};

TEST_F(machines_test, make_one_job_by_memory_and_by_encrypted_tcp) {
  command c(between_.run("-n 6 " + program + "works"));
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("6 nodes\n"), 1U) << c.text();
  // Two processes of each machine.
  for (const char* pair : {"0-1 ", "2-3 ", "3-2 ", "4-5 ", "5-4 "})
    EXPECT_THAT(c.text(), HasSubstr(std::string(pair) + "shm\n"));
  EXPECT_EQ(c.count(" shm\n"), 5U) << c.text();
  EXPECT_EQ(c.count(" tcp\n"), 20U) << c.text();
}

TEST_F(machines_test, make_a_job_of_equals) {
  command c(between_.run("-n 6 " + program + "equals"));
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count(" of 6\n"), 6U) << c.text();
}

TEST_F(machines_test, lose_a_node_and_go_on) {
  // Node 1 is on the second machine.
  command c(between_.run("--enable-recovery --map-by node -n 3 " + program + "dies"));
  (void)c.end();
  EXPECT_THAT(c.text(), HasSubstr("caught: node 1 (a process at 10.203.78.2"));
  EXPECT_THAT(c.text(), HasSubstr("others go on"));
}

TEST_F(machines_test, lose_a_link_and_go_on) {
  command c(between_.run("--enable-recovery --map-by node -n 3 "
                         "-x FARCALL_HEARTBEAT_TIMEOUT_MS=1000 " +
                         program + "loses"));
  ASSERT_TRUE(c.says("all are there\n")) << c.text();
  machines::have("unplug 2");
  EXPECT_TRUE(c.says("others go on\n")) << c.text();
  machines::have("plug 2"); // mpirun waits for its daemon
  (void)c.end();
  EXPECT_THAT(c.text(), HasSubstr("caught: node 1 (a process at 10.203.78.2"));
  EXPECT_THAT(c.text(), HasSubstr("it was silent for 1000 ms"));
}

TEST_F(machines_test, end_with_one_of_them) {
  command c(between_.run("--map-by node -n 3 " + program + "loses"));
  ASSERT_TRUE(c.says("all are there\n")) << c.text();
  machines::have("crash 2");
  EXPECT_NE(c.end(), 0) << c.text(); // mpirun and all processes end
}

/// Three launched processes on three machines, by UCX. The host also starts a child, a process
/// without UCX, and a device.
TEST_F(machines_test, make_mixed_jobs) {
  command c("env FARCALL_TARGETS='shm:1,exec:env FARCALL_TRANSPORT_MODULES=none " + program +
            "works,cuda-emulated:0' " +
            between_.run("--map-by node -n 3 " + modules_ + program + "works"));
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count("6 nodes\n"), 1U) << c.text();
  EXPECT_THAT(c.text(), HasSubstr("0-5 cuda\n"));
  for (const char* pair : {"0-3", "3-4", "4-3", "0-4"})
    EXPECT_THAT(c.text(), HasSubstr(std::string(pair) + " shm\n"));
  for (const char* pair : {"1-4", "4-1", "2-4", "4-2"})
    EXPECT_THAT(c.text(), HasSubstr(std::string(pair) + " tcp\n"));
  EXPECT_EQ(c.count(has_ucx ? " ucx\n" : " tcp\n"), has_ucx ? 8U : 12U) << c.text();
}

#ifdef FARCALL_HAM_PROGRAM
TEST_F(mpirun_test, starts_no_target_beside_one_process_of_ham) {
  const std::string alone = mpirun + "-n 1 " FARCALL_HAM_PROGRAM;
  for (const char* arguments : {"", " --ham-process-count 3"}) {
    command c(alone + arguments);
    EXPECT_EQ(c.end(), 1) << c.text();
    EXPECT_EQ(c.count("has started one process of this program"), 1U) << c.text();
    EXPECT_EQ(c.count("(FARCALL_TARGETS=shm)"), 1U) << c.text();
    EXPECT_EQ(c.count("RUN"), 0U) << c.text();
  }
  // The program needs three processes.
  for (const char* way : {"FARCALL_TARGETS=shm:2", "FARCALL_PROCESS_MANAGER=none"}) {
    command named("env " + (way + (" " + alone)) + " --ham-process-count 3");
    EXPECT_EQ(named.end(), 0) << named.text();
    EXPECT_EQ(named.count("PASSED"), 1U) << named.text();
  }
}

TEST_F(machines_test, run_programs_of_ham) {
  // The excluded test expects machines with the same name.
  command c(between_.run("--map-by node -n 3 " + modules_ +
                         FARCALL_HAM_PROGRAM
                         " --gtest_filter=-nodes.know_themselves_and_each_other"));
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_THAT(c.text(), HasSubstr("PASSED"));
}
#endif

#ifdef FARCALL_AM2_PROGRAM
TEST_F(machines_test, run_programs_of_am2) {
  command c(between_.run("--map-by node -n 3 " + modules_ + FARCALL_AM2_PROGRAM));
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_THAT(c.text(), HasSubstr("all good"));
}
#endif

/// Makes the same job; nodes that both have UCX use it.
TEST_F(machines_test, make_one_job_by_memory_and_by_ucx) {
  if (!has_ucx) GTEST_SKIP() << "UCX's headers are not installed (libucx-dev)";
  command c(between_.run("-n 6 " + modules_ + program + "works"));
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_EQ(c.count(" shm\n"), 5U) << c.text();
  EXPECT_EQ(c.count(" ucx\n"), 20U) << c.text();
}

TEST_F(machines_test, use_no_ucx_that_has_no_network) {
  if (!has_ucx) GTEST_SKIP() << "UCX's headers are not installed (libucx-dev)";
  for (const char* setting : {"UCX_TLS=sysv,self", "UCX_TLS=self", "UCX_NET_DEVICES=lo"}) {
    command c(
        between_.run("-n 2 --map-by node " + modules_ + "-x " + setting + " " + program + "works"));
    EXPECT_EQ(c.end(), 0) << setting << ": " << c.text();
    EXPECT_THAT(c.text(), HasSubstr("0-1 tcp\n")) << setting;
  }
}

TEST_F(machines_test, use_no_ucx_where_one_of_them_has_none) {
  if (!has_ucx) GTEST_SKIP() << "UCX's headers are not installed (libucx-dev)";
  command c(between_.run("-n 2 --map-by node " + modules_ + program +
                         "works : -n 1 --map-by node -x FARCALL_TRANSPORT_MODULES=none " + program +
                         "works"));
  EXPECT_EQ(c.end(), 0) << c.text();
  EXPECT_THAT(c.text(), HasSubstr("0-1 ucx\n"));
  // The last process is on the first machine again.
  EXPECT_THAT(c.text(), HasSubstr("1-2 tcp\n"));
  EXPECT_THAT(c.text(), HasSubstr("2-1 tcp\n"));
}

} // namespace
} // namespace farcall::test
