// SPDX-License-Identifier: Apache-2.0
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
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/// Tests of `farcall prof` for targets that servers have started.
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

/// A program that serves at its own address during the lifetime of this object.
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
    // Line: "farcall: serving at unix:///tmp/farcall-4711.socket, unencrypted, …"
    const std::string_view before = "farcall: serving at ";
    if (line.starts_with(before)) {
      url_ = line.substr(before.size(), line.find(',') - before.size());
    }
  }
  server_of_test(const server_of_test&) = delete;
  server_of_test& operator=(const server_of_test&) = delete;
  ~server_of_test() {
    // A killed server leaves its socket file.
    const std::string_view scheme = "unix://";
    process_.reset();
    if (url_.starts_with(scheme)) ::unlink(url_.c_str() + scheme.size());
  }
  [[nodiscard]] const std::string& url() const { return url_; }
  [[nodiscard]] pid_t process() const { return process_->pid(); }
  /// Ends the server and its targets: with two different signals, since two equal ones may be
  /// merged.
  void end() {
    kill(process_->pid(), SIGTERM);
    kill(process_->pid(), SIGINT);
    EXPECT_TRUE(process_->wait_until(std::chrono::steady_clock::now() + 20s));
  }

 private:
  std::optional<forked_process> process_;
  std::string url_;
};

/// Returns the sampler that the server has started; 0 if there is none.
pid_t sampler_of(pid_t server) {
  for (const pid_t process : with_descendants(server)) {
    if (command_of(process).ends_with("farcall-prof sampler")) return process;
  }
  return 0;
}

/// Returns the CPU time of a process; 0 if it has ended.
std::chrono::nanoseconds processor_time_of(pid_t process) {
  clockid_t clock = 0;
  timespec time{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0ns;
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// True if the process has perf events open.
bool has_perf_events(pid_t process) {
  std::error_code gone;
  std::filesystem::directory_iterator at("/proc/" + std::to_string(process) + "/fd", gone);
  for (; !gone && at != std::filesystem::directory_iterator(); at.increment(gone)) {
    if (std::filesystem::read_symlink(*at, gone).string().find("[perf_event]") != std::string::npos)
      return true;
  }
  return false;
}

enum class is_needed : bool { no, yes };

/// Waits until `targets` targets of the server have worked for some time while its sampler, if one
/// is needed, sampled them; at most until `end`. Returns the sampler.
pid_t wait_until_worked(
    pid_t server, std::size_t targets, is_needed needs_sampler,
    std::chrono::steady_clock::time_point end = std::chrono::steady_clock::now() + 30s) {
  pid_t sampler = 0;
  std::map<pid_t, std::chrono::nanoseconds> since;
  for (; std::chrono::steady_clock::now() < end; std::this_thread::sleep_for(10ms)) {
    sampler = sampler_of(server);
    if (needs_sampler == is_needed::yes && (sampler == 0 || !has_perf_events(sampler))) continue;
    std::size_t sampled = 0;
    for (const pid_t process : with_descendants(server)) {
      if (process == server || process == sampler) continue;
      const auto used = processor_time_of(process);
      const auto begin = since.try_emplace(process, used).first->second;
      sampled += used - begin > 200ms ? 1 : 0;
    }
    if (sampled >= targets) break;
  }
  return sampler;
}

pid_t wait_until_sampled(pid_t server, std::size_t targets) {
  return wait_until_worked(server, targets, is_needed::yes);
}

/// Returns the table of a node from the printed text.
std::string table_of(const std::string& printed, const std::string& node) {
  const std::size_t at = printed.find("\n" + node + "\n");
  return at == std::string::npos ? "" : printed.substr(at, printed.find("\n\n", at + 1) - at);
}

/// An action of the test during a job; the job ends after it.
using stage = std::function<void()>;

/// Runs `farcall prof` on a shell, whose jobs offload to servers' targets.
class profile_of_servers : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_sampled_by_kernel()) GTEST_SKIP() << "perf_event_open is refused here";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] const std::string& folder() const { return folder_; }

  /// Profiles `job` in a shell, where $0 is the program, $1 the URL of its targets, and $2 a folder
  /// of pipes named 0, 1, …: each is the input of a job, which ends after the stage of that number.
  [[nodiscard]] program_result profile(const std::string& url, const std::vector<stage>& stages,
                                       const std::string& command = first_job) const {
    std::vector<unique_fd> inputs;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const std::string name = folder_ + "/" + std::to_string(i);
      ::unlink(name.c_str());
      // Opened for both directions, so that neither end blocks.
      if (::mkfifo(name.c_str(), 0600) != 0) std::abort();
      inputs.emplace_back(::open(name.c_str(), O_RDWR | O_CLOEXEC));
    }
    std::thread director([&] {
      for (std::size_t i = 0; i < stages.size(); ++i) {
        stages[i]();
        inputs[i].reset();
      }
    });
    program_result result =
        run_program({FARCALL_COMMAND, "prof", "-s", "1000", "--per-node", "-v", "--", "/bin/sh",
                     "-c", command, PROFILED_PROGRAM, url, folder_},
                    90s);
    director.join();
    return result;
  }

  /// Returns a stage that ends once targets of the server have been sampled for a while.
  [[nodiscard]] static stage sampled(const server_of_test& server, std::size_t targets = 1) {
    return [&server, targets] { (void)wait_until_sampled(server.process(), targets); };
  }

  static constexpr const char* first_job = R"("$0" job "--farcall-targets=$1" <"$2/0")";
  static constexpr const char* two_jobs = R"("$0" job "--farcall-targets=$1" <"$2/0"
                                             "$0" job "--farcall-targets=$1,$1" <"$2/1")";

 private:
  std::string folder_ = std::filesystem::temp_directory_path() / "farcall-prof-XXXXXX";
};

TEST_F(profile_of_servers, has_their_targets) {
  const server_of_test server({FARCALL_COMMAND, "serve", PROFILED_PROGRAM});
  const program_result result = profile(server.url() + "," + server.url(), {sampled(server, 2)});
  EXPECT_EQ(result.exit_status, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error, Not(HasSubstr("missing")));
  EXPECT_THAT(table_of(result.standard_error, "node 0"), Not(IsEmpty()));
  EXPECT_THAT(table_of(result.standard_error, "node 1"), HasSubstr("twice"));
  EXPECT_THAT(table_of(result.standard_error, "node 2"), HasSubstr("twice"));
  // Run again: a sampler leaves nothing behind.
  EXPECT_EQ(profile(server.url(), {sampled(server)}).exit_status, 0);
}

TEST_F(profile_of_servers, has_targets_of_later_jobs) {
  const server_of_test server({FARCALL_COMMAND, "serve", PROFILED_PROGRAM});
  const program_result result =
      profile(server.url(), {sampled(server), sampled(server, 2)}, two_jobs);
  EXPECT_EQ(result.exit_status, 0) << result.standard_error;
  // The first job has no node 2.
  EXPECT_THAT(table_of(result.standard_error, "node 2"), HasSubstr("twice"));
}

TEST_F(profile_of_servers, takes_names_from_servers_if_the_program_is_missing) {
  const std::string program =
      std::filesystem::temp_directory_path() / ("farcall-served-" + std::to_string(getpid()));
  std::filesystem::copy_file(PROFILED_PROGRAM, program);
  const server_of_test server({FARCALL_COMMAND, "serve", program});
  const program_result result = profile(server.url(), {[&] {
                                          (void)wait_until_sampled(server.process(), 1);
                                          std::filesystem::remove(program);
                                        }});
  EXPECT_EQ(result.exit_status, 0) << result.standard_error;
  const std::string table = table_of(result.standard_error, "node 1");
  EXPECT_THAT(table, AllOf(HasSubstr("farcall-served"), HasSubstr("twice")));
}

TEST_F(profile_of_servers, uses_the_key_that_the_host_has) {
  const std::string key = folder() + "/key";
  ASSERT_EQ(run_program({FARCALL_COMMAND, "keygen", key}, 20s).exit_status, 0);
  const server_of_test server({FARCALL_COMMAND, "serve", "--key", key, PROFILED_PROGRAM});
  const program_result result =
      profile(server.url(), {sampled(server)},
              R"(cd "$2" && FARCALL_KEY=key "$0" job "--farcall-targets=$1" <"$2/0")");
  EXPECT_EQ(result.exit_status, 0) << result.standard_error;
  EXPECT_THAT(table_of(result.standard_error, "node 1"), HasSubstr("twice"));
}

TEST_F(profile_of_servers, keeps_samples_if_a_server_ends) {
  // The node has failed, so the job ends, and with it the profile: at once, or later.
  for (const bool is_over_at_once : {true, false}) {
    server_of_test server({FARCALL_COMMAND, "serve", PROFILED_PROGRAM});
    const stage end_of_server = [&] {
      (void)wait_until_sampled(server.process(), 1);
      server.end();
    };
    const std::string then = is_over_at_once ? "exit" : "sleep 3";
    const program_result result =
        profile(server.url(), {end_of_server}, std::string(first_job) + "; " + then);
    EXPECT_EQ(result.exit_status, is_over_at_once ? 134 : 0) << result.standard_error;
    EXPECT_THAT(table_of(result.standard_error, "node 1"), HasSubstr("twice"));
    if (is_over_at_once) continue;
    EXPECT_THAT(result.standard_error, HasSubstr(": no more samples: "));
  }
}

TEST_F(profile_of_servers, keeps_samples_if_a_sampler_hangs) {
  const server_of_test server({FARCALL_COMMAND, "serve", PROFILED_PROGRAM});
  const program_result result =
      profile(server.url(), {[&] { kill(wait_until_sampled(server.process(), 1), SIGSTOP); }});
  EXPECT_EQ(result.exit_status, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error, HasSubstr(": no more samples: "));
  EXPECT_THAT(table_of(result.standard_error, "node 1"), HasSubstr("twice"));
}

TEST_F(profile_of_servers, has_targets_of_later_jobs_after_a_sampler_failed) {
  const server_of_test server({FARCALL_COMMAND, "serve", PROFILED_PROGRAM});
  const stage end_of_sampler = [&] {
    // The profiler already has samples, and polls the sampler several times afterwards.
    for (int i = 0; i < 2; ++i)
      (void)wait_until_sampled(server.process(), 1);
    kill(wait_until_sampled(server.process(), 1), SIGKILL);
    for (int i = 0; i < 4; ++i)
      (void)wait_until_worked(server.process(), 1, is_needed::no);
  };
  const program_result result =
      profile(server.url(), {end_of_sampler, sampled(server, 2)}, two_jobs);
  EXPECT_EQ(result.exit_status, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error, HasSubstr(": no more samples: "));
  EXPECT_THAT(table_of(result.standard_error, "node 2"), HasSubstr("twice"));
}

TEST_F(profile_of_servers, names_servers_without_sampler) {
  const server_of_test server(
      {PROFILED_PROGRAM, "job", "--farcall-serve=127.0.0.1:0", "--farcall-plain=yes"});
  const program_result result =
      profile(server.url(), {[&] { (void)wait_until_worked(server.process(), 1, is_needed::no); }});
  EXPECT_EQ(result.exit_status, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error,
              AllOf(HasSubstr("node 1 at 127.0.0.1:"), HasSubstr(": not sampled: "),
                    HasSubstr("has no sampler; start it with 'farcall serve'")));
}

/// An invalid reply that must be refused, and its message.
struct falsehood {
  const char* what; ///< argument of hostile_sampler.cpp
  const char* reply;
};

TEST_F(profile_of_servers, refuses_invalid_replies_of_samplers) {
  const falsehood falsehoods[] = {
      {"endless", "announces more data, and sends none"},
      {"contradicts", "data is inconsistent"},
      {"deep", "data is inconsistent"},
      {"fewer_names", "names other places"},
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
  const program_result result =
      profile(urls, {[&] {
                const auto end = std::chrono::steady_clock::now() + 30s;
                for (const server_of_test& s : servers)
                  (void)wait_until_worked(s.process(), 1, is_needed::no, end);
              }});
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_status, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error, Not(HasSubstr("\033")));
  EXPECT_THAT(result.standard_error, HasSubstr("hostile"));
  const std::string lines = result.standard_error.substr(0, result.standard_error.find("\n\n"));
  auto server = servers.begin();
  for (const falsehood& f : falsehoods) {
    // Line: "farcall prof: node 1 at 127.0.0.1:4711: no more samples: …"
    const std::string at = " at " + server++->url().substr(6) + ": ";
    const std::size_t begin = lines.find(at);
    const bool is_told = begin != std::string::npos;
    EXPECT_EQ(is_told, *f.reply != 0) << f.what << ": " << lines;
    if (!is_told) continue;
    EXPECT_THAT(lines.substr(begin, lines.find('\n', begin) - begin), HasSubstr(f.reply));
  }
}

TEST_F(profile_of_servers, gives_up_servers_that_do_not_reply) {
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
  for (const server_of_test* server : {&during, &at_end})
    (void)wait_until_worked(server->process(), 1, is_needed::no);
  tool::profile seen;
  testing::internal::CaptureStderr();
  samplers.stop();
  samplers.add_to(seen, 0, [](std::size_t, std::size_t) {});
  const std::string told = testing::internal::GetCapturedStderr();
  // On a busy machine this may be too early for samples.
  for (const server_of_test* server : {&during, &at_end}) {
    const std::string at = " at " + server->url().substr(6);
    EXPECT_THAT(told, ContainsRegex(at + ": (no more samples|not sampled): "));
  }
}

/// Returns the messages about servers that a process's counters name.
std::string told_of_servers(pid_t process) {
  remote_samplers samplers(process, {}, 500ms);
  tool::profile seen;
  testing::internal::CaptureStderr();
  // stop() looks once more.
  samplers.stop();
  samplers.add_to(seen, 0, [](std::size_t, std::size_t) {});
  return testing::internal::GetCapturedStderr();
}

TEST(remote_samplers, go_only_to_addresses_of_servers) {
  counter_segment counters({0, getpid(), "here"});
  // Without the check the program would be run.
  const std::string one_and_more = "127.0.0.1:1,shm:1?program=/bin/false,tcp://127.0.0.1:1";
  counters.describe_peer(1, 1, 1, "tcp", "elsewhere", "x", one_and_more);
  const std::string told = told_of_servers(getpid());
  EXPECT_THAT(told, AllOf(HasSubstr("has targets that are not sampled"), HasSubstr(one_and_more)));
  EXPECT_THAT(told, Not(HasSubstr("cannot be started")));
}

TEST(remote_samplers, are_limited_in_number) {
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
  // With counters of its own, and with counters from before its exec.
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
      EXPECT_THAT(e.what(), HasSubstr("was not started by the server"));
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
      EXPECT_THAT(e.what(), HasSubstr("the options are invalid"));
    }
  }
  const std::vector<std::uint64_t> some{1, 2};
  EXPECT_THROW((void)sync(sampler, fn<server_sampler::symbols>, std::uint32_t{3},
                          std::span<const std::uint64_t>(some)),
               remote_error);
}

TEST(server_sampler, counts_as_a_target_of_its_server) {
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
