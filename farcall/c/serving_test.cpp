// SPDX-License-Identifier: Apache-2.0
#include <farcall/c/serving.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/// Calls that threads of a target take by fc_take(), and the rest of serving.h.
namespace farcall::test::serving_test {
namespace {

using ::testing::HasSubstr;

constexpr int status_after_the_job = 17;
constexpr std::int64_t seconds = 1'000'000'000;

/// Pipes on which functions of the target wait, so that a test decides when they go on.
struct gate {
  gate() {
    if (::pipe(ends.data()) != 0) ::_exit(1);
  }
  void wait() const {
    char byte = 0;
    while (::read(ends[0], &byte, 1) != 1) {
    }
  }
  void open() const { (void)!::write(ends[1], "x", 1); }
  std::array<int, 2> ends{};
};
const gate first_gate;
const gate begun;

std::string text_of(const fc_taken& call) {
  return {static_cast<const char*>(call.bytes), call.size};
}

void reply(fc_reply* to, std::string_view text) { fc_reply_bytes(to, text.data(), text.size()); }

/// Calls a function by its name, waits, and returns the reply, or the name of the failed status.
std::string call(fc_node where, const char* name, std::string_view bytes = "") {
  fc_future* future = nullptr;
  fc_status status = fc_call_async(where, fc_named(name), bytes.data(), bytes.size(), &future);
  const void* got = nullptr;
  std::size_t size = 0;
  if (status == FC_OK) status = fc_future_get(future, &got, &size);
  std::string result =
      status == FC_OK ? std::string(static_cast<const char*>(got), size) : fc_status_name(status);
  fc_future_drop(future);
  return result;
}

fc_node node_of(std::uint32_t id) {
  fc_node node{};
  fc_node_at(nullptr, id, &node);
  return node;
}

std::atomic<int> stops{0};

void stopped(void* times) { static_cast<std::atomic<int>*>(times)->fetch_add(1); }

/// Serves a call that was taken on the target.
void serve(const fc_taken& taken) {
  const auto is = [&](const char* name) { return taken.function == fc_named(name); };
  if (is("serving_test thread")) {
    return reply(taken.reply, ::gettid() == ::getpid() ? "main" : "another");
  }
  if (is("serving_test gate")) {
    begun.open();
    first_gate.wait();
    return reply(taken.reply, "went on");
  }
  // Calls the host, which calls "inner" on this node before it replies.
  if (is("serving_test outer")) return reply(taken.reply, call(node_of(0), "serving_test back"));
  if (is("serving_test on stop")) {
    const std::string own(1, 'o');
    fc_reply_on_stop(taken.reply, &stopped, &stops);
    begun.open();
    while (stops == 0)
      std::this_thread::yield();
    return reply(taken.reply, "");
  }
  if (is("serving_test reserved")) {
    void* to = nullptr;
    if (fc_reply_reserve(taken.reply, taken.size, &to) != FC_OK)
      return reply(taken.reply, fc_error_text());
    std::memcpy(to, taken.bytes, taken.size);
    // Send one byte less than reserved.
    fc_reply_reserved(taken.reply, taken.size - 1);
    return;
  }
  if (is("serving_test fail")) {
    fc_reply_error(taken.reply, "some_error", "some text");
    return;
  }
  reply(taken.reply, text_of(taken));
}

void count_bytes(fc_reply* to, const void* /*bytes*/, std::size_t size, void* /*user*/) {
  reply(to, std::to_string(size));
}
void call_inner(fc_reply* to, const void* /*bytes*/, std::size_t /*size*/, void* /*user*/) {
  reply(to, call(node_of(fc_reply_caller(to)), "serving_test inner", "from below"));
}

/// Registers all names before main(), and thereby in all processes.
const bool registered = [] {
  bool all = true;
  for (const char* const name :
       {"thread", "gate", "outer", "inner", "echo", "on stop", "reserved", "fail"}) {
    all = all && fc_register_taken((std::string("serving_test ") + name).c_str(), nullptr) == FC_OK;
  }
  return all && fc_register("serving_test count", &count_bytes, nullptr) == FC_OK &&
         fc_register("serving_test back", &call_inner, nullptr) == FC_OK;
}();

/// A target whose threads take calls: a forked process.
class taking_process {
 public:
  explicit taking_process(int threads) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
    socket = ends[0];
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      ::_exit(run(ends[1], threads));
    }
    ::close(ends[1]);
  }
  taking_process(const taking_process&) = delete;
  taking_process& operator=(const taking_process&) = delete;
  ~taking_process() {
    if (pid_ > 0) (void)wait();
  }

  /// Returns the exit status.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  int socket = -1;

 private:
  static int run(int socket, int threads) {
    fc_job* job = nullptr;
    if (fc_serve_open(socket, &job) != FC_OK) return 1;
    fc_job* second = nullptr;
    if (fc_serve_open(-1, &second) != FC_ERROR) return 4;
    std::atomic<int> failures{0};
    const auto take_all = [&] {
      fc_taken taken{};
      fc_status status = FC_OK;
      while ((status = fc_take(-1, &taken)) == FC_OK)
        serve(taken);
      if (status != FC_ENDED) {
        std::fprintf(stderr, "fc_take: %s\n", fc_error_text());
        ++failures;
      }
    };
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i)
      others.emplace_back(take_all);
    take_all();
    for (std::thread& each : others)
      each.join();
    if (fc_serve_close(job) != FC_OK) {
      std::fprintf(stderr, "fc_serve_close: %s\n", fc_error_text());
      return 2;
    }
    if (failures != 0) return 3;
    return status_after_the_job;
  }

  pid_t pid_ = 0;
};

/// A job with a target whose threads take calls.
class taking_job {
 protected:
  explicit taking_job(int threads) : target_(threads) {
    fc_job_options options{};
    options.size = sizeof options;
    options.existing_targets = &target_.socket;
    options.existing_target_count = 1;
    EXPECT_EQ(fc_job_start(nullptr, nullptr, &options, &job_), FC_OK) << fc_error_text();
    node_ = node_of(1);
  }
  taking_job(const taking_job&) = delete;
  taking_job& operator=(const taking_job&) = delete;
  ~taking_job() {
    fc_job_end(job_);
    EXPECT_EQ(target_.wait(), status_after_the_job);
  }

  taking_process target_;
  fc_job* job_ = nullptr;
  fc_node node_{};
};

class serving : public ::testing::TestWithParam<int>, protected taking_job {
 protected:
  serving() : taking_job(GetParam()) {}
};

/// A target with a single thread that takes calls, and one with two.
class serving_by_one : public ::testing::Test, protected taking_job {
 protected:
  serving_by_one() : taking_job(1) {}
};
class serving_by_two : public ::testing::Test, protected taking_job {
 protected:
  serving_by_two() : taking_job(2) {}
};

INSTANTIATE_TEST_SUITE_P(by, serving, ::testing::Values(1, 2, 4),
                         [](const auto& info) { return std::to_string(info.param) + "_threads"; });

TEST_P(serving, replies_to_calls) {
  ASSERT_TRUE(registered);
  EXPECT_EQ(call(node_, "serving_test echo", "some bytes"), "some bytes");
  EXPECT_EQ(call(node_, "serving_test echo"), "");
  EXPECT_EQ(call(node_, "serving_test fail"), "FC_REMOTE_ERROR");
  EXPECT_THAT(fc_error_text(), HasSubstr("some text"));
}

TEST_F(serving_by_one, runs_on_threads_of_the_program) {
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(call(node_, "serving_test thread"), "main");
}

TEST_P(serving, takes_each_call_once) {
  constexpr int count = 3000;
  std::vector<fc_future*> futures(count);
  for (int i = 0; i < count; ++i) {
    const std::string text = std::to_string(i);
    ASSERT_EQ(fc_call_async(node_, fc_named("serving_test echo"), text.data(), text.size(),
                            &futures[static_cast<std::size_t>(i)]),
              FC_OK);
  }
  for (int i = 0; i < count; ++i) {
    const void* bytes = nullptr;
    std::size_t size = 0;
    fc_future* const future = futures[static_cast<std::size_t>(i)];
    ASSERT_EQ(fc_future_get(future, &bytes, &size), FC_OK) << fc_error_text();
    EXPECT_EQ(std::string(static_cast<const char*>(bytes), size), std::to_string(i));
    fc_future_drop(future);
  }
}

TEST_P(serving, takes_calls_of_several_callers) {
  std::vector<std::thread> callers;
  std::atomic<int> right{0};
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&, i] {
      for (int n = 0; n < 500; ++n) {
        const std::string text = std::to_string(i) + " " + std::to_string(n);
        right += call(node_, "serving_test echo", text) == text ? 1 : 0;
      }
    });
  }
  for (std::thread& each : callers)
    each.join();
  EXPECT_EQ(right, 2000);
}

TEST_P(serving, has_long_arguments_and_results) {
  std::string text(3'000'000, 'x');
  text.front() = 'a';
  text.back() = 'z';
  EXPECT_EQ(call(node_, "serving_test echo", text), text);
  EXPECT_EQ(call(node_, "serving_test reserved", text), text.substr(0, text.size() - 1));
  EXPECT_EQ(call(node_, "serving_test reserved", "short"), "shor");
  EXPECT_EQ(call(node_, "serving_test count", text), "3000000");
}

TEST_P(serving, runs_handlers_while_all_threads_are_busy) {
  std::vector<fc_future*> busy(static_cast<std::size_t>(GetParam()));
  for (fc_future*& each : busy) {
    ASSERT_EQ(fc_call_async(node_, fc_named("serving_test gate"), nullptr, 0, &each), FC_OK);
    begun.wait();
  }
  EXPECT_EQ(call(node_, "serving_test count", "four"), "4");
  fc_span memory{};
  EXPECT_EQ(fc_allocate(node_, 100, &memory), FC_OK);
  EXPECT_EQ(fc_release(job_, memory), FC_OK);
  for (std::size_t i = 0; i < busy.size(); ++i)
    first_gate.open();
  for (fc_future* const each : busy)
    EXPECT_EQ(fc_future_wait(each, 60 * seconds), FC_OK);
  for (fc_future* const each : busy)
    fc_future_drop(each);
}

TEST_F(serving_by_two, takes_calls_that_a_taken_call_waits_for) {
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(call(node_, "serving_test outer"), "from below");
}

TEST_P(serving, tells_a_call_that_it_is_stopped) {
  fc_future* future = nullptr;
  ASSERT_EQ(
      fc_call_async(fc_stoppable(node_), fc_named("serving_test on stop"), nullptr, 0, &future),
      FC_OK);
  begun.wait();
  ASSERT_EQ(fc_future_stop(future), FC_OK);
  EXPECT_EQ(fc_future_get(future, nullptr, nullptr), FC_CANCELLED);
  fc_future_drop(future);
  // The target has replied when the job ends, which the destructor checks.
}

// ---- a process that is no target of fc_serve_open() ---------------------------------------------

TEST(taken_calls, come_to_a_host) {
  taking_process target(2);
  fc_job_options options{};
  options.size = sizeof options;
  options.existing_targets = &target.socket;
  options.existing_target_count = 1;
  fc_job* job = nullptr;
  ASSERT_EQ(fc_job_start(nullptr, nullptr, &options, &job), FC_OK) << fc_error_text();
  fc_taken taken{};
  EXPECT_EQ(fc_take(0, &taken), FC_TIMEOUT);
  EXPECT_EQ(fc_take(1000, &taken), FC_TIMEOUT);
  fc_set_interrupt([](void* /*none*/) { return true; }, nullptr);
  EXPECT_EQ(fc_take(-1, &taken), FC_INTERRUPTED);
  fc_set_interrupt(nullptr, nullptr);
  fc_future* future = nullptr;
  ASSERT_EQ(fc_call_async(node_of(0), fc_named("serving_test echo"), "here", 4, &future), FC_OK);
  ASSERT_EQ(fc_take(60 * seconds, &taken), FC_OK) << fc_error_text();
  EXPECT_EQ(text_of(taken), "here");
  EXPECT_EQ(taken.function, fc_named("serving_test echo"));
  EXPECT_EQ(taken.job, job);
  EXPECT_EQ(fc_reply_caller(taken.reply), 0U);
  reply(taken.reply, "there");
  const void* bytes = nullptr;
  ASSERT_EQ(fc_future_get(future, &bytes, nullptr), FC_OK);
  EXPECT_EQ(std::memcmp(bytes, "there", 5), 0);
  fc_future_drop(future);
  fc_job_end(job);
  EXPECT_EQ(target.wait(), status_after_the_job);
}

TEST(taken_calls, need_an_open_job_to_close) {
  fc_job* job = nullptr;
  ASSERT_EQ(fc_serve_open(-1, &job), FC_OK) << fc_error_text();
  EXPECT_EQ(job, nullptr);
  EXPECT_EQ(fc_serve_close(nullptr), FC_INVALID_ARGUMENT);
}

} // namespace
} // namespace farcall::test::serving_test
