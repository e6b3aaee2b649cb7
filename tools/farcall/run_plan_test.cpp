// SPDX-License-Identifier: Apache-2.0
#include "run_plan.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

namespace farcall::tool {
namespace {

class run_plan_test : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& content, mode_t mode) {
    const std::string path = folder_ + '/' + name;
    std::ofstream{path} << content;
    chmod(path.c_str(), mode);
    return path;
  }

  static std::string message_of(const std::function<void()>& act) {
    try {
      act();
    } catch (const usage_problem& e) {
      return e.what();
    }
    return "no usage_problem";
  }

  std::string folder_ = testing::TempDir() + "farcall_run_plan_test-" + std::to_string(getpid());
};

TEST_F(run_plan_test, the_number_of_processes_counts_the_host) {
  const std::string app = file("app", "#!/bin/sh\n", 0755);
  EXPECT_EQ(make_run_plan(2, {}, {app}).targets, "shm");
  EXPECT_EQ(make_run_plan(5, {}, {app}).targets, "shm:4");
  EXPECT_THROW((void)make_run_plan(1, {}, {app}), usage_problem);
  EXPECT_THROW((void)make_run_plan(0, {}, {app}), usage_problem);
}

TEST_F(run_plan_test, a_job_of_equals_may_have_one_node) {
  const std::string app = file("app", "#!/bin/sh\n", 0755);
  EXPECT_EQ(make_run_plan(1, {}, {app}, true).targets, "none");
  EXPECT_EQ(make_run_plan(5, {}, {app}, true).targets, "shm:4");
  EXPECT_EQ(make_run_plan({}, "none", {app}, true).targets, "none");
  EXPECT_THROW((void)make_run_plan(0, {}, {app}, true), usage_problem);
  EXPECT_THROW((void)make_run_plan({}, "none", {app}), setting_error);
}

TEST_F(run_plan_test, too_many_processes_are_refused) {
  const std::string app = file("app", "#!/bin/sh\n", 0755);
  EXPECT_EQ(make_run_plan(4001, {}, {app}).targets, "shm:4000");
  EXPECT_EQ(message_of([&] { (void)make_run_plan(4002, {}, {app}); }),
            "-n 4002: give at most 4001, the host included");
}

TEST_F(run_plan_test, urls_are_passed_on_and_exclude_the_number) {
  const std::string app = file("app", "#!/bin/sh\n", 0755);
  EXPECT_EQ(make_run_plan({}, "shm?workers=4", {app, "x"}).targets, "shm?workers=4");
  EXPECT_EQ(make_run_plan({}, {}, {app}).targets, "shm");
  EXPECT_TRUE(make_run_plan({}, "shm", {app}).passes_targets_on);
  EXPECT_THROW((void)make_run_plan(2, "shm", {app}), usage_problem);
  EXPECT_THROW((void)make_run_plan({}, "", {app}), usage_problem);
  EXPECT_THROW((void)make_run_plan({}, "carrier-pigeon", {app}), setting_error);
}

/// A launcher's processes form the job, so `farcall run mpirun -n 2 ./app` adds no target.
TEST_F(run_plan_test, the_default_is_not_passed_on_to_a_launcher) {
  const std::string launcher = file("mpirun", "#!/bin/sh\n", 0755);
  EXPECT_FALSE(make_run_plan({}, {}, {launcher, "-n", "2", "./app"}).passes_targets_on);
}

/// Sets an environment variable for the duration of a test.
class variable_of_test {
 public:
  variable_of_test(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  variable_of_test(const variable_of_test&) = delete;
  variable_of_test& operator=(const variable_of_test&) = delete;
  ~variable_of_test() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST_F(run_plan_test, the_variable_counts_without_options_for_targets) {
  const std::string app = file("app", "#!/bin/sh\n", 0755);
  const variable_of_test set("FARCALL_TARGETS", "tcp://node1:7070,shm");
  EXPECT_EQ(make_run_plan({}, {}, {app}).targets, "tcp://node1:7070,shm");
  EXPECT_EQ(make_run_plan(3, {}, {app}).targets, "shm:2");
  EXPECT_EQ(make_run_plan({}, "shm:5", {app}).targets, "shm:5");
}

TEST_F(run_plan_test, a_wrong_variable_is_refused) {
  const std::string app = file("app", "#!/bin/sh\n", 0755);
  {
    const variable_of_test set("FARCALL_TARGETS", "carrier-pigeon");
    EXPECT_THROW((void)make_run_plan({}, {}, {app}), setting_error);
  }
  const variable_of_test set("FARCALL_TARGETS", "");
  EXPECT_EQ(make_run_plan({}, {}, {app}).targets, "shm");
}

TEST_F(run_plan_test, the_words_of_the_program_stay_as_they_are) {
  const std::string app = file("app", "#!/bin/sh\n", 0755);
  const run_plan plan = make_run_plan(2, {}, {app, "-n", "7", "--json", "a b"});
  EXPECT_EQ(plan.program, app);
  EXPECT_EQ(plan.words, (std::vector<std::string>{app, "-n", "7", "--json", "a b"}));
}

TEST_F(run_plan_test, a_program_that_cannot_start_is_named) {
  EXPECT_NE(message_of([] { (void)make_run_plan(2, {}, {}); }).find("no program given"),
            std::string::npos);
  EXPECT_NE(message_of([&] { (void)find_program("--np", folder_); }).find("no such program"),
            std::string::npos);
  EXPECT_NE(message_of([&] { (void)find_program(folder_ + "/none", ""); }).find("no such file"),
            std::string::npos);
  EXPECT_NE(message_of([&] { (void)find_program(folder_ + "/", ""); }).find("is a folder"),
            std::string::npos);
  const std::string text = file("text", "hello\n", 0644);
  EXPECT_NE(message_of([&] { (void)find_program(text, ""); }).find("chmod +x"), std::string::npos);
  const std::string odd = file("odd", "hello\n", 0755);
  EXPECT_NE(message_of([&] { (void)find_program(odd, ""); }).find("neither a program nor a script"),
            std::string::npos);
}

TEST_F(run_plan_test, names_without_slash_are_looked_up_on_path) {
  const std::string app = file("farcall_test_app", "#!/bin/sh\n", 0755);
  EXPECT_EQ(find_program("farcall_test_app", "/does/not/exist:" + folder_), app);
  EXPECT_THROW((void)find_program("farcall_test_app", "/does/not/exist"), usage_problem);
}

} // namespace
} // namespace farcall::tool
