// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/memory/segment.hpp>
#include <farcall/transport/process.hpp>
#include <tests/refused_calls.hpp>
#include <tests/support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::process_test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* shell = "/bin/sh";
constexpr const char* variable = "FARCALL_PROCESS_TEST";

time_point soon() { return clock::now() + test::wait_limit; }

/// Runs a shell script with these arguments.
child_process run_shell(const std::string& script, const std::vector<std::string>& arguments = {},
                        const std::string& value = "", int inherited = -1) {
  std::vector<std::string> all{"sh", "-c", script, "script"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return child_process::start(shell, all, variable, value, inherited);
}

std::string outcome_of(const std::string& script) {
  child_process child = run_shell(script);
  return child.wait(soon()).value_or("still running");
}

/// Temporary folder, removed in the destructor.
class scratch_folder {
 public:
  scratch_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "farcall-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw_system_error("making " + name, errno);
    path_ = name;
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] std::string file(const std::string& name, const std::string& contents,
                                 std::filesystem::perms permissions) const {
    const auto path = path_ / name;
    std::ofstream(path) << contents;
    std::filesystem::permissions(path, permissions);
    return path.string();
  }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

bool is_running(pid_t pid) { return ::kill(pid, 0) == 0; }

// ---- ends ---------------------------------------------------------------------------------------

TEST(child_process, tells_its_exit_status) {
  EXPECT_EQ(outcome_of("exit 0"), "exited with status 0");
  EXPECT_EQ(outcome_of("exit 3"), "exited with status 3");
  EXPECT_EQ(outcome_of("exit 255"), "exited with status 255");
}

TEST(child_process, tells_the_signal_that_ended_it) {
  EXPECT_EQ(outcome_of("kill -KILL $$"), "was killed by signal 9 (SIGKILL)");
  EXPECT_EQ(outcome_of("kill -TERM $$"), "was killed by signal 15 (SIGTERM)");
  EXPECT_EQ(outcome_of("ulimit -c 0; kill -SEGV $$"), "was killed by signal 11 (SIGSEGV)");
  EXPECT_EQ(outcome_of("ulimit -c 0; kill -ABRT $$"), "was killed by signal 6 (SIGABRT)");
}

TEST(child_process, returns_its_end_repeatedly) {
  child_process child = run_shell("exit 4");
  EXPECT_EQ(child.wait(soon()), "exited with status 4");
  EXPECT_EQ(child.wait(clock::now()), "exited with status 4");
  EXPECT_EQ(child.wait(time_point::max()), "exited with status 4");
}

TEST(child_process, says_nothing_while_it_runs) {
  child_process child = run_shell("exec sleep 1000");
  EXPECT_EQ(child.wait(clock::now() - 1s), std::nullopt);
  const time_point deadline = clock::now() + 20ms;
  EXPECT_EQ(child.wait(deadline), std::nullopt);
  EXPECT_GE(clock::now(), deadline);
  EXPECT_TRUE(is_running(child.pid()));
  child.kill();
  EXPECT_EQ(child.wait(soon()), "was killed by signal 9 (SIGKILL)");
  child.kill(); // the number may already be another process's: kill() does nothing
}

TEST(child_process, an_end_reaped_by_other_code_is_detected) {
  child_process child = run_shell("exit 0");
  ASSERT_EQ(::waitpid(child.pid(), nullptr, 0), child.pid());
  const auto ended = child.wait(soon());
  ASSERT_TRUE(ended);
  EXPECT_THAT(*ended, AnyOf("exited with status 0", HasSubstr("somebody else")));
}

/// Has this process ignore SIGCHLD, so that the system reaps its children.
class ignored_child_signals {
 public:
  ignored_child_signals() {
    struct sigaction ignores{};
    ignores.sa_handler = SIG_IGN;
    ::sigaction(SIGCHLD, &ignores, &before_);
  }
  ignored_child_signals(const ignored_child_signals&) = delete;
  ignored_child_signals& operator=(const ignored_child_signals&) = delete;
  ~ignored_child_signals() { ::sigaction(SIGCHLD, &before_, nullptr); }

 private:
  struct sigaction before_{};
};

// Linux 6.15 and later tell the status of a process that was reaped.
TEST(child_process, a_status_lost_by_ignored_SIGCHLD_is_reported) {
  const ignored_child_signals ignored;
  EXPECT_THAT(outcome_of("exit 7"), AnyOf("exited with status 7", HasSubstr("ignores SIGCHLD")));
  EXPECT_THAT(outcome_of("kill -KILL $$"),
              AnyOf("was killed by signal 9 (SIGKILL)", HasSubstr("ignores SIGCHLD")));
}

TEST(child_process, a_dropped_status_is_reported_as_dropped) {
  const ignored_child_signals ignored;
  std::string ended;
  // Newer systems tell the status through the refused descriptor.
  std::thread([&] {
    test::refuse_system_call(SYS_pidfd_open);
    ended = outcome_of("exit 7");
  }).join();
  EXPECT_THAT(ended, HasSubstr("ignores SIGCHLD (set SIGCHLD to SIG_DFL"));
}

TEST(child_process, is_killed_while_SIGCHLD_is_ignored) {
  const ignored_child_signals ignored;
  child_process child = run_shell("exec sleep 1000");
  EXPECT_TRUE(is_running(child.pid()));
  child.kill();
  EXPECT_NE(child.wait(soon()), std::nullopt);
}

TEST(child_process, end_fd_becomes_readable_at_the_end) {
  child_process child = run_shell("exec sleep 1000");
  if (child.end_fd() < 0) GTEST_SKIP() << "this system has no descriptors for processes";
  pollfd watched{child.end_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&watched, 1, 0), 0);
  child.kill();
  EXPECT_EQ(::poll(&watched, 1, 60'000), 1);
  EXPECT_EQ(child.wait(clock::now()), "was killed by signal 9 (SIGKILL)");
}

// ---- ownership ----------------------------------------------------------------------------------

TEST(child_process, keeps_its_number_until_it_is_reaped) {
  child_process child = run_shell("exit 4");
  ASSERT_EQ(child.wait(soon()), "exited with status 4");
  EXPECT_EQ(::kill(child.pid(), 0), 0);
  child.reap();
  child.reap();
  EXPECT_EQ(child.end_fd(), -1);
  EXPECT_NE(::kill(child.pid(), 0), 0);
  EXPECT_EQ(child.wait(clock::now()), "exited with status 4");
}

TEST(child_process, an_empty_object_has_no_process) {
  child_process none;
  EXPECT_EQ(none.pid(), 0);
  EXPECT_EQ(none.end_fd(), -1);
  EXPECT_EQ(none.wait(time_point::max()), std::nullopt);
  none.kill();
}

TEST(child_process, the_destructor_kills_and_reaps) {
  pid_t pid = 0;
  {
    const child_process child = run_shell("exec sleep 1000");
    pid = child.pid();
    EXPECT_TRUE(is_running(pid));
  }
  EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(child_process, can_be_moved) {
  child_process first = run_shell("exit 6");
  const pid_t pid = first.pid();
  child_process second(std::move(first));
  // Empty after the move, as documented.
  EXPECT_EQ(first.pid(), 0); // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  EXPECT_EQ(second.pid(), pid);
  child_process third;
  third = std::move(second);
  EXPECT_EQ(third.wait(soon()), "exited with status 6");
}

// ---- environment and descriptors ----------------------------------------------------------------

TEST(child_process, gets_its_arguments_as_they_are) {
  child_process child = run_shell(
      "test $# -eq 4 && test \"$1\" = 'two words' && test -z \"$2\" && test \"$3\" = '*' && "
      "test \"$4\" = '--farcall-targets=shm'",
      {"two words", "", "*", "--farcall-targets=shm"});
  EXPECT_EQ(child.wait(soon()), "exited with status 0");
}

TEST(child_process, gets_the_variable_and_keeps_the_others) {
  ::setenv(variable, "old", 1);
  ::setenv("FARCALL_PROCESS_TEST_LONGER", "kept", 1);
  child_process child = run_shell(
      "test \"$FARCALL_PROCESS_TEST\" = 'a=b c' && test \"$FARCALL_PROCESS_TEST_LONGER\" = kept && "
      "test $(env | grep -c '^FARCALL_PROCESS_TEST=') -eq 1",
      {}, "a=b c");
  EXPECT_EQ(child.wait(soon()), "exited with status 0");
  EXPECT_STREQ(std::getenv(variable), "old") << "ours is not changed";
  ::unsetenv(variable);
  ::unsetenv("FARCALL_PROCESS_TEST_LONGER");
}

TEST(child_process, starts_without_blocked_signals) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &all, &before), 0);
  child_process child = run_shell("grep -q '^SigBlk:[[:space:]]*0*$' /proc/self/status");
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(child.wait(soon()), "exited with status 0");
}

/// Returns the numbers of the descriptors that are open in a child that was given `inherited`.
std::set<int> descriptors_of_a_child(const unique_fd& inherited) {
  const scratch_folder folder;
  const std::string list = folder.path() + "/list";
  // The search redirects nothing: the shell needs descriptors for that.
  child_process child = run_shell(
      "n=3; while [ $n -lt 200 ]; do [ -e /proc/$$/fd/$n ] && l=\"$l $n\"; n=$((n+1)); done; "
      "echo $l > \"$1\"",
      {list}, "", inherited.get());
  EXPECT_EQ(child.wait(soon()).value_or("").substr(0, 6), "exited");
  std::set<int> numbers;
  std::ifstream file(list);
  for (int n = 0; file >> n;)
    numbers.insert(n);
  return numbers;
}

/// Returns the descriptors of this process that any program started now would inherit.
std::set<int> descriptors_without_close_on_exec() {
  std::set<int> numbers;
  for (int fd = 3; fd < 200; ++fd) {
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags != -1 && (flags & FD_CLOEXEC) == 0) numbers.insert(fd);
  }
  return numbers;
}

TEST(child_process, gets_one_descriptor_and_none_of_the_others) {
  // Descriptors that farcall itself keeps open while it starts targets.
  const segment memory = segment::create("farcall-test", 4096);
  const child_process sibling = run_shell("exec sleep 1000");
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const unique_fd reading(ends[0]);
  const unique_fd writing(ends[1]);
  // The program that started this test may have left descriptors open for all programs.
  std::set<int> expected = descriptors_without_close_on_exec();
  ASSERT_FALSE(expected.contains(writing.get()));
  EXPECT_EQ(descriptors_of_a_child(unique_fd{}), expected);
  expected.insert(writing.get());
  EXPECT_EQ(descriptors_of_a_child(writing), expected);
  EXPECT_EQ(::fcntl(writing.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC) << "ours is not changed";
}

TEST(child_process, can_use_the_descriptor_that_it_was_given) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const unique_fd reading(ends[0]);
  unique_fd writing(ends[1]);
  child_process child =
      run_shell("echo hello >&$1", {std::to_string(writing.get())}, "", writing.get());
  writing.reset();
  EXPECT_EQ(child.wait(soon()), "exited with status 0");
  char text[16] = {};
  EXPECT_EQ(::read(reading.get(), text, sizeof text), 6);
  EXPECT_STREQ(text, "hello\n");
}

TEST(child_process, has_an_empty_standard_input) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const unique_fd reading(ends[0]);
  const unique_fd writing(ends[1]);
  ASSERT_EQ(::write(writing.get(), "for us\n", 7), 7);
  const unique_fd before(::dup(STDIN_FILENO));
  ASSERT_EQ(::dup2(reading.get(), STDIN_FILENO), STDIN_FILENO);
  child_process child = run_shell("! read line && test -z \"$line\"");
  const auto ended = child.wait(soon());
  ASSERT_EQ(::dup2(before.get(), STDIN_FILENO), STDIN_FILENO);
  EXPECT_EQ(ended, "exited with status 0");
  char text[16] = {};
  EXPECT_EQ(::read(reading.get(), text, sizeof text), 7) << "it is still there for us";
}

TEST(child_process, prints_where_it_is_told_to) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const unique_fd reading(ends[0]);
  const unique_fd writing(ends[1]);
  child_process child =
      child_process::start(shell, {"sh", "-c", "echo out; echo err >&2"}, variable, "", -1,
                           own_environment(), {.output = writing.get(), .error = writing.get()});
  EXPECT_EQ(child.wait(soon()), "exited with status 0");
  char text[16] = {};
  EXPECT_EQ(::read(reading.get(), text, sizeof text), 8);
  EXPECT_STREQ(text, "out\nerr\n");
}

/// Returns the output of a shell script that spawn() starts.
std::string printed_by(const std::string& script, spawn_options options) {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const unique_fd reading(ends[0]);
  unique_fd writing(ends[1]);
  options.prints_to = {.output = writing.get()};
  pid_t pid = -1;
  EXPECT_EQ(spawn(pid, options.searches_path ? "sh" : shell, {"sh", "-c", script}, options), 0);
  writing.reset();
  std::string text;
  char some[64];
  for (ssize_t n = 0; (n = ::read(reading.get(), some, sizeof some)) > 0;)
    text.append(some, static_cast<std::size_t>(n));
  EXPECT_EQ(::waitpid(pid, nullptr, 0), pid);
  return text;
}

TEST(spawn, gives_a_program_its_input_environment_and_group) {
  const unique_fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const std::vector<std::string> environment{"COLOUR=red"};
  EXPECT_EQ(printed_by("cat; echo $COLOUR", {.input = nothing.get(), .environment = &environment}),
            "red\n");
  const std::string group_of_shell = "set -- $(cat /proc/$$/stat); echo $5";
  const std::string ours = std::to_string(::getpgrp()) + '\n';
  EXPECT_NE(printed_by(group_of_shell, {.searches_path = true}), ours);
  EXPECT_EQ(printed_by(group_of_shell, {.searches_path = true, .has_own_group = false}), ours);
}

TEST(spawn, ends_a_program_by_sigpipe_on_request) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  const std::string ignored = "sed -n 's/^SigIgn:[[:space:]]*//p' /proc/$$/status";
  constexpr std::uint64_t pipe_bit = std::uint64_t{1} << (SIGPIPE - 1);
  EXPECT_NE(std::stoull(printed_by(ignored, {}), nullptr, 16) & pipe_bit, 0U);
  EXPECT_EQ(std::stoull(printed_by(ignored, {.ends_by_sigpipe = true}), nullptr, 16) & pipe_bit,
            0U);
  (void)std::signal(SIGPIPE, before);
}

TEST(spawn, returns_why_a_program_cannot_be_started) {
  pid_t pid = -1;
  EXPECT_EQ(spawn(pid, "/no/such/program", {"x"}), ENOENT);
  EXPECT_EQ(spawn(pid, "no-such-program", {"x"}, {.searches_path = true}), ENOENT);
}

// ---- programs that cannot be started ------------------------------------------------------------

void expect_refusal(const std::string& program, const std::string& reason) {
  EXPECT_THAT(
      [&] { (void)child_process::start(program, {program}, variable, "", -1); },
      ThrowsMessage<start_failed>(AllOf(HasSubstr('"' + program + '"'),
                                        HasSubstr("cannot be started"), HasSubstr(reason))));
}

TEST(child_process, a_program_that_does_not_exist_is_named) {
  const scratch_folder folder;
  expect_refusal(folder.path() + "/nothing-here", "no such file");
  expect_refusal("", "no such file");
}

TEST(child_process, programs_are_not_searched_for_in_the_path) {
  expect_refusal("sh-that-is-not-in-this-folder", "no such file");
}

TEST(child_process, the_error_names_a_non_executable_file_and_remedy) {
  const scratch_folder folder;
  const auto permissions = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;
  expect_refusal(folder.file("notes.txt", "#!/bin/sh\nexit 0\n", permissions), "chmod +x");
}

TEST(child_process, a_folder_is_no_program) {
  const scratch_folder folder;
  expect_refusal(folder.path(), "a directory");
}

TEST(child_process, a_file_that_is_no_program_is_told) {
  const scratch_folder folder;
  expect_refusal(folder.file("data", "\x01\x02\x03\x04", std::filesystem::perms::owner_all),
                 "not a program for this machine");
}

TEST(child_process, a_missing_interpreter_is_told) {
  const scratch_folder folder;
  expect_refusal(
      folder.file("script", "#!/no/such/interpreter\n", std::filesystem::perms::owner_all),
      "interpreter is missing");
}

TEST(child_process, a_system_without_proc_is_told) {
  bool is_hidden = false;
  // unshare() changes the namespace of this thread only.
  std::thread([&] {
    is_hidden = ::unshare(CLONE_NEWNS) == 0 &&
                ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                ::mount("none", "/proc", "tmpfs", 0, nullptr) == 0;
    if (is_hidden) expect_refusal(running_program, "/proc is not mounted");
  }).join();
  if (!is_hidden) GTEST_SKIP() << "this system lets nobody hide /proc";
}

TEST(child_process, a_failed_start_leaves_no_process_behind) {
  EXPECT_THROW((void)child_process::start("/no/such/program", {"x"}, variable, "", -1),
               start_failed);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

// ---- find_command -------------------------------------------------------------------------------

TEST(find_command, a_path_is_taken_as_it_is) {
  EXPECT_EQ(find_command("/no/such/program"), "/no/such/program");
  EXPECT_EQ(find_command("./app"), "./app");
}

TEST(find_command, searches_the_folders_of_PATH) {
  const scratch_folder first;
  const scratch_folder second;
  // Files that cannot be executed.
  (void)first.file("tool", "", std::filesystem::perms::owner_read);
  std::filesystem::create_directory(first.path() + "/folder");
  const std::string tool = second.file("tool", "", std::filesystem::perms::owner_all);
  const std::string before = environment("PATH").value_or("");
  ::setenv("PATH", (first.path() + ":" + second.path()).c_str(), 1);
  EXPECT_EQ(find_command("tool"), tool);
  EXPECT_THAT([] { (void)find_command("folder"); },
              ThrowsMessage<start_failed>(AllOf(HasSubstr("\"folder\""), HasSubstr("PATH"),
                                                HasSubstr(first.path()), HasSubstr("install"))));
  ::setenv("PATH", before.c_str(), 1);
}

// ---- own_arguments ------------------------------------------------------------------------------

TEST(own_arguments, begins_with_the_name_of_this_program) {
  const auto arguments = own_arguments();
  ASSERT_FALSE(arguments.empty());
  EXPECT_EQ(arguments.front(), program_invocation_name);
}

} // namespace
} // namespace farcall::process_test
