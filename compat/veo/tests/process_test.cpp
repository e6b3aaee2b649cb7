// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <tests/faults/support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace veo_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Returns the number of the node that a process is on.
int node_of(veo_proc_handle* proc) {
  void* memory = nullptr;
  if (veo_alloc_hmem(proc, &memory, 8) != 0) return -100;
  const int node = veo_get_venum_from_hmem(memory);
  veo_free_hmem(memory);
  return node;
}

/// Creates a process, which must succeed, and returns its node.
int node_of_new_process(int asked) {
  const bounded b("veo_proc_create");
  veo_proc_handle* const proc = veo_proc_create(asked);
  if (proc == nullptr) return -200;
  const int node = node_of(proc);
  veo_proc_destroy(proc);
  return node;
}

std::string environment_of(process& p, const std::string& name) {
  std::array<char, 256> value{};
  const std::uint64_t length = p.call("environment", in(name.c_str(), name.size() + 1),
                                      out(value.data(), value.size()), std::uint64_t{value.size()});
  return length == 0 ? "(not set)" : std::string(value.data(), length - 1);
}

TEST(library_version, is_16) {
  EXPECT_EQ(veo_api_version(), 16);
  EXPECT_EQ(VEO_API_VERSION, 16);
}

TEST(library_version, has_a_text_that_stays) {
  const char* const text = veo_version_string();
  ASSERT_NE(text, nullptr);
  EXPECT_STRNE(text, "");
  EXPECT_EQ(veo_version_string(), text);
}

TEST(process, is_created_calls_and_is_destroyed) {
  process p;
  EXPECT_EQ(p.call("add", std::int64_t{40}, std::int64_t{2}), 42U);
  EXPECT_EQ(p.destroy(), 0);
}

TEST(process, is_another_one) {
  VEO_TEST_LOCAL_ONLY("the helper's number is looked up here");
  process p;
  const auto pid = static_cast<pid_t>(p.call("process_id"));
  EXPECT_NE(pid, ::getpid());
  EXPECT_EQ(::kill(pid, 0), 0);
  p.destroy();
  // The helper has ended and was reaped.
  EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(process, does_not_see_what_another_changes) {
  process first;
  process second(1);
  first.write(first.symbol("variable"), std::uint64_t{1});
  EXPECT_EQ(second.read<std::uint64_t>(second.symbol("variable")), 42U);
  EXPECT_EQ(first.call("count"), 1U);
  EXPECT_EQ(first.call("count"), 2U);
  EXPECT_EQ(second.call("count"), 1U);
}

TEST(process, several_on_one_node_and_the_next) {
  process a(0);
  process b(1);
  process c(0);
  process d(1);
  std::set<std::uint64_t> pids;
  for (process* p : {&a, &b, &c, &d}) {
    pids.insert(p->call("process_id"));
    EXPECT_EQ(p->call("same", std::uint64_t{5}), 5U);
  }
  // Process ids of different machines may be equal.
  if (helpers_are_local()) {
    EXPECT_EQ(pids.size(), 4U);
  }
}

TEST(process, inherits_the_working_folder) {
  VEO_TEST_LOCAL_ONLY("helpers elsewhere have folders of their own");
  process p;
  std::array<char, 4096> folder{};
  ASSERT_NE(p.call("working_folder", out(folder.data(), folder.size()), folder.size()), 0U);
  EXPECT_EQ(folder.data(), std::filesystem::current_path().string());
}

TEST(process, is_not_interrupted_when_its_program_goes_on) {
  VEO_TEST_LOCAL_ONLY("the helper gets a signal here");
  process p;
  const auto pid = static_cast<pid_t>(p.call("process_id"));
  gate g(p);
  const std::uint64_t waiting = submit(p.open(), p.symbol("wait_at"), g.address());
  (void)g.wait_for_kernel();
  for (const int signal : {SIGINT, SIGQUIT}) {
    ASSERT_EQ(::kill(pid, signal), 0);
    ASSERT_EQ(p.call("same", std::uint64_t{6}), 6U) << "after signal " << signal;
  }
  g.open(9);
  EXPECT_EQ(collect(veo_get_context(p.get(), 1), waiting), ok(9));
  EXPECT_EQ(p.destroy(), 0);
}

TEST(process, outlives_the_thread_that_created_it) {
  std::unique_ptr<process> p;
  veo_thr_ctxt* context = nullptr;
  std::thread([&] {
    p = std::make_unique<process>();
    context = p->open();
  }).join();
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(p->call("same", std::int32_t{i}), static_cast<std::uint64_t>(i));
    ASSERT_EQ(call(context, p->symbol("same"), std::int32_t{i}), ok(static_cast<unsigned>(i)));
  }
  EXPECT_EQ(p->destroy(), 0);
}

TEST(process, one_in_each_of_several_threads) {
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        process p(t % 2);
        if (p.call("add", std::int64_t{t}, std::int64_t{i}) == word(t + i)) ++right;
      }
    });
  }
  for (std::thread& t : threads)
    t.join();
  EXPECT_EQ(right, 20);
}

TEST(process, a_hundred_leave_nothing_behind) {
  using farcall::test::holdings;
  { // Create the objects that the library keeps until exit.
    process p;
    (void)call(p.open(), p.symbol("count"));
  }
  const holdings before = holdings::now();
  for (int i = 0; i < 100; ++i) {
    const bounded b("a life of a process");
    veo_proc_handle* const proc = veo_proc_create(i % 2);
    ASSERT_NE(proc, nullptr) << "process " << i << ": " << last_error();
    // Every third process ends with requests and results left.
    if (i % 3 == 0) {
      const std::uint64_t library = veo_load_library(proc, library_file("basic").c_str());
      veo_thr_ctxt* const context = veo_context_open(proc);
      ASSERT_NE(veo_context_open(proc), nullptr);
      const arguments none;
      for (int n = 0; n < 3; ++n)
        ASSERT_NE(veo_call_async_by_name(context, library, "count", none.get()),
                  VEO_REQUEST_ID_INVALID);
    }
    ASSERT_EQ(veo_proc_destroy(proc), 0);
  }
  EXPECT_TRUE(farcall::test::nothing_left_since(before));
}

TEST(process, destroyed_with_work_finishes_it) {
  // The kernel's memory is gone after the end: a read copies the value to this program before.
  std::uint64_t stored = 0;
  {
    process p;
    veo_thr_ctxt* const context = p.open();
    const std::uint64_t address = p.allocate(8);
    p.write(address, std::uint64_t{1});
    ASSERT_NE(submit(context, p.symbol("store_late"), address, std::uint64_t{77}),
              VEO_REQUEST_ID_INVALID);
    ASSERT_NE(veo_async_read_mem(context, &stored, address, sizeof stored), VEO_REQUEST_ID_INVALID);
    EXPECT_EQ(p.destroy(), 0);
  }
  EXPECT_EQ(stored, 77U);
}

// --- identifiers ---------------------------------------------------------------------------------

TEST(process_identifier, is_the_lowest_free_one) {
  auto a = std::make_unique<process>();
  const process b(1);
  auto c = std::make_unique<process>(0);
  EXPECT_EQ(veo_proc_identifier(a->get()), 0);
  EXPECT_EQ(veo_proc_identifier(b.get()), 1);
  EXPECT_EQ(veo_proc_identifier(c->get()), 2);
  a.reset();
  EXPECT_EQ(veo_proc_identifier(b.get()), 1);
  const process d;
  EXPECT_EQ(veo_proc_identifier(d.get()), 0);
  c.reset();
  const process e;
  const process f;
  EXPECT_EQ(veo_proc_identifier(e.get()), 2);
  EXPECT_EQ(veo_proc_identifier(f.get()), 3);
}

TEST(process_identifier, needs_a_process) { EXPECT_EQ(veo_proc_identifier(nullptr), -1); }

TEST(process_identifier, more_processes_than_tags) {
  std::vector<std::unique_ptr<process>> all;
  for (int i = 0; i < veo_get_max_proc_identifier(); ++i)
    all.push_back(std::make_unique<process>(i % 2));
  void* memory = nullptr;
  EXPECT_EQ(veo_alloc_hmem(all.back()->get(), &memory, 64), 0);
  EXPECT_EQ(veo_get_proc_identifier_from_hmem(memory), 15);
  EXPECT_EQ(veo_free_hmem(memory), 0);

  process one_more;
  EXPECT_EQ(one_more.call("same", std::uint64_t{6}), 6U);
  EXPECT_EQ(veo_alloc_hmem(one_more.get(), &memory, 64), -1);
  one_more.free(one_more.allocate(64));
}

// --- nodes ---------------------------------------------------------------------------------------

TEST(process_node, is_the_one_asked_for) {
  const environment_variable number("VE_NODE_NUMBER", nullptr);
  const environment_variable list("_VENODELIST", nullptr);
  EXPECT_EQ(node_of_new_process(0), 0);
  EXPECT_EQ(node_of_new_process(1), 1);
}

TEST(process_node, minus_one_is_the_number_in_the_environment) {
  const environment_variable list("_VENODELIST", nullptr);
  const environment_variable number("VE_NODE_NUMBER", "1");
  EXPECT_EQ(node_of_new_process(-1), 1);
  EXPECT_EQ(node_of_new_process(0), 0);
}

TEST(process_node, minus_one_is_0_without_environment) {
  const environment_variable list("_VENODELIST", nullptr);
  const environment_variable number("VE_NODE_NUMBER", nullptr);
  EXPECT_EQ(node_of_new_process(-1), 0);
}

TEST(process_node, is_an_index_into_a_list) {
  const environment_variable number("VE_NODE_NUMBER", nullptr);
  const environment_variable list("_VENODELIST", "1 0");
  EXPECT_EQ(node_of_new_process(0), 1);
  EXPECT_EQ(node_of_new_process(1), 0);
  EXPECT_EQ(veo_proc_create(2), nullptr);
}

TEST(process_node, minus_one_is_the_first_of_a_list) {
  const environment_variable number("VE_NODE_NUMBER", nullptr);
  const environment_variable list("_VENODELIST", "1 0");
  EXPECT_EQ(node_of_new_process(-1), 1);
}

TEST(process_node, minus_one_needs_a_number_of_the_list) {
  const environment_variable list("_VENODELIST", "1 0");
  {
    const environment_variable number("VE_NODE_NUMBER", "0");
    EXPECT_EQ(node_of_new_process(-1), 0);
  }
  const environment_variable number("VE_NODE_NUMBER", "5");
  EXPECT_EQ(veo_proc_create(-1), nullptr);
}

TEST(process_node, a_number_that_is_none_is_refused) {
  const environment_variable list("_VENODELIST", nullptr);
  const environment_variable number("VE_NODE_NUMBER", "first");
  EXPECT_EQ(veo_proc_create(-1), nullptr);
  EXPECT_THAT(last_error(), HasSubstr("VE_NODE_NUMBER"));
}

TEST(process_node, a_list_that_is_none_is_refused) {
  const environment_variable number("VE_NODE_NUMBER", nullptr);
  const environment_variable list("_VENODELIST", "one two");
  EXPECT_EQ(veo_proc_create(0), nullptr);
  EXPECT_THAT(last_error(), HasSubstr("_VENODELIST"));
}

TEST(process_node, that_is_not_there) {
  const environment_variable list("_VENODELIST", nullptr);
  EXPECT_EQ(veo_proc_create(-2), nullptr);
  EXPECT_THAT(last_error(), HasSubstr("-2"));
  EXPECT_EQ(veo_proc_create(1000), nullptr);
  EXPECT_THAT(last_error(), HasSubstr("1000"));
}

TEST(process_node, has_an_architecture) {
  const int architecture = veo_get_ve_arch(0);
  EXPECT_TRUE(architecture == 1 || architecture == 3) << architecture;
  EXPECT_EQ(veo_get_ve_arch(-2), 0);
  EXPECT_EQ(veo_get_ve_arch(1000), 0);
}

// --- helper programs -----------------------------------------------------------------------------

TEST(process_program, is_the_one_given) {
  VEO_TEST_LOCAL_ONLY("helpers elsewhere are started there");
  const std::string helper = helper_program();
  // The argument has precedence over the environment.
  const environment_variable other("VEORUN_BIN", "/no/such/program");
  const bounded b("veo_proc_create_static");
  veo_proc_handle* const proc = veo_proc_create_static(0, helper.c_str());
  ASSERT_NE(proc, nullptr) << last_error();
  EXPECT_EQ(veo_get_context_state(veo_get_context(proc, 0)), VEO_STATE_RUNNING);
  EXPECT_EQ(veo_proc_destroy(proc), 0);
}

TEST(process_program, may_have_blanks_in_its_path) {
  VEO_TEST_LOCAL_ONLY("helpers elsewhere are started there");
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) /
                                       ("helper of process " + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::filesystem::create_symlink(helper_program(), folder / "my helper");
  const std::string program = folder / "my helper";
  for (const char* named : {static_cast<const char*>(nullptr), program.c_str()}) {
    const environment_variable by_variable("VEORUN_BIN", named);
    veo_proc_handle* const proc =
        named == nullptr ? veo_proc_create_static(0, program.c_str()) : veo_proc_create(0);
    EXPECT_NE(proc, nullptr) << last_error();
    if (proc != nullptr) {
      EXPECT_EQ(veo_proc_destroy(proc), 0);
    }
  }
  std::filesystem::remove_all(folder);
}

TEST(process_program, may_have_words_before_it) {
  VEO_TEST_LOCAL_ONLY("helpers elsewhere are started there");
  const std::string command = "/usr/bin/env VEO_TEST_WORD=given " + helper_program();
  const environment_variable words("VEORUN_BIN", command.c_str());
  process p;
  EXPECT_EQ(environment_of(p, "VEO_TEST_WORD"), "given");
}

TEST(process_program, that_is_not_there) {
  VEO_TEST_LOCAL_ONLY("helpers elsewhere are started there");
  const std::string helper = helper_program();
  EXPECT_EQ(veo_proc_create_static(0, "/no/such/program"), nullptr);
  EXPECT_THAT(last_error(), HasSubstr("/no/such/program"));
  // The first word is the program.
  EXPECT_EQ(veo_proc_create_static(0, ("/no/such/program " + helper).c_str()), nullptr);
  EXPECT_EQ(veo_proc_create_static(0, ""), nullptr);
  const environment_variable missing("VEORUN_BIN", "/no/such/program");
  EXPECT_EQ(veo_proc_create(0), nullptr);
  EXPECT_THAT(last_error(), HasSubstr("VEORUN_BIN"));
}

TEST(process_program, that_is_no_helper) {
  VEO_TEST_LOCAL_ONLY("helpers elsewhere are started there");
  const bounded b("veo_proc_create_static of a program that is no helper");
  EXPECT_EQ(veo_proc_create_static(0, "/bin/true"), nullptr);
  EXPECT_THAT(last_error(), HasSubstr("/bin/true"));
  EXPECT_THAT(last_error(), HasSubstr("mk_veorun_static"));
  EXPECT_EQ(last_error().find("farcall::"), std::string::npos) << last_error();
}

/// Returns the error of veo_proc_create() if VEORUN_BIN has this value.
std::string error_of_named(const std::string& value) {
  const bounded b("veo_proc_create with another VEORUN_BIN");
  const environment_variable named("VEORUN_BIN", value.c_str());
  EXPECT_EQ(veo_proc_create(0), nullptr);
  return last_error();
}

/// A shell script, which is removed at the end.
class script {
 public:
  explicit script(const std::string& text)
      : file_(std::filesystem::path(testing::TempDir()) /
              ("script_of_" + std::to_string(::getpid()))) {
    std::ofstream(file_) << text;
  }
  script(const script&) = delete;
  script& operator=(const script&) = delete;
  ~script() { std::filesystem::remove(file_); }

  [[nodiscard]] std::string command() const { return "/bin/sh " + file_.string(); }

 private:
  std::filesystem::path file_;
};

TEST(process_program, that_is_another_program_is_refused_at_once) {
  VEO_TEST_LOCAL_ONLY("helpers elsewhere are started there");
  for (const std::string program :
       {"/bin/true", "/bin/sleep 1000", "sleep 1000", "/usr/bin/env VEO_TEST_WORD=x sleep 1000"}) {
    EXPECT_THAT(error_of_named(program),
                AllOf(HasSubstr(program + ", which VEORUN_BIN names, is neither aveorun"),
                      HasSubstr("shell script")));
    EXPECT_EQ(veo_proc_create_static(0, program.c_str()), nullptr);
    EXPECT_THAT(last_error(), HasSubstr(program + " is neither aveorun"));
  }
  EXPECT_THAT(error_of_named("/tmp"), AllOf(HasSubstr("\"/tmp\""), HasSubstr("VEORUN_BIN is")));
}

TEST(process_program, that_ends_at_once_is_named_with_its_variable) {
  VEO_TEST_LOCAL_ONLY("helpers elsewhere are started there");
  const auto begin = std::chrono::steady_clock::now();
  // A process that the ended program has started keeps the descriptors open.
  for (const char* const text : {"exit 3", "kill -9 $$", "sleep 45 > /dev/null 2>&1 &"}) {
    const script ends(text);
    EXPECT_THAT(error_of_named(ends.command()),
                AllOf(HasSubstr('"' + ends.command() + '"'), HasSubstr("before it joined"),
                      HasSubstr("VEORUN_BIN is \"" + ends.command() + '"')));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(process_program, that_does_not_join_is_named_with_its_variable) {
  VEO_TEST_LOCAL_ONLY("helpers elsewhere are started there");
  const environment_variable timeout("FARCALL_START_TIMEOUT_MS", "300");
  const script sleeps("exec sleep 1000");
  const std::string text = error_of_named(sleeps.command());
  EXPECT_THAT(text, AllOf(HasSubstr("in time"), HasSubstr("FARCALL_START_TIMEOUT_MS"),
                          HasSubstr("VEORUN_BIN is \"" + sleeps.command() + '"')));
  EXPECT_THAT(text, Not(HasSubstr("job_options")));
}

TEST(process_program, knows_its_node) {
  const environment_variable list("_VENODELIST", nullptr);
  process p(1);
  EXPECT_EQ(environment_of(p, "VE_NODE_NUMBER"), "1");
}

TEST(process_program, gets_the_environment) {
  VEO_TEST_LOCAL_ONLY("helpers elsewhere have an environment of their own");
  const environment_variable mark("VEO_TEST_MARK", "of the caller");
  process p;
  EXPECT_EQ(environment_of(p, "VEO_TEST_MARK"), "of the caller");
  EXPECT_EQ(environment_of(p, "VEO_TEST_NO_SUCH_MARK"), "(not set)");
}

} // namespace
} // namespace veo_test
