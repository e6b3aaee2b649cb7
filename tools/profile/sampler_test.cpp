// SPDX-License-Identifier: Apache-2.0
#include "sampler.hpp"

#include "debug_info.hpp"
#include "perf_events.hpp"
#include "unwinder.hpp"

#include <tools/common/forked_process.hpp>
#include <tools/common/outcome.hpp>

#include <farcall/base/unique_fd.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::tool {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

const std::string program = PROFILED_PROGRAM;

sampled sample_of(const std::vector<std::string>& arguments, sampler_options options = {1000}) {
  std::vector<std::string> words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return sample_program(program, words, options);
}

bool is_sampled_by_kernel() {
  try {
    perf_events events(1, call_graph::none);
    return events.add(getpid(), false);
  } catch (const perf_refused&) {
    return false;
  }
}

bool may_trace() {
  const forked_process child([] {
    for (;;)
      pause();
    return 0;
  });
  return ptrace(PTRACE_SEIZE, child.pid(), nullptr, nullptr) == 0;
}

const profile_frame& frame_of(const profile& p, std::uint32_t stack) {
  return p.frames[p.stacks[stack].frame];
}

/// Returns the name without arguments and surrounding spaces.
std::string short_name(const std::string& function) {
  const std::string text =
      function.substr(0, function.find('(', function.find("namespace)") == std::string::npos
                                                ? 0
                                                : function.find("namespace)") + 10));
  const auto colon = text.rfind("::");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

/// Returns the stack at the innermost function that is not inlined.
std::uint32_t not_inlined(const profile& p, std::uint32_t stack) {
  while (frame_of(p, stack).is_inlined)
    stack = p.stacks[stack].caller;
  return stack;
}

std::string function_of(const profile& p, const profile_sample& s) {
  return short_name(frame_of(p, not_inlined(p, s.stack)).function);
}

std::map<std::string, std::size_t> counts_of(const profile& p) {
  std::map<std::string, std::size_t> counts;
  for (const profile_sample& s : p.samples)
    ++counts[function_of(p, s)];
  return counts;
}

/// Returns all direct and indirect callers of a function.
std::set<std::string> callers_of(const profile& p, const std::string& function) {
  std::set<std::string> callers;
  for (const profile_sample& s : p.samples) {
    if (function_of(p, s) != function) continue;
    for (std::uint32_t at = p.stacks[not_inlined(p, s.stack)].caller; at != profile_stack::none;
         at = p.stacks[at].caller)
      callers.insert(short_name(frame_of(p, at).function));
  }
  return callers;
}

void expect_whole(const profile& p) {
  for (std::size_t i = 0; i < p.stacks.size(); ++i) {
    ASSERT_LT(p.stacks[i].frame, p.frames.size());
    if (p.stacks[i].caller == profile_stack::none) continue;
    ASSERT_LT(p.stacks[i].caller, i);
  }
  for (const profile_sample& s : p.samples) {
    ASSERT_LT(s.stack, p.stacks.size());
    ASSERT_LT(s.thread, p.threads.size());
    ASSERT_LE(s.at, p.duration);
  }
  EXPECT_TRUE(std::ranges::is_sorted(p.samples, {}, &profile_sample::at));
}

/// Expects the functions' shares of samples to be the shares of their loops' turns.
void expect_shares(const profile& p) {
  auto counts = counts_of(p);
  const auto all = static_cast<double>(p.samples.size());
  // 100 units in the main thread, and a tenth of its time in the other.
  constexpr double units = 110;
  const std::map<std::string, double> expected{{"forty", 40},
                                               {"twenty", 20},
                                               {"around_twelve", 12},
                                               {"ten_recursive", 10},
                                               {"five", 5},
                                               {"four", 4},
                                               {"two", 2},
                                               {"one", 1},
                                               {"library_work", 6},
                                               {"in_thread", 10}};
  for (const auto& [name, part] : expected) {
    const double share = part / units;
    // Four standard deviations of a binomial distribution, plus two points for the loader and for
    // varying speed of the processor.
    const double tolerance = 4 * std::sqrt(share * (1 - share) / all) + 0.02;
    EXPECT_NEAR(static_cast<double>(counts[name]) / all, share, tolerance) << name;
  }
}

TEST(sampler, sees_the_shares_of_functions) {
  if (!is_sampled_by_kernel()) GTEST_SKIP() << "perf_event_open is refused here";
  const sampled result = sample_of({"shares", "1", PROFILED_LIBRARY});
  EXPECT_EQ(result.status, 0);
  const profile& p = result.seen;
  expect_whole(p);
  ASSERT_GT(p.samples.size(), 300U);
  EXPECT_EQ(p.lost, 0U);
  expect_shares(p);
  // A leaf function may have no frame; its caller is missing then.
  EXPECT_THAT(callers_of(p, "ten_recursive"), Contains("main"));
  EXPECT_GE(std::ranges::count_if(p.threads, [](const profile_thread& t) { return t.is_main; }), 1);
  EXPECT_EQ(std::ranges::count_if(p.threads, [](const profile_thread& t) { return !t.is_main; }),
            1);
  const auto in_library = std::ranges::find_if(
      p.frames, [](const profile_frame& frame) { return frame.function == "library_work"; });
  ASSERT_NE(in_library, p.frames.end());
  EXPECT_TRUE(in_library->module.ends_with(".so")) << in_library->module;
  if (!reads_debug_information()) return;
  EXPECT_THAT(in_library->file, HasSubstr("profiled_library.cpp"));
  const auto inlined = std::ranges::find_if(p.frames, [](const profile_frame& frame) {
    return frame.is_inlined && short_name(frame.function) == "twelve_inlined";
  });
  ASSERT_NE(inlined, p.frames.end());
  EXPECT_THAT(inlined->file, HasSubstr("profiled_program.cpp"));
  EXPECT_GT(inlined->line, 0U);
}

TEST(sampler, unwinds_copies_of_stacks) {
  if (!is_sampled_by_kernel()) GTEST_SKIP() << "perf_event_open is refused here";
  if (!can_unwind()) return;
  // qsort is called in the C++ library, which has no frame pointers.
  const sampled result = sample_of({"sorts"}, {1000, call_graph::dwarf});
  EXPECT_EQ(result.status, 0);
  expect_whole(result.seen);
  EXPECT_EQ(result.seen.lost, 0U);
  std::size_t all = 0;
  std::size_t whole = 0;
  for (const profile_sample& s : result.seen.samples) {
    std::set<std::string> functions;
    for (std::uint32_t at = s.stack; at != profile_stack::none; at = result.seen.stacks[at].caller)
      functions.insert(short_name(frame_of(result.seen, at).function));
    all += functions.contains("compare") ? 1U : 0U;
    whole +=
        functions.contains("compare") && functions.contains("sorts") && functions.contains("main")
            ? 1U
            : 0U;
  }
  ASSERT_GT(all, 20U);
  EXPECT_GE(whole, all * 9 / 10);
}

TEST(sampler, without_callers_sees_the_same_functions) {
  if (!is_sampled_by_kernel()) GTEST_SKIP() << "perf_event_open is refused here";
  const sampled result = sample_of({"shares", "0.3", PROFILED_LIBRARY}, {1000, call_graph::none});
  expect_whole(result.seen);
  for (const profile_sample& s : result.seen.samples) {
    const std::uint32_t stack = not_inlined(result.seen, s.stack);
    ASSERT_EQ(result.seen.stacks[stack].caller, profile_stack::none);
  }
  expect_shares(result.seen);
}

TEST(sampler, follows_forks_and_execs) {
  if (!is_sampled_by_kernel()) GTEST_SKIP() << "perf_event_open is refused here";
  const sampled result = sample_of({"forks"});
  EXPECT_EQ(result.status, 5);
  const profile& p = result.seen;
  expect_whole(p);
  std::map<std::string, std::set<int>> processes;
  for (const profile_sample& s : p.samples)
    processes[function_of(p, s)].insert(p.threads[s.thread].process);
  auto counts = counts_of(p);
  // The expectation is 150 each; a busy virtual machine may take most of them.
  EXPECT_GT(counts["child_work"], 30U);
  EXPECT_GT(counts["executed_work"], 30U);
  EXPECT_EQ(processes["child_work"].size(), 1U);
  EXPECT_EQ(processes["executed_work"].size(), 1U);
  EXPECT_NE(processes["child_work"], processes["executed_work"]);
  for (const profile_thread& t : p.threads)
    EXPECT_THAT(t.program, HasSubstr("profiled_program"));
}

TEST(sampler, keeps_what_a_killed_program_did) {
  if (!is_sampled_by_kernel()) GTEST_SKIP() << "perf_event_open is refused here";
  const sampled result = sample_of({"killed"});
  EXPECT_EQ(result.status, 128 + SIGKILL);
  EXPECT_GT(result.seen.samples.size(), 20U);
  expect_whole(result.seen);
}

TEST(sampler, may_find_no_samples) {
  if (!is_sampled_by_kernel()) GTEST_SKIP() << "perf_event_open is refused here";
  const sampled result = sample_of({"nothing"}, {1});
  EXPECT_EQ(result.status, 0);
  EXPECT_TRUE(result.seen.samples.empty());
  expect_whole(result.seen);
}

TEST(sampler, refuses_an_unknown_process_id) {
  EXPECT_THROW((void)sample_process(0x7ffffff0, {}, {}), usage_problem);
}

TEST(sampler, with_ptrace_sees_the_same_functions) {
  if (!may_trace()) GTEST_SKIP() << "ptrace is refused here";
  sampler_options options{1000};
  options.by_ptrace = true;
  const sampled result = sample_of({"shares", "0.4", PROFILED_LIBRARY}, options);
  EXPECT_EQ(result.status, 0);
  expect_whole(result.seen);
  ASSERT_GT(result.seen.samples.size(), 40U);
  auto counts = counts_of(result.seen);
  // The kernel's work for the loader is sampled too.
  EXPECT_GT(counts["forty"], result.seen.samples.size() / 8);
  EXPECT_GT(counts["forty"], counts["twenty"]);
  EXPECT_THAT(callers_of(result.seen, "forty"), Not(Contains("twenty")));
}

TEST(sampler, with_ptrace_follows_forks_and_execs) {
  if (!may_trace()) GTEST_SKIP() << "ptrace is refused here";
  sampler_options options{200};
  options.by_ptrace = true;
  const sampled result = sample_of({"forks"}, options);
  EXPECT_EQ(result.status, 5);
  std::set<int> processes;
  for (const profile_thread& t : result.seen.threads)
    processes.insert(t.process);
  EXPECT_GE(processes.size(), 2U);
}

TEST(sampler, with_ptrace_keeps_what_a_killed_program_did) {
  if (!may_trace()) GTEST_SKIP() << "ptrace is refused here";
  sampler_options options{200};
  options.by_ptrace = true;
  const sampled result = sample_of({"killed"}, options);
  EXPECT_EQ(result.status, 128 + SIGKILL);
  EXPECT_FALSE(result.seen.samples.empty());
}

// ---- jobs ---------------------------------------------------------------------------------------

/// Makes calls until it is told to end; its exit status says whether a call was lost.
class running_job {
 public:
  running_job() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw failed_run("no pipe");
    input_ = unique_fd(ends[1]);
    const unique_fd theirs(ends[0]);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(theirs.get(), STDIN_FILENO);
      execl(program.c_str(), program.c_str(), "job", nullptr);
      _exit(127);
    }
  }
  ~running_job() {
    if (pid_ > 0) (void)end();
  }
  running_job(const running_job&) = delete;
  running_job& operator=(const running_job&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] int end() {
    input_.reset();
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  /// Waits until samples show the host and its targets; false if that takes more than some seconds.
  [[nodiscard]] bool has_targets() const {
    for (int i = 0; i < 200; ++i) {
      const sampled result = sample_process(pid_, 50ms, {1000});
      std::set<node_id> nodes;
      for (const profile_thread& t : result.seen.threads)
        nodes.insert(t.node);
      if (nodes.contains(1) && nodes.contains(2)) return true;
    }
    return false;
  }

 private:
  unique_fd input_;
  pid_t pid_ = -1;
};

TEST(sampled_job, has_the_numbers_of_its_nodes) {
  if (!is_sampled_by_kernel() || !may_trace()) GTEST_SKIP() << "sampling is refused here";
  running_job job;
  ASSERT_TRUE(job.has_targets());
  std::set<node_id> nodes;
  std::set<node_id> computing;
  bool waits = false;
  const auto is_seen = [&] {
    return waits && nodes.contains(host_id) && computing.contains(1) && computing.contains(2);
  };
  // If threads outnumber processors, they spend most of their time in the kernel.
  for (int i = 0; i < 100 && !is_seen(); ++i) {
    const sampled result = sample_process(job.pid(), 100ms, {1000});
    expect_whole(result.seen);
    for (const profile_sample& s : result.seen.samples) {
      const node_id node = result.seen.threads[s.thread].node;
      nodes.insert(node);
      if (s.does == activity::computes && function_of(result.seen, s) == "twice")
        computing.insert(node);
      waits = waits || (node == host_id && s.does == activity::waits);
    }
  }
  EXPECT_EQ(nodes, (std::set<node_id>{0, 1, 2}));
  EXPECT_EQ(computing, (std::set<node_id>{1, 2}));
  EXPECT_TRUE(waits);
  EXPECT_EQ(job.end(), 0);
}

TEST(sampled_job, loses_no_call_when_samplers_come_and_go) {
  if (!is_sampled_by_kernel() || !may_trace()) GTEST_SKIP() << "sampling is refused here";
  running_job job;
  ASSERT_TRUE(job.has_targets());
  for (int i = 0; i < 20; ++i) {
    sampler_options options{1000};
    options.by_ptrace = i % 2 != 0;
    const sampled result = sample_process(job.pid(), 15ms, options);
    expect_whole(result.seen);
  }
  EXPECT_EQ(job.end(), 0);
}

// ---- the command --------------------------------------------------------------------------------

program_result run_farcall(std::vector<std::string> words) {
  return run_program(words, std::chrono::seconds(60));
}

TEST(prof_command, says_that_it_samples_with_ptrace) {
  if (!may_trace()) GTEST_SKIP() << "ptrace is refused here";
  const program_result result = run_farcall(
      {program, "without", "perf", FARCALL_COMMAND, "prof", "-s", "200", "--", program, "works"});
  if (result.exit_status == 77) GTEST_SKIP() << "filters of system calls are forbidden here";
  EXPECT_EQ(result.exit_status, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error, AllOf(HasSubstr("sampling with ptrace"), HasSubstr("turn")));
  EXPECT_EQ(result.standard_output, "");
}

/// A process that computes until it is ended, with additional environment variables.
class busy_process {
 public:
  explicit busy_process(const std::vector<std::string>& variables) {
    pid_ = fork();
    if (pid_ != 0) return;
    for (const std::string& variable : variables)
      putenv(strdup(variable.c_str()));
    execl("/bin/sh", "sh", "-c", "while :; do :; done", nullptr);
    _exit(127);
  }
  ~busy_process() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  busy_process(const busy_process&) = delete;
  busy_process& operator=(const busy_process&) = delete;
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

TEST(sampler, samples_the_nodes_of_a_launched_host) {
  if (!is_sampled_by_kernel() && !may_trace()) GTEST_SKIP() << "sampling is refused here";
  const std::string launch = "PMIX_NAMESPACE=launch-" + std::to_string(getpid());
  const busy_process host({launch, "PMIX_RANK=0"});
  const busy_process node({launch, "PMIX_RANK=1"});
  const busy_process other({launch + "-other", "PMIX_RANK=2"});
  std::set<node_id> nodes;
  std::string told;
  for (int i = 0; i < 50 && !nodes.contains(1); ++i) {
    testing::internal::CaptureStderr();
    const sampled result = sample_process(host.pid(), 100ms, {1000});
    told = testing::internal::GetCapturedStderr();
    for (const profile_thread& t : result.seen.threads)
      nodes.insert(t.node);
  }
  EXPECT_THAT(nodes, Contains(1));
  EXPECT_THAT(nodes, Not(Contains(2)));
  EXPECT_THAT(told, HasSubstr("of which 1 other nodes run on this machine"));
}

TEST(sampler, tells_of_processes_that_the_program_leaves_running) {
  if (!is_sampled_by_kernel() && !may_trace()) GTEST_SKIP() << "sampling is refused here";
  std::string file = std::filesystem::temp_directory_path() / "left-XXXXXX";
  unique_fd(mkostemp(file.data(), O_CLOEXEC)).reset();
  testing::internal::CaptureStderr();
  const sampled result = sample_program(
      "/bin/sh",
      {"sh", "-c", "sleep 600 > /dev/null 2>&1 < /dev/null & echo $! > \"$1\"", "sh", file},
      {1000});
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_EQ(result.status, 0);
  pid_t left = 0;
  std::ifstream(file) >> left;
  std::filesystem::remove(file);
  ASSERT_GT(left, 1);
  kill(left, SIGKILL);
  EXPECT_THAT(told, HasSubstr("farcall prof --pid " + std::to_string(left)));
}

TEST(prof_command, advises_if_all_sampling_is_forbidden) {
  const program_result result = run_farcall(
      {program, "without", "both", FARCALL_COMMAND, "prof", "--", "/bin/echo", "this has begun"});
  if (result.exit_status == 77) GTEST_SKIP() << "filters of system calls are forbidden here";
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.standard_error,
              AllOf(HasSubstr("perf_event_paranoid"), HasSubstr("SYS_PTRACE")));
  EXPECT_EQ(result.standard_output, "");
}

TEST(sampler, says_who_traces_a_process_already) {
  if (!may_trace()) GTEST_SKIP() << "ptrace is refused here";
  const forked_process traced([] {
    for (;;)
      pause();
    return 0;
  });
  ASSERT_EQ(ptrace(PTRACE_SEIZE, traced.pid(), nullptr, nullptr), 0);
  // Another process, since a traced tracer cannot trace again.
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  forked_process other([&] {
    sampler_options options{100};
    options.by_ptrace = true;
    std::string text = "sampled";
    try {
      (void)sample_process(traced.pid(), 10ms, options);
    } catch (const failed_run& e) {
      text = e.what();
    }
    return write(told[1], text.data(), text.size()) > 0 ? 0 : 1;
  });
  std::array<char, 1000> text{};
  ASSERT_GT(read(told[0], text.data(), text.size() - 1), 0);
  EXPECT_THAT(text.data(), HasSubstr(std::to_string(getpid()) + " traces it"));
  close(told[0]);
  close(told[1]);
}

TEST(prof_command, ends_as_the_program_does) {
  if (!is_sampled_by_kernel()) GTEST_SKIP() << "perf_event_open is refused here";
  EXPECT_EQ(run_farcall({FARCALL_COMMAND, "prof", "--", "/bin/sh", "-c", "exit 7"}).exit_status, 7);
  const program_result killed =
      run_farcall({FARCALL_COMMAND, "prof", "--", "/bin/sh", "-c", "kill -ABRT $$"});
  EXPECT_EQ(killed.exit_status, 134);
  EXPECT_THAT(killed.standard_error, HasSubstr("status 134, as one killed by SIGABRT"));
  const program_result missing = run_farcall({FARCALL_COMMAND, "prof", "--", "/no/such/program"});
  EXPECT_EQ(missing.exit_status, 2);
  EXPECT_THAT(missing.standard_error, HasSubstr("/no/such/program"));
}

TEST(prof_command, says_that_an_interpreter_is_missing) {
  if (!is_sampled_by_kernel()) GTEST_SKIP() << "perf_event_open is refused here";
  std::string script = std::filesystem::temp_directory_path() / "script-XXXXXX";
  unique_fd file(::mkstemp(script.data()));
  const std::string text = "#!/no/such/interpreter\n";
  ASSERT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ASSERT_EQ(::fchmod(file.get(), 0700), 0);
  file.reset(); // a file open for writing cannot be executed
  const program_result result = run_farcall({FARCALL_COMMAND, "prof", "--", script});
  ::unlink(script.c_str());
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.standard_error, HasSubstr("the interpreter that it names is missing"));
}

TEST(prof_command, outlives_the_signals_of_the_program) {
  if (!is_sampled_by_kernel()) GTEST_SKIP() << "perf_event_open is refused here";
  for (const std::string signal : {"INT", "QUIT", "TERM", "HUP"}) {
    // Signal the whole process group, like a terminal.
    const program_result result = run_farcall(
        {FARCALL_COMMAND, "prof", "--", "/bin/sh", "-c", "kill -" + signal + " 0; sleep 60"});
    EXPECT_GT(result.exit_status, 128) << signal;
    EXPECT_THAT(result.standard_error, HasSubstr("samples")) << signal;
  }
}

TEST(prof_command, refuses_invalid_options) {
  EXPECT_EQ(run_farcall({FARCALL_COMMAND, "prof"}).exit_status, 2);
  EXPECT_EQ(run_farcall({FARCALL_COMMAND, "prof", "--pid", "1", "--", "/bin/true"}).exit_status, 2);
  EXPECT_EQ(
      run_farcall({FARCALL_COMMAND, "prof", "--duration", "1", "--", "/bin/true"}).exit_status, 2);
  const program_result ending =
      run_farcall({FARCALL_COMMAND, "prof", "-o", "profile.unknown", "--", "/bin/echo", "begun"});
  EXPECT_EQ(ending.exit_status, 2);
  EXPECT_THAT(ending.standard_error, HasSubstr("profile.unknown"));
  EXPECT_EQ(ending.standard_output, "");
  // Refuse the file before the program runs, possibly for hours.
  for (const std::string file : {"/no/such/folder/p.svg", "/proc/p.svg"}) {
    const program_result refused =
        run_farcall({FARCALL_COMMAND, "prof", "-o", file, "--", "/bin/echo", "begun"});
    EXPECT_EQ(refused.exit_status, 2) << file;
    EXPECT_THAT(refused.standard_error, HasSubstr("-o " + file + ": it cannot be written"));
    EXPECT_EQ(refused.standard_output, "") << file;
  }
}

/// Runs the command in a shell, and has the program's profile written to `file`.
program_result profile_in_shell(const std::string& redirections, const std::string& file) {
  return run_program({"/bin/sh", "-c",
                      "\"$0\" prof -s 1000 -o \"$1\" -- \"$2\" works" + redirections,
                      FARCALL_COMMAND, file, program},
                     std::chrono::seconds(60));
}

TEST(prof_command, keeps_the_file_if_the_table_has_no_reader) {
  if (!is_sampled_by_kernel()) GTEST_SKIP() << "perf_event_open is refused here";
  const std::string file = std::filesystem::temp_directory_path() /
                           ("farcall-kept-" + std::to_string(getpid()) + ".collapsed");
  for (const char* redirections : {" 2>/dev/full", " 2>&1 | true", " <&- >&- 2>&-"}) {
    std::filesystem::remove(file);
    (void)profile_in_shell(redirections, file);
    ASSERT_TRUE(std::filesystem::exists(file)) << redirections;
    EXPECT_GT(std::filesystem::file_size(file), 0U) << redirections;
  }
  EXPECT_EQ(profile_in_shell(" <&- >&- 2>&-", file).exit_status, 0);
  std::filesystem::remove(file);
}

/// Profiles a shell script, whose processes that outlive it do not hold the pipes of this test.
program_result profile_of_script(const std::string& script) {
  return run_program({FARCALL_COMMAND, "prof", "--", "/bin/sh", "-c", script},
                     std::chrono::seconds(60));
}

TEST(prof_command, reports_only_processes_that_stay_after_the_program) {
  if (!is_sampled_by_kernel()) GTEST_SKIP() << "perf_event_open is refused here";
  // The first child ends as soon as its parent, the process $$, has ended.
  const program_result ending =
      profile_of_script("(while kill -0 $$; do :; done) >/dev/null 2>&1 & i=0; while [ $i -lt "
                        "20000 ]; do i=$((i+1)); done");
  EXPECT_THAT(ending.standard_error, Not(HasSubstr("no longer sampled")));
  const program_result staying = profile_of_script("sleep 2 >/dev/null 2>&1 &");
  EXPECT_THAT(staying.standard_error, HasSubstr("(sleep) running, which is no longer sampled"));
}

TEST(prof_command, prints_the_table_if_the_file_cannot_be_written) {
  if (!is_sampled_by_kernel()) GTEST_SKIP() << "perf_event_open is refused here";
  const std::string file = std::filesystem::temp_directory_path() /
                           ("farcall-refused-" + std::to_string(getpid()) + ".svg");
  const program_result refused =
      run_program({"/bin/sh", "-c", "ulimit -f 0; \"$0\" prof -s 1000 -o \"$1\" -- \"$2\" works",
                   FARCALL_COMMAND, file, program},
                  std::chrono::seconds(60));
  EXPECT_EQ(refused.exit_status, 1);
  EXPECT_THAT(refused.standard_error, HasSubstr("cannot write " + file + ": File too large"));
  EXPECT_THAT(refused.standard_error, HasSubstr("samples"));
  std::filesystem::remove(file);
}

} // namespace
} // namespace farcall::tool
