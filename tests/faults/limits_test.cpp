// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/support.hpp"
#include "tests/sanitizer.hpp"

#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <exception>
#include <fstream>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint64_t mib = 1 << 20;

/// A job whose nodes have 64 MiB of shared memory each.
class little_memory : public job_test {
 protected:
  little_memory() : job_test(options()) {}
  static job_options options() {
    job_options o = with_targets("shm:2");
    o.heap_bytes = 64 * mib;
    return o;
  }
};

TEST_F(little_memory, buffers) {
  std::vector<buffer<char>> all;
  const auto e = thrown_by<out_of_memory>([&] {
    for (int i = 0; i < 100; ++i)
      all.push_back(target_.allocate<char>(mib));
  });
  ASSERT_TRUE(e);
  EXPECT_EQ(e->node(), target_.id());
  EXPECT_THAT(e->what(), AllOf(HasSubstr("node 1"), HasSubstr(std::to_string(mib))));
  EXPECT_GE(all.size(), 32U);
  // The other target has its own memory; this one recovers.
  (void)job_.targets()[1].allocate<char>(10 * mib);
  all.clear();
  (void)target_.allocate<char>(10 * mib);
}

TEST_F(little_memory, arguments) {
  const std::vector<char> large(100 * mib, 'l');
  const auto size = [](const std::vector<char>& v) { return v.size(); };
  const auto e = thrown_by<out_of_memory>([&] { (void)sync(target_, size, large); });
  ASSERT_TRUE(e);
  EXPECT_EQ(e->node(), host_id) << "the arguments lie in the caller's memory";
  EXPECT_THROW(post(target_, size, large), out_of_memory);
  EXPECT_EQ(sync(target_, size, std::vector<char>(10 * mib)), 10 * mib);
}

TEST_F(little_memory, results) {
  const auto make = [](std::size_t n) { return std::vector<char>(n, 'r'); };
  const auto e =
      thrown_by<out_of_memory>([&] { (void)sync(target_, make, std::size_t{100 * mib}); });
  ASSERT_TRUE(e);
  EXPECT_EQ(e->node(), target_.id());
  EXPECT_EQ(sync(target_, make, std::size_t{10 * mib}).size(), 10 * mib);
}

TEST_F(little_memory, many_large_results_at_a_time) {
  // The results do not fit together. Each call ends in its value or the error; later all fits
  // again.
  std::vector<future<std::vector<char>>> all;
  for (int i = 0; i < 40; ++i) {
    all.push_back(async(target_, [] { return std::vector<char>(4 * mib, 'x'); }));
  }
  int values = 0;
  int errors = 0;
  for (auto& f : all) {
    try {
      EXPECT_EQ(f.get().size(), 4 * mib);
      ++values;
    } catch (const error&) {
      ++errors;
    }
  }
  EXPECT_GT(values, 0);
  EXPECT_EQ(values + errors, 40);
  EXPECT_EQ(sync(target_, [] { return std::vector<char>(30 * mib); }).size(), 30 * mib);
}

TEST_F(little_memory, operator_new_in_handlers) {
  if (under_sanitizer) GTEST_SKIP() << "sanitizers end the process where operator new would throw";
  const auto e = thrown_by<remote_error>([&] {
    sync(target_, [] {
      // Call the function: a compiler may omit a new expression.
      ::operator delete(::operator new(SIZE_MAX / 4));
    });
  });
  ASSERT_TRUE(e);
  EXPECT_EQ(e->type_name(), "std::bad_alloc");
  EXPECT_EQ(sync(target_, [] { return 3; }), 3);
}

// ---- descriptors --------------------------------------------------------------------------------

void limit_descriptors(rlim_t most) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = most;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// Outcome of a job under one limit, from too few descriptors to enough of them.
enum outcome { is_made, is_refused, is_wrong, names_no_limit, leaves_something };

/// Makes a job in a process that may open `spare` more descriptors; the job cannot raise the limit.
outcome job_with(rlim_t spare) {
  const holdings before = holdings::now();
  const rlim_t most = before.descriptors + spare;
  const rlimit limit{most, most};
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return is_wrong;
  outcome found = is_made;
  try {
    const job j(with_targets("shm:2"));
    if (sync(j.targets()[1], [] { return 5; }) != 5) return is_wrong;
  } catch (const error& e) {
    found = is_refused;
    // Heaps take no descriptors, so heap bytes must not be blamed.
    if (std::string(e.what()).find("limit") == std::string::npos ||
        std::string(e.what()).find("FARCALL_HEAP_BYTES") != std::string::npos) {
      say(std::string("refused without naming the limit, or with another: ") + e.what());
      return names_no_limit;
    }
  }
  constexpr rlim_t needed_to_look = 8;
  return spare < needed_to_look || nothing_left_since(before) ? found : leaves_something;
}

int jobs_under_limits() {
  {
    const job first(with_targets("shm"));
  }
  int refused = 0;
  int made = 0;
  for (rlim_t spare = 0; spare < 60; ++spare) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(job_with(spare));
    int status = 0;
    if (::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 2;
    if (WEXITSTATUS(status) > is_refused) return 10 + WEXITSTATUS(status);
    ++(WEXITSTATUS(status) == is_made ? made : refused);
  }
  const job after(with_targets("shm:2"));
  if (sync(after.targets()[0], [] { return 6; }) != 6) return 5;
  say(std::to_string(refused) + " refused, " + std::to_string(made) + " made");
  return refused > 0 && made > 0 ? 0 : 6;
}

int calls_of_every_kind(const node& a, const node& b) {
  if (sync(a, [] { return 1; }) != 1) return 2;
  const auto memory = a.allocate<char>(16 * mib);
  const std::vector<char> sent(16 * mib, 's');
  put(sent, memory).get();
  if (sync(a, [](remote_span<char> s) { return s[s.size() - 1]; }, memory.span()) != 's') return 3;
  const auto other = b.allocate<char>(16 * mib);
  copy(memory, other).get();
  if (sync(b, [](remote_span<char> s) { return s[0]; }, other.span()) != 's') return 4;
  {
    const lane stream(a);
    if (sync(stream, [](const node& n) { return sync(n, [] { return 2; }); }, b) != 2) return 5;
  }
  if (sync(a, [] { return std::vector<char>(mib); }).size() != mib) return 6;
  // A node's death is still noticed.
  try {
    sync(b, [] { ::_exit(1); });
    return 7;
  } catch (const node_failed&) {
  }
  if (sync(a, [] { return 3; }) != 3) return 8;
  return 0;
}

/// A running job needs no further descriptors.
int job_without_descriptors() {
  std::optional<job> j(with_targets("shm:2"));
  limit_descriptors(1000);
  std::vector<int> taken;
  for (int fd = ::open("/dev/null", O_RDONLY); fd >= 0; fd = ::open("/dev/null", O_RDONLY)) {
    taken.push_back(fd);
  }
  const int failed = calls_of_every_kind(j->targets()[0], j->targets()[1]);
  j.reset();
  for (const int fd : taken)
    ::close(fd);
  return failed;
}

int job_without_files() {
  const rlimit limit{1 << 20, 1 << 20};
  if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
  try {
    const job j(with_targets("shm"));
  } catch (const error& e) {
    say(e.what());
    return 0;
  }
  return 3;
}

/// Adds a node in a process without address space for its memory.
int addition_without_address_space() {
  job j(with_targets("shm"));
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = pages * static_cast<rlim_t>(::getpagesize()) + 16 * mib;
  const rlimit limit{most, most};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) return 2;
  try {
    (void)j.add("shm");
  } catch (const start_failed& e) {
    say(e.what());
    return sync(j.targets()[0], [] { return 3; }) == 3 ? 0 : 4;
  } catch (const std::exception& e) {
    say(std::string("another error: ") + e.what());
    return 5;
  }
  return 6;
}

/// Adds nodes while the user's limit of processes and threads grows, until one is added.
int addition_without_threads() {
  // The limit does not apply to root.
  constexpr uid_t another_user = 60'123;
  if (::getuid() == 0 && (::setgid(another_user) != 0 || ::setuid(another_user) != 0)) return 2;
  job j(with_targets("shm"));
  rlimit limit{};
  if (::getrlimit(RLIMIT_NPROC, &limit) != 0) return 2;
  std::string why;
  for (limit.rlim_cur = 1; limit.rlim_cur < limit.rlim_max; ++limit.rlim_cur) {
    if (::setrlimit(RLIMIT_NPROC, &limit) != 0) return 2;
    try {
      const node added = j.add("shm");
      say(why);
      return sync(added, [] { return 3; }) == 3 ? 0 : 4;
    } catch (const start_failed& e) {
      why = e.what();
      if (why.find("limit") != std::string::npos) continue;
      say("refused without naming the limit: " + why);
      return 5;
    } catch (const std::exception& e) {
      say(std::string("another error: ") + e.what());
      return 6;
    }
  }
  return 7;
}

const role threads_role("addition without threads", &addition_without_threads);
const role narrow_role("addition without address space", &addition_without_address_space);
const role limits_role("jobs under limits", &jobs_under_limits);
const role small_files_role("job without files", &job_without_files);
const role starved_role("job without descriptors", &job_without_descriptors);

TEST(descriptor_limit, refuses_jobs_with_the_reason) {
  role_process p("jobs under limits");
  const std::string said = p.line();
  EXPECT_EQ(p.wait(), 0) << said;
  EXPECT_THAT(said, HasSubstr("made"));
}

TEST(address_space_limit, is_named_when_adding_a_node_fails) {
  if (under_sanitizer) GTEST_SKIP() << "sanitizers need address space of their own";
  role_process p("addition without address space");
  const std::string said = p.line();
  EXPECT_EQ(p.wait(), 0) << said;
  EXPECT_THAT(said, HasSubstr("ulimit -v"));
}

TEST(thread_limit, is_named_when_adding_a_node_fails) {
  role_process p("addition without threads");
  const std::string said = p.line();
  EXPECT_EQ(p.wait(), 0) << said;
  EXPECT_THAT(said, AllOf(HasSubstr("cannot join"), HasSubstr("ulimit -u")));
}

TEST(file_size_limit, is_named_when_memory_cannot_be_shared) {
  role_process p("job without files");
  const std::string said = p.line();
  EXPECT_EQ(p.wait(), 0) << said;
  EXPECT_THAT(said, HasSubstr("ulimit -f"));
}

TEST(descriptor_limit, does_not_harm_a_running_job) {
  role_process p("job without descriptors");
  EXPECT_EQ(p.wait(), 0);
}

} // namespace
} // namespace farcall::test
