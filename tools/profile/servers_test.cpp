#include "perf_events.hpp"
#include "processes.hpp"
#include "remote_samplers.hpp"
#include "server_sampler.hpp"

#include <tools/common/forked_process.hpp>

#include <farcall/base/unique_fd.hpp>
#include <farcall/farcall.hpp>
#include <farcall/memory/counter_segment.hpp>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

/// `farcall prof` where targets are those of servers.
namespace farcall::tool::servers_test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

bool is_sampled_by_kernel() {
  try {
    perf_events events(1, call_graph::none);
    return events.add(getpid(), false);
  } catch (const perf_refused&) {
    return false;
  }
}

/// A program that serves at a port of its own, until the end of this.
class server_of_test {
 public:
  explicit server_of_test(std::vector<std::string> words) {
    int ends[2];
    if (pipe(ends) != 0) std::abort();
    const unique_fd said(ends[0]);
    unique_fd says(ends[1]);
    process_.emplace(
        [&] {
          dup2(says.get(), STDOUT_FILENO);
          std::vector<char*> arguments;
          for (std::string& word : words)
            arguments.push_back(word.data());
          arguments.push_back(nullptr);
          execv(arguments[0], arguments.data());
          return 1;
        },
        forked_process::group::own);
    says.reset();
    std::string line;
    for (char c = 0; c != '\n' && read(said.get(), &c, 1) == 1;)
      line += c;
    // "farcall: serving at unix:///tmp/farcall-4711.socket, unencrypted, …"
    const std::string_view before = "farcall: serving at ";
    if (line.starts_with(before)) {
      url_ = line.substr(before.size(), line.find(',') - before.size());
    }
  }
  server_of_test(const server_of_test&) = delete;
  server_of_test& operator=(const server_of_test&) = delete;
  ~server_of_test() {
    // Killed, it leaves the file of its socket.
    const std::string_view scheme = "unix://";
    process_.reset();
    if (url_.starts_with(scheme)) ::unlink(url_.c_str() + scheme.size());
  }
  [[nodiscard]] const std::string& url() const { return url_; }
  [[nodiscard]] pid_t process() const { return process_->pid(); }
  /// With its targets: by two signals, and not twice the same, which may count as one.
  void end() {
    kill(process_->pid(), SIGTERM);
    kill(process_->pid(), SIGINT);
    EXPECT_TRUE(process_->wait_until(std::chrono::steady_clock::now() + 20s));
  }

 private:
  std::optional<forked_process> process_;
  std::string url_;
};

/// The sampler that the server has started; 0 where there is none within some seconds.
pid_t sampler_of(pid_t server) {
  for (const auto end = std::chrono::steady_clock::now() + 10s;
       std::chrono::steady_clock::now() < end; std::this_thread::sleep_for(10ms)) {
    for (const pid_t process : with_descendants(server)) {
      if (command_of(process).ends_with("farcall sampler")) return process;
    }
  }
  return 0;
}

/// The table of a node, in what was printed.
std::string table_of(const std::string& printed, const std::string& node) {
  const std::size_t at = printed.find("\n" + node + "\n");
  return at == std::string::npos ? "" : printed.substr(at, printed.find("\n\n", at + 1) - at);
}

/// `farcall prof` of a shell, whose host offloads to targets of servers for so many seconds.
class profile_of_servers : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_sampled_by_kernel()) GTEST_SKIP() << "perf_event_open is refused here";
  }

  [[nodiscard]] static program_result profile(const std::string& url, const std::string& seconds,
                                              const std::string& then = "exit",
                                              const std::string& before = "") {
    const std::string command = before + "\"$0\" job \"--farcall-targets=$1\"; " + then;
    const std::string script =
        R"(sleep "$1" | "$0" prof -s 1000 --per-node -v -- /bin/sh -c "$2" "$3" "$4")";
    return run_program(
        {"/bin/sh", "-c", script, FARCALL_COMMAND, seconds, command, PROFILED_PROGRAM, url}, 60s);
  }
};

TEST_F(profile_of_servers, has_their_targets) {
  const server_of_test server({FARCALL_COMMAND, "serve", PROFILED_PROGRAM});
  const program_result result = profile(server.url() + "," + server.url(), "1");
  EXPECT_EQ(result.exit_status, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error, Not(HasSubstr("missing")));
  EXPECT_THAT(table_of(result.standard_error, "node 0"), Not(IsEmpty()));
  EXPECT_THAT(table_of(result.standard_error, "node 1"), HasSubstr("twice"));
  EXPECT_THAT(table_of(result.standard_error, "node 2"), HasSubstr("twice"));
  // Again: a sampler leaves nothing behind.
  EXPECT_EQ(profile(server.url(), "0.3").exit_status, 0);
}

TEST_F(profile_of_servers, has_targets_of_later_jobs) {
  const server_of_test server({FARCALL_COMMAND, "serve", PROFILED_PROGRAM});
  const std::string another = R"(sleep 0.5 | "$0" job "--farcall-targets=$1,$1")";
  const program_result result = profile(server.url(), "0.9", another);
  EXPECT_EQ(result.exit_status, 0) << result.standard_error;
  // Which the first job does not have.
  EXPECT_THAT(table_of(result.standard_error, "node 2"), HasSubstr("twice"));
}

TEST_F(profile_of_servers, takes_names_from_there_where_the_program_is_not_here) {
  const std::string program =
      std::filesystem::temp_directory_path() / ("farcall-served-" + std::to_string(getpid()));
  std::filesystem::copy_file(PROFILED_PROGRAM, program);
  const server_of_test server({FARCALL_COMMAND, "serve", program});
  std::thread remover([&] {
    std::this_thread::sleep_for(1s);
    std::filesystem::remove(program);
  });
  const program_result result = profile(server.url(), "2");
  remover.join();
  EXPECT_EQ(result.exit_status, 0) << result.standard_error;
  const std::string table = table_of(result.standard_error, "node 1");
  EXPECT_THAT(table, AllOf(HasSubstr("farcall-served"), HasSubstr("twice")));
}

TEST_F(profile_of_servers, uses_the_key_that_the_host_has) {
  std::string folder = std::filesystem::temp_directory_path() / "farcall-key-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string key = folder + "/key";
  ASSERT_EQ(run_program({FARCALL_COMMAND, "keygen", key}, 20s).exit_status, 0);
  const server_of_test server({FARCALL_COMMAND, "serve", "--key", key, PROFILED_PROGRAM});
  const program_result result =
      profile(server.url(), "1", "exit", "cd " + folder + " && FARCALL_KEY=key ");
  std::filesystem::remove_all(folder);
  EXPECT_EQ(result.exit_status, 0) << result.standard_error;
  EXPECT_THAT(table_of(result.standard_error, "node 1"), HasSubstr("twice"));
}

TEST_F(profile_of_servers, has_what_there_was_where_a_server_ends) {
  // The host ends then, which has lost its node: at first with what is sampled, and then before.
  for (const std::string then : {"exit", "sleep 3"}) {
    server_of_test server({FARCALL_COMMAND, "serve", PROFILED_PROGRAM});
    std::thread ender([&] {
      std::this_thread::sleep_for(1s);
      server.end();
    });
    const program_result result = profile(server.url(), "2", then);
    ender.join();
    EXPECT_EQ(result.exit_status, then == "exit" ? 134 : 0) << result.standard_error;
    EXPECT_THAT(table_of(result.standard_error, "node 1"), HasSubstr("twice"));
    EXPECT_EQ(result.standard_error.find("no more samples: ") != std::string::npos, then != "exit")
        << result.standard_error;
  }
}

TEST_F(profile_of_servers, has_what_there_was_where_a_sampler_hangs) {
  const server_of_test server({FARCALL_COMMAND, "serve", PROFILED_PROGRAM});
  std::thread stopper([&] {
    const pid_t sampler = sampler_of(server.process());
    std::this_thread::sleep_for(500ms);
    if (sampler != 0) kill(sampler, SIGSTOP);
  });
  const program_result result = profile(server.url(), "1.5");
  stopper.join();
  EXPECT_EQ(result.exit_status, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error, HasSubstr(": no more samples: "));
  EXPECT_THAT(table_of(result.standard_error, "node 1"), HasSubstr("twice"));
}

TEST_F(profile_of_servers, has_targets_of_later_jobs_where_a_sampler_has_failed) {
  const server_of_test server({FARCALL_COMMAND, "serve", PROFILED_PROGRAM});
  std::thread killer([&] {
    const pid_t sampler = sampler_of(server.process());
    std::this_thread::sleep_for(500ms);
    if (sampler != 0) kill(sampler, SIGKILL);
  });
  const std::string another = R"(sleep 0.5 | "$0" job "--farcall-targets=$1,$1")";
  const program_result result = profile(server.url(), "2", another);
  killer.join();
  EXPECT_EQ(result.exit_status, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error, HasSubstr(": no more samples: "));
  EXPECT_THAT(table_of(result.standard_error, "node 2"), HasSubstr("twice"));
}

TEST_F(profile_of_servers, says_which_have_no_sampler) {
  const server_of_test server(
      {PROFILED_PROGRAM, "job", "--farcall-serve=127.0.0.1:0", "--farcall-plain=yes"});
  const program_result result = profile(server.url(), "0.5");
  EXPECT_EQ(result.exit_status, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error,
              AllOf(HasSubstr("node 1 at 127.0.0.1:"), HasSubstr(": not sampled: "),
                    HasSubstr("has no sampler; those of 'farcall serve' have")));
}

/// What it must not take for true, and how it says so.
struct falsehood {
  const char* what; ///< hostile_sampler.cpp knows it
  const char* answer;
};

TEST_F(profile_of_servers, does_not_believe_samplers_everything) {
  const falsehood falsehoods[] = {
      {"endless", "says that there is more, and tells nothing"},
      {"contradicts", "makes no sense"},
      {"deep", "makes no sense"},
      {"fewer_names", "names of other places"},
      {"many_names", "too many names"},
      {"controls", "sampled with ptrace"},
      {"clock", ""},
  };
  std::list<server_of_test> servers;
  std::string urls;
  for (const falsehood& f : falsehoods) {
    servers.emplace_back(std::vector<std::string>{HOSTILE_SAMPLER, PROFILED_PROGRAM, f.what});
    urls += (urls.empty() ? "" : ",") + servers.back().url();
  }
  const program_result result = profile(urls, "2");
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_status, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error, Not(HasSubstr("\033")));
  EXPECT_THAT(result.standard_error, HasSubstr("hostile"));
  const std::string lines = result.standard_error.substr(0, result.standard_error.find("\n\n"));
  auto server = servers.begin();
  for (const falsehood& f : falsehoods) {
    // "farcall prof: node 1 at 127.0.0.1:4711: no more samples: …"
    const std::string at = " at " + server++->url().substr(6) + ": ";
    const std::size_t begin = lines.find(at);
    const bool is_told = begin != std::string::npos;
    EXPECT_EQ(is_told, *f.answer != 0) << f.what << ": " << lines;
    if (!is_told) continue;
    EXPECT_THAT(lines.substr(begin, lines.find('\n', begin) - begin), HasSubstr(f.answer));
  }
}

TEST_F(profile_of_servers, gives_up_those_that_do_not_answer) {
  const server_of_test during({HOSTILE_SAMPLER, PROFILED_PROGRAM, "silent"});
  const server_of_test at_end({HOSTILE_SAMPLER, PROFILED_PROGRAM, "silent_at_end"});
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const unique_fd input(ends[0]);
  const unique_fd held(ends[1]);
  const std::string targets = "--farcall-targets=" + during.url() + "," + at_end.url();
  const forked_process host([&] {
    dup2(input.get(), STDIN_FILENO);
    execl(PROFILED_PROGRAM, PROFILED_PROGRAM, "job", targets.c_str(), nullptr);
    return 1;
  });
  remote_samplers samplers(host.pid(), {}, 500ms);
  std::this_thread::sleep_for(1s);
  tool::profile seen;
  testing::internal::CaptureStderr();
  samplers.stop();
  samplers.add_to(seen, 0, [](std::size_t, std::size_t) {});
  const std::string told = testing::internal::GetCapturedStderr();
  // On a busy machine it may be too early for samples.
  for (const server_of_test* server : {&during, &at_end}) {
    const std::string at = " at " + server->url().substr(6);
    EXPECT_THAT(told, ContainsRegex(at + ": (no more samples|not sampled): "));
  }
}

/// What is told of servers that a process's counters name.
std::string told_of_servers(pid_t process) {
  remote_samplers samplers(process, {}, 500ms);
  tool::profile seen;
  testing::internal::CaptureStderr();
  // It looks once more.
  samplers.stop();
  samplers.add_to(seen, 0, [](std::size_t, std::size_t) {});
  return testing::internal::GetCapturedStderr();
}

TEST(remote_samplers, go_only_to_addresses_of_servers) {
  counter_segment counters({0, getpid(), "here"});
  // Else the program would be run.
  const std::string one_and_more = "127.0.0.1:1,shm:1?program=/bin/false,tcp://127.0.0.1:1";
  counters.describe_peer(1, 1, 1, "tcp", "elsewhere", "x", one_and_more);
  const std::string told = told_of_servers(getpid());
  EXPECT_THAT(told, AllOf(HasSubstr("has targets that are not sampled"), HasSubstr(one_and_more)));
  EXPECT_THAT(told, Not(HasSubstr("cannot be started")));
}

TEST(remote_samplers, are_not_more_than_a_process_can_have) {
  counter_segment counters({0, getpid(), "here"});
  for (node_id n = 1; n <= 600; ++n) {
    counters.describe_peer(n, 1, 1, "tcp", "elsewhere", "x",
                           "127.1." + std::to_string(n / 250) + "." + std::to_string(n % 250) +
                               ":1");
  }
  const std::string told = told_of_servers(getpid());
  EXPECT_THAT(told, HasSubstr("targets at more than 500 servers are not sampled"));
  EXPECT_THAT(told, HasSubstr("node 500 at 127.1.2.0:1: not sampled"));
  EXPECT_THAT(told, Not(HasSubstr("node 501 at")));
}

TEST(remote_samplers, ask_no_servers_of_other_users) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user, too";
  constexpr uid_t other = 65534;
  // With counters of its own, and with some from before it became another.
  for (const bool has_own : {true, false}) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const unique_fd says(ends[1]);
    const forked_process host([&] {
      if (has_own && setuid(other) != 0) return 1;
      counter_segment counters({0, getpid(), "here"});
      counters.describe_peer(1, 1, 1, "tcp", "elsewhere", "x", "127.0.0.1:1");
      if (!has_own && setuid(other) != 0) return 1;
      if (write(says.get(), "", 1) != 1) return 1;
      std::this_thread::sleep_for(1h);
      return 0;
    });
    const unique_fd said(ends[0]);
    char c = 0;
    ASSERT_EQ(read(said.get(), &c, 1), 1);
    const std::string told = told_of_servers(host.pid());
    EXPECT_THAT(told, HasSubstr("it is another user's"));
    EXPECT_THAT(told, Not(HasSubstr("127.0.0.1:1")));
  }
}

TEST(server_sampler, samples_processes_of_its_server_only) {
  const server_of_test server({FARCALL_COMMAND, "serve", PROFILED_PROGRAM});
  job_options options;
  options.targets = server.url() + "?sampler=yes";
  const job own(options);
  const node sampler = own.targets().at(0);
  for (const pid_t process : {getpid(), getppid(), pid_t{1}, pid_t{0}, pid_t{-1}}) {
    try {
      (void)sync(sampler, fn<server_sampler::sample>, std::int64_t{process}, sampler_options{});
      ADD_FAILURE() << process;
    } catch (const remote_error& e) {
      EXPECT_THAT(e.what(), HasSubstr("is none that the server has started"));
    }
  }
  const auto nothing = sync(sampler, fn<server_sampler::take>,
                            server_sampler::recorded_counts{1, 2, 3, 4, 5, 6}, false);
  EXPECT_TRUE(nothing.is_last && nothing.samples.samples.empty());
  for (const unsigned rate : {0U, 10'001U, 4'294'967'295U}) {
    try {
      (void)sync(sampler, fn<server_sampler::sample>, std::int64_t{1}, sampler_options{rate});
      ADD_FAILURE() << rate;
    } catch (const remote_error& e) {
      EXPECT_THAT(e.what(), HasSubstr("no such options"));
    }
  }
  const std::vector<std::uint64_t> some{1, 2};
  EXPECT_THROW((void)sync(sampler, fn<server_sampler::symbols>, std::uint32_t{3},
                          std::span<const std::uint64_t>(some)),
               remote_error);
}

TEST(server_sampler, is_one_of_the_targets_that_a_server_may_have) {
  const server_of_test server({FARCALL_COMMAND, "serve", "--most-targets", "1", PROFILED_PROGRAM});
  job_options options;
  options.targets = server.url() + "?sampler=yes";
  const job first(options);
  for (const char* const what : {"", "?sampler=yes"}) {
    options.targets = server.url() + what;
    try {
      const job second(options);
      ADD_FAILURE() << what;
    } catch (const start_failed& e) {
      EXPECT_THAT(e.what(), HasSubstr("as many targets as it may have"));
    }
  }
}

} // namespace
} // namespace farcall::tool::servers_test
