// SPDX-License-Identifier: Apache-2.0
#include "tests/network/support.hpp"

#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/socket.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

/// Tests `farcall run --hosts`, with a replacement for ssh that stays on this machine.
namespace farcall::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

/// Program to run: a host that calls its targets and prints what it found.
int use_targets() {
  const job j;
  std::string said = "targets:";
  for (const node& n : j.targets()) {
    if (sync(n, [](int v) { return v + 1; }, 41) != 42) return 1;
    said += " " + n.description().transport +
            (n.description().route.find("encrypted") != std::string::npos ? "+key" : "");
  }
  say(said);
  if (const char* file = std::getenv("FARCALL_KEY")) {
    struct stat status{};
    if (::stat(file, &status) != 0) return 2;
    say("key " + std::string(file) + " " + std::to_string(status.st_mode & 0777));
    std::ifstream environ_of("/proc/self/environ");
    std::stringstream all;
    all << environ_of.rdbuf();
    std::ifstream in(file);
    std::string digits;
    in >> digits;
    bool is_shown = all.str().find(digits) != std::string::npos;
    for (const node& n : j.targets()) {
      is_shown = is_shown || sync(
                                 n,
                                 [](const std::string& key) {
                                   bool shown = false;
                                   for (pid_t pid : {::getpid(), ::getppid()}) {
                                     for (const char* name : {"/environ", "/cmdline"}) {
                                       std::ifstream part("/proc/" + std::to_string(pid) + name);
                                       // Only root may read a server's files there.
                                       if (!part && pid == ::getppid()) continue;
                                       std::stringstream text;
                                       text << part.rdbuf();
                                       shown = shown || text.str().empty() ||
                                               text.str().find(key) != std::string::npos;
                                     }
                                   }
                                   return shown;
                                 },
                                 digits);
    }
    say(is_shown ? "key is shown" : "key is hidden");
  }
  if (std::getenv("FARCALL_TEST_HANG") != nullptr) ::pause();
  return 7;
}
const role use_role("use_targets", use_targets);

/// Program to run: prints its targets' working folders and exported variables.
int show_place() {
  const job j;
  for (const node& n : j.targets()) {
    say(sync(n, [] {
      const char* const value = std::getenv("FARCALL_TEST_EXPORTED");
      return "in " + std::filesystem::current_path().string() + " with " +
             (value == nullptr ? "nothing" : value);
    }));
  }
  return 7;
}
const role show_role("show_place", show_place);

class run_hosts_test : public testing::Test {
 protected:
  run_hosts_test() {
    // Like ssh, but on this machine: drops the host's name, and passes the rest to a shell.
    write(ssh_,
          "#!/bin/sh\n"
          "host=$1; shift\n"
          "echo \"This is $host\"\n"
          "if [ $host = away ]; then echo 'no route to away' >&2; exit 255; fi\n"
          "if [ $host = silent ]; then sleep 60; fi\n"
          "if [ $host = talks ]; then exec yes; fi\n"
          "if [ $host = waits ]; then exec sed d; fi\n"
          "echo \"$*\" >> " +
              folder_.file("commands") +
              "\n"
              "PATH=" +
              std::filesystem::path(FARCALL_COMMAND).parent_path().string() +
              ":$PATH exec sh -c \"$*\"\n",
          0755);
  }

  static void write(const std::string& file, const std::string& text, mode_t mode = 0644) {
    std::ofstream{file} << text;
    ::chmod(file.c_str(), mode);
  }

  std::string command(const std::string& hosts, const std::string& more = "",
                      const std::string& role = "use_targets") {
    write(hosts_, hosts);
    return "FARCALL_TEST_ROLE=" + role + " TMPDIR=" + folder_.file("") +
           " exec " FARCALL_COMMAND " run --hosts " + hosts_ + " --ssh " + ssh_ + " " + more + " " +
           std::filesystem::read_symlink("/proc/self/exe").string() + " 'two words' " +
           folder_.file("mark") + " 2>&1";
  }

  void run_until_signalled(int signal, int& status);

  /// True once all processes of this test have ended.
  [[nodiscard]] bool nothing_runs() const {
    return comes_true([&] {
      for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
        std::ifstream in(entry.path() / "cmdline");
        std::stringstream text;
        text << in.rdbuf();
        // Servers, targets and the program all have this path in their command lines.
        if (text.str().find(folder_.file("mark")) != std::string::npos) return false;
      }
      return true;
    });
  }

  scratch_folder folder_;
  std::string ssh_ = folder_.file("ssh");
  std::string hosts_ = folder_.file("hosts");
};

TEST_F(run_hosts_test, the_program_gets_encrypted_targets_on_all_hosts) {
  const outcome o = outcome_of(command("# machines\n"
                                       "one address=127.0.0.1 count=2\n"
                                       "\n"
                                       "me@two address=127.0.0.1 # another\n"));
  EXPECT_EQ(o.status, 7) << o.text;
  EXPECT_THAT(o.text, AllOf(HasSubstr("targets: tcp+key tcp+key tcp+key\n"), HasSubstr(" 384\n"),
                            HasSubstr("key is hidden")));
  EXPECT_TRUE(nothing_runs());
  // The key file was removed at the end of the run.
  const auto key = o.text.find("key /");
  ASSERT_NE(key, std::string::npos) << o.text;
  const std::string file = o.text.substr(key + 4, o.text.find(' ', key + 4) - key - 4);
  EXPECT_FALSE(std::filesystem::exists(file)) << file;
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(file).parent_path()));
  std::ifstream commands(folder_.file("commands"));
  std::string line;
  ASSERT_TRUE(std::getline(commands, line));
  EXPECT_THAT(line, AllOf(HasSubstr("farcall serve --listen 127.0.0.1:0 --key-from-stdin "
                                    "--folder-if-there /"),
                          HasSubstr(" 'two words'")));
}

TEST_F(run_hosts_test, lines_of_all_nodes_can_be_labelled) {
  const outcome o =
      outcome_of(command("one address=127.0.0.1\ntwo address=127.0.0.1\n", "--label", "printers"));
  EXPECT_EQ(o.status, 7) << o.text;
  EXPECT_THAT(o.text,
              AllOf(HasSubstr("0: host reads"), HasSubstr("1: out\n"), HasSubstr("1: err\n"),
                    HasSubstr("2: out\n"), HasSubstr("2: no end\n")));
}

TEST_F(run_hosts_test, a_host_that_cannot_be_reached_is_named) {
  const outcome o = outcome_of(command("here address=127.0.0.1\naway address=127.0.0.1\n"));
  EXPECT_EQ(o.status, 1);
  EXPECT_THAT(o.text, AllOf(HasSubstr("no route to away"), HasSubstr("host away"),
                            HasSubstr("exited with status 255")));
  EXPECT_TRUE(nothing_runs());
}

TEST_F(run_hosts_test, a_host_that_never_stops_talking_is_given_up) {
  const outcome o = outcome_of(command("talks address=127.0.0.1\n", "--start-timeout-ms 300"));
  EXPECT_EQ(o.status, 1);
  EXPECT_THAT(o.text, AllOf(HasSubstr("host talks"), HasSubstr("in time")));
  EXPECT_TRUE(nothing_runs());
}

TEST_F(run_hosts_test, a_silent_host_is_given_up) {
  const outcome o = outcome_of(command("silent address=127.0.0.1\n", "--start-timeout-ms 300"));
  EXPECT_EQ(o.status, 1);
  EXPECT_THAT(o.text, AllOf(HasSubstr("host silent"), HasSubstr("in time")));
  EXPECT_TRUE(nothing_runs());
}

/// Servers start concurrently: the failure of one is noticed while another one is still silent.
TEST_F(run_hosts_test, a_failing_host_ends_the_run_at_once) {
  const outcome o = outcome_of(command("waits address=127.0.0.1\naway address=127.0.0.1\n"));
  EXPECT_EQ(o.status, 1);
  EXPECT_THAT(o.text, AllOf(HasSubstr("host away"), Not(HasSubstr("host waits"))));
  EXPECT_TRUE(nothing_runs());
}

TEST_F(run_hosts_test, servers_of_named_hosts_listen_at_all_addresses) {
  const outcome o = outcome_of(command("localhost slots=2\n"));
  EXPECT_EQ(o.status, 7) << o.text;
  EXPECT_THAT(o.text, HasSubstr("targets: tcp+key tcp+key\n"));
  EXPECT_THAT(content_of(folder_.file("commands")), HasSubstr("--listen 0.0.0.0:0 "));
}

TEST_F(run_hosts_test, servers_listen_at_the_port_that_is_given) {
  std::vector<unique_fd> listeners = tcp::listen_on({"127.0.0.1", 0});
  const std::string port = std::to_string(tcp::local_address(listeners.front().get()).port);
  const outcome taken = outcome_of(command("here address=127.0.0.1 port=" + port + "\n"));
  EXPECT_EQ(taken.status, 1);
  EXPECT_THAT(taken.text, AllOf(HasSubstr("host here: no server was started there at port " + port),
                                HasSubstr("another program listens there")));
  listeners.clear();
  const outcome o = outcome_of(command("here address=127.0.0.1\n", "--port " + port));
  EXPECT_EQ(o.status, 7) << o.text;
  EXPECT_THAT(content_of(folder_.file("commands")), HasSubstr("--listen 127.0.0.1:" + port + " "));
  const outcome twice =
      outcome_of(command("a address=127.0.0.1\nb address=127.0.0.1\n", "--port " + port));
  EXPECT_EQ(twice.status, 2);
  EXPECT_THAT(twice.text, HasSubstr("hosts a and b: port " + port));
}

TEST_F(run_hosts_test, targets_work_in_the_folder_of_the_command) {
  const std::string here = std::filesystem::current_path();
  std::filesystem::create_directory(folder_.file("ssh begins here"));
  // ssh starts in another folder, and passes the command through a filter.
  const auto write_ssh_with = [&](const std::string& filter) {
    write(ssh_,
          "#!/bin/sh\ncd '" + folder_.file("ssh begins here") + "' && shift && PATH=" +
              std::filesystem::path(FARCALL_COMMAND).parent_path().string() +
              ":$PATH exec sh -c \"$(echo \"$*\" | " + filter + ")\"\n",
          0755);
  };
  write_ssh_with("cat");
  const std::string hosts = "here address=127.0.0.1\n";
  EXPECT_THAT(outcome_of(command(hosts, "", "show_place")).text, HasSubstr("in " + here + " with"));
  std::filesystem::create_directory(folder_.file("another one"));
  EXPECT_THAT(
      outcome_of(command(hosts, "--folder '" + folder_.file("another one") + "'", "show_place"))
          .text,
      HasSubstr("in " + folder_.file("another one") + " with"));
  const outcome none = outcome_of(command(hosts, "--folder /does/not/exist", "show_place"));
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.text, AllOf(HasSubstr("host here"),
                               HasSubstr("cannot use /does/not/exist as the working folder")));
  // The command's folder may be missing on a machine.
  write_ssh_with("sed 's:--folder-if-there :&/absent:'");
  EXPECT_THAT(outcome_of(command(hosts, "", "show_place")).text,
              HasSubstr("in " + folder_.file("ssh begins here") + " with"));
}

TEST_F(run_hosts_test, exported_variables_reach_targets_and_no_command_line) {
  const scoped_variable secret("FARCALL_TEST_EXPORTED", "a secret, 'quoted'");
  // A variable that ssh would not pass on.
  const std::string without = "sed -i '2i unset FARCALL_TEST_EXPORTED' " + ssh_ + " && ";
  const std::string hosts = "here address=127.0.0.1\n";
  EXPECT_THAT(outcome_of(without + command(hosts, "", "show_place")).text,
              HasSubstr(" with nothing\n"));
  const outcome o = outcome_of(command(hosts, "--export FARCALL_TEST_EXPORTED,X=y", "show_place"));
  EXPECT_EQ(o.status, 7) << o.text;
  EXPECT_THAT(o.text, HasSubstr(" with a secret, 'quoted'\n"));
  EXPECT_THAT(content_of(folder_.file("commands")), Not(HasSubstr("secret")));
  EXPECT_THAT(outcome_of(command(hosts, "--json --export FARCALL_TEST_EXPORTED")).text,
              Not(HasSubstr("secret")));
  const outcome unset = outcome_of(command(hosts, "--export FARCALL_TEST_UNSET"));
  EXPECT_EQ(unset.status, 2);
  EXPECT_THAT(unset.text, HasSubstr("FARCALL_TEST_UNSET: it is not set here"));
}

TEST_F(run_hosts_test, another_machines_address_is_an_error_with_reason) {
  const outcome o = outcome_of(command("here address=192.0.2.1\n"));
  EXPECT_EQ(o.status, 1);
  EXPECT_THAT(o.text, AllOf(HasSubstr("host here"), HasSubstr("cannot listen on 192.0.2.1")));
}

TEST_F(run_hosts_test, ssh_that_is_not_there_is_named) {
  write(hosts_, "here\n");
  const outcome o = outcome_of("FARCALL_SSH=/does/not/exist " FARCALL_COMMAND " run --hosts " +
                               hosts_ + " /bin/true 2>&1");
  EXPECT_EQ(o.status, 1);
  EXPECT_THAT(o.text, AllOf(HasSubstr("host here"), HasSubstr("/does/not/exist")));
}

TEST_F(run_hosts_test, mistakes_in_the_file_are_named_with_their_line) {
  for (const char* line : {"here count=0", "here count=5000", "here what", "-oProxyCommand=x",
                           "here address=", "count=2", "here address=a/b"}) {
    const outcome o = outcome_of(command(std::string("# fine\n") + line + "\n"));
    EXPECT_EQ(o.status, 2) << line << ": " << o.text;
    EXPECT_THAT(o.text, HasSubstr("line 2")) << line;
  }
  EXPECT_THAT(outcome_of(command("# nobody\n")).text, HasSubstr("names no host"));
  EXPECT_THAT(outcome_of(command("here\n", "-n 3")).text, HasSubstr("--hosts"));
}

/// Runs the command until its targets are there, then signals it; sets its exit status.
void run_hosts_test::run_until_signalled(int signal, int& status) {
  const scoped_variable hang("FARCALL_TEST_HANG", "1");
  FILE* out = ::popen(("echo $$; " + command("here address=127.0.0.1 count=2\n")).c_str(), "re");
  char line[1000];
  ASSERT_NE(::fgets(line, sizeof line, out), nullptr);
  const pid_t pid = std::stoi(line);
  std::string text;
  while (text.find("key is hidden") == std::string::npos &&
         ::fgets(line, sizeof line, out) != nullptr)
    text += line;
  EXPECT_THAT(text, HasSubstr("targets: tcp+key tcp+key"));
  ::kill(pid, signal);
  status = ::pclose(out);
}

TEST_F(run_hosts_test, a_terminated_run_ends_its_program_and_servers) {
  int status = 0;
  ASSERT_NO_FATAL_FAILURE(run_until_signalled(SIGTERM, status));
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);
  EXPECT_TRUE(nothing_runs());
}

TEST_F(run_hosts_test, a_run_that_is_killed_leaves_nothing_behind) {
  int status = 0;
  ASSERT_NO_FATAL_FAILURE(run_until_signalled(SIGKILL, status));
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(nothing_runs()) << "servers or the program";
  // The key is removed as well: only the test's own files are left.
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.file("")))
    files.push_back(entry.path().filename());
  EXPECT_THAT(files, UnorderedElementsAre("ssh", "hosts", "commands"));
}

TEST_F(run_hosts_test, an_address_of_ipv6_gets_its_brackets) {
  const int probe = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 loopback{};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  const bool has_ipv6 =
      ::bind(probe, reinterpret_cast<const sockaddr*>(&loopback), sizeof loopback) == 0;
  ::close(probe);
  if (!has_ipv6) GTEST_SKIP() << "this machine has no IPv6";
  const outcome o = outcome_of(command("here address=::1\n"));
  EXPECT_EQ(o.status, 7) << o.text;
  EXPECT_THAT(o.text, HasSubstr("targets: tcp+key\n"));
  std::ifstream commands(folder_.file("commands"));
  std::string line;
  ASSERT_TRUE(std::getline(commands, line));
  EXPECT_THAT(line, HasSubstr("--listen '[::1]:0'"));
}

} // namespace
} // namespace farcall::test
