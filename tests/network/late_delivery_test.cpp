// SPDX-License-Identifier: Apache-2.0
#include "tests/network/packet_forwarder.hpp"
#include "tests/network/support.hpp"

#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/// A connection's path breaks while others work, and the network delivers its held packets after
/// copies and calls were made again: the late packets must have no effect.
namespace farcall::test::late_delivery_test {
namespace {

using testing::HasSubstr;

constexpr const char* namespace_variable = "FARCALL_TEST_LATE_NETNS";
constexpr const char* key_variable = "FARCALL_TEST_LATE_KEY";
constexpr const char* url_variable = "FARCALL_TEST_LATE_URL";
constexpr const char* folder_variable = "FARCALL_TEST_LATE_FOLDER";

/// Enters the namespace; call before this process has a second thread.
void enter_namespace() {
  const std::string path = std::string("/run/netns/") + std::getenv(namespace_variable);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || ::setns(fd, CLONE_NEWNET) != 0) std::exit(90);
  ::close(fd);
}

/// Behaves like kernels before 6.15: they retransmit for minutes, even after the socket was closed.
void refuse_repetition_limit() {
  constexpr std::uint32_t tcp_rto_max_ms = 44;
  constexpr auto argument = [](std::uint32_t n) {
    return static_cast<std::uint32_t>(offsetof(seccomp_data, args) + n * sizeof(std::uint64_t));
  };
  std::array<sock_filter, 8> program{{{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                                      {BPF_JMP | BPF_JEQ | BPF_K, 0, 5, SYS_setsockopt},
                                      {BPF_LD | BPF_W | BPF_ABS, 0, 0, argument(1)},
                                      {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, IPPROTO_TCP},
                                      {BPF_LD | BPF_W | BPF_ABS, 0, 0, argument(2)},
                                      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, tcp_rto_max_ms},
                                      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOPROTOOPT},
                                      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}}};
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    std::exit(91);
  }
}

int be_server() {
  enter_namespace();
  refuse_repetition_limit();
  block_end_signals();
  server_options o = local_server(std::getenv(key_variable));
  o.listen.host = packet_forwarder::far_address;
  o.trusts_network = o.plain;
  server s(o);
  serve_until_signalled(s);
  return 0;
}
const role server_role("late_delivery_server", be_server);

job_options far_job() {
  job_options o = network_job(std::getenv(url_variable), std::getenv(key_variable));
  o.heartbeat_timeout = std::chrono::milliseconds(1000);
  return o;
}

/// Says `word`, and waits for the test to continue.
void after(const std::string& word) {
  say(word);
  const std::string file = std::string(std::getenv(folder_variable)) + "/" + word;
  struct stat status{};
  while (::stat(file.c_str(), &status) != 0)
    ::usleep(1000);
}

/// Returns the bytes that the system still sends for closed connections.
std::size_t orphaned_bytes() {
  constexpr const char* fin_wait_1 = "04";
  std::ifstream table("/proc/self/net/tcp");
  std::string line;
  std::getline(table, line);
  std::size_t all = 0;
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string skipped;
    std::string state;
    std::string queues;
    words >> skipped >> skipped >> skipped >> state >> queues;
    if (state == fin_wait_1) all += std::stoul(queues.substr(0, queues.find(':')), nullptr, 16);
  }
  return all;
}

constexpr std::size_t bytes = std::size_t{256} << 10;

int repeat_a_put() {
  enter_namespace();
  refuse_repetition_limit();
  const job j(far_job());
  const node& there = j.targets()[0];
  const auto memory = there.allocate<char>(bytes);
  put_sync(std::vector<char>(bytes, 'a'), memory); // makes the connection
  after("ready");
  put_sync(std::vector<char>(bytes, 'b'), memory); // ends over another connection
  if (orphaned_bytes() != 0) return 1;
  put_sync(std::vector<char>(bytes, 'c'), memory);
  after("done");
  std::vector<char> got(bytes);
  get_sync(memory, got);
  return got == std::vector<char>(bytes, 'c') ? 0 : 2;
}
const role put_role("late_delivery_put", repeat_a_put);

std::vector<int>& begun() {
  static std::vector<int> all;
  return all;
}
void begin(int number, const std::string& /*ballast*/) { begun().push_back(number); }
std::vector<int> all_begun() { return begun(); }

int fail_a_call() {
  enter_namespace();
  refuse_repetition_limit();
  const job j(far_job());
  const node& there = j.targets()[0];
  const std::string ballast(8000, 'x');
  std::optional<lane> one(there);
  sync(*one, begin, 1, ballast);
  after("ready");
  try {
    sync(*one, begin, 2, ballast);
    return 1;
  } catch (const node_failed&) {
    // The lane's path is broken.
  }
  if (orphaned_bytes() != 0) return 2;
  const lane anew(there);
  sync(anew, begin, 3, ballast);
  after("done");
  for (int i = 0; i < 200; ++i)
    sync(anew, [] {});
  return sync(anew, all_begun) == std::vector{1, 3} ? 0 : 3;
}
const role call_role("late_delivery_call", fail_a_call);

bool runs(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

/// Runs with TLS, and without.
class late_delivery : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const std::string id = std::to_string(::getpid());
    host_ = "farcall-lh" + id;
    server_ = "farcall-ls" + id;
    if (!runs("ip netns add " + host_) || !runs("ip netns add " + server_))
      GTEST_SKIP() << "network namespaces cannot be made here (root? ip?)";
    try {
      forwarder_ = std::make_unique<packet_forwarder>(host_, server_);
    } catch (const error& e) {
      GTEST_SKIP() << e.what();
    }
    const std::string key = folder_.make_key(GetParam());
    ::setenv(key_variable, key.c_str(), 1);
    ::setenv(folder_variable, folder_.file("").c_str(), 1);
    ::setenv(namespace_variable, server_.c_str(), 1);
    serving_.emplace("late_delivery_server");
    const std::string line = serving_->line();
    ASSERT_THAT(line, HasSubstr(packet_forwarder::far_address));
    const std::string url = line.substr(20, line.find(',') - 20);
    ::setenv(url_variable, (url + (GetParam() ? "" : "?plain=yes")).c_str(), 1);
    ::setenv(namespace_variable, host_.c_str(), 1);
  }

  void TearDown() override {
    serving_.reset();
    forwarder_.reset();
    (void)runs("ip netns del " + host_);
    (void)runs("ip netns del " + server_);
    for (const char* v : {key_variable, namespace_variable, url_variable, folder_variable})
      ::unsetenv(v);
  }

  /// Runs the role; returns its exit status.
  int run(const std::string& role) {
    role_process host(role);
    EXPECT_EQ(host.line(), "ready");
    forwarder_->break_path();
    mark(folder_.file("ready"));
    EXPECT_EQ(host.line(), "done");
    EXPECT_GT(forwarder_->release_held(), 0U);
    mark(folder_.file("done"));
    return host.wait();
  }

  scratch_folder folder_;
  std::string host_;
  std::string server_;
  std::unique_ptr<packet_forwarder> forwarder_;
  std::optional<role_process> serving_;
};

TEST_P(late_delivery, does_not_change_memory_after_a_repeated_put) {
  EXPECT_EQ(run("late_delivery_put"), 0);
}

TEST_P(late_delivery, begins_no_call_that_has_failed) { EXPECT_EQ(run("late_delivery_call"), 0); }

INSTANTIATE_TEST_SUITE_P(with, late_delivery, testing::Bool(),
                         [](const auto& of) { return of.param ? "tls" : "tcp"; });

} // namespace
} // namespace farcall::test::late_delivery_test
