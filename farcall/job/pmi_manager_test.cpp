// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/job/pmi_manager.hpp>
#include <tests/child.hpp>
#include <tests/support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace farcall::pmi_manager_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

mpi_state no_mpi() noexcept { return mpi_state::absent; }
mpi_state coming_mpi() noexcept { return mpi_state::not_started; }
mpi_state running_mpi() noexcept { return mpi_state::running; }
mpi_state ended_mpi() noexcept { return mpi_state::ended; }

time_point soon() { return deadline_after(test::wait_limit); }

std::pair<unique_fd, unique_fd> make_pair(int type = SOCK_STREAM) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
  return {unique_fd(ends[0]), unique_fd(ends[1])};
}

/// Returns the bytes to send in place of the usual reply, with the end of the line; empty for
/// silence.
using script = std::function<std::optional<std::string>(const std::string& line)>;
/// Closes the connection after the bytes before it.
constexpr char hang_up = '\0';

/// A process manager like Hydra, at the other ends of sockets, on a thread of its own.
class server {
 public:
  explicit server(std::vector<unique_fd> sockets, script instead = {})
      : sockets_(std::move(sockets)), unread_(sockets_.size()), instead_(std::move(instead)),
        thread_([this] { run(); }) {}
  /// Waits until all clients have gone.
  ~server() { end(); }
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  /// Returns all lines that the clients have sent. Call after the clients have gone.
  const std::vector<std::string>& end() {
    if (thread_.joinable()) thread_.join();
    return lines_;
  }

 private:
  void run() {
    for (std::size_t open = sockets_.size(); open > 0;) {
      std::vector<pollfd> watched;
      for (const unique_fd& one : sockets_)
        watched.push_back({one.get(), POLLIN, 0});
      ASSERT_GT(::poll(watched.data(), watched.size(), 60'000), 0);
      for (std::size_t i = 0; i < sockets_.size(); ++i) {
        if (watched[i].revents == 0) continue;
        std::array<char, 8192> piece;
        const ssize_t got = ::read(sockets_[i].get(), piece.data(), piece.size());
        if (got > 0) unread_[i].append(piece.data(), static_cast<std::size_t>(got));
        if (got <= 0 || !serve(i)) {
          sockets_[i].reset();
          --open;
        }
      }
    }
  }

  bool serve(std::size_t i) {
    for (std::size_t end; (end = unread_[i].find('\n')) != std::string::npos;) {
      const std::string line = unread_[i].substr(0, end);
      unread_[i].erase(0, end + 1);
      lines_.push_back(line);
      std::optional<std::string> reply;
      if (instead_) reply = instead_(line);
      if (!reply) reply = reply_to(i, line);
      const bool hangs_up = reply->ends_with(hang_up);
      if (hangs_up) reply->pop_back();
      say(i, *reply);
      if (hangs_up) return false;
    }
    return true;
  }

  void say(std::size_t i, const std::string& bytes) const {
    (void)::send(sockets_[i].get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  std::string reply_to(std::size_t i, const std::string& text) {
    const pmi_line line(text);
    const auto command = line.word("cmd").value_or("");
    if (command == "initack")
      return "cmd=initack\ncmd=set size=3\ncmd=set rank=" + std::string(*line.word("pmiid")) +
             "\ncmd=set debug=0\n";
    if (command == "init") return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";
    if (command == "get_maxes") return "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n";
    if (command == "get_my_kvsname") return "cmd=my_kvsname kvsname=kvs_1_vm\n";
    if (command == "put") {
      put_[std::string(*line.word("key"))] = *line.word("value");
      return "cmd=put_result rc=0 msg=success\n";
    }
    if (command == "get") {
      const auto found = put_.find(std::string(*line.word("key")));
      return found == put_.end() ? "cmd=get_result rc=-1 msg=key_not_found value=unknown\n"
                                 : "cmd=get_result rc=0 msg=success value=" + found->second + "\n";
    }
    if (command == "finalize") return "cmd=finalize_ack\n";
    if (command != "barrier_in") return "";
    if (++in_barrier_ < sockets_.size()) return "";
    in_barrier_ = 0;
    for (std::size_t other = 0; other < sockets_.size(); ++other) {
      if (other != i) say(other, "cmd=barrier_out\n");
    }
    return "cmd=barrier_out\n";
  }

  std::vector<unique_fd> sockets_;
  std::vector<std::string> unread_;
  script instead_;
  std::map<std::string, std::string> put_;
  std::size_t in_barrier_ = 0;
  std::vector<std::string> lines_;
  std::thread thread_; ///< last: it uses the other members
};

/// A single process, and the process manager that it uses.
class alone {
 public:
  explicit alone(script instead = {}, mpi_state (*mpi)() noexcept = no_mpi) : mpi_(mpi) {
    auto [ours, theirs] = make_pair();
    ours_ = std::move(ours);
    std::vector<unique_fd> sockets;
    sockets.push_back(std::move(theirs));
    server_ = std::make_unique<server>(std::move(sockets), std::move(instead));
  }

  pmi_manager& manager() {
    if (!manager_) manager_ = std::make_unique<pmi_manager>(std::move(ours_), 0, 1, soon(), mpi_);
    return *manager_;
  }
  const std::vector<std::string>& lines() {
    manager_.reset();
    return server_->end();
  }
  /// Returns the text of the exception that `f` throws.
  template <class Error = error>
  std::string failure(const std::function<void(pmi_manager&)>& f) {
    try {
      f(manager());
    } catch (const Error& e) {
      return e.what();
    } catch (const std::exception& e) {
      return std::string("another exception: ") + e.what();
    }
    return "nothing";
  }

 private:
  unique_fd ours_;
  mpi_state (*mpi_)() noexcept;
  std::unique_ptr<server> server_;
  std::unique_ptr<pmi_manager> manager_;
};

/// Replies `bytes` to lines that begin with `to`.
script reply(const std::string& to, const std::string& bytes) {
  return [=](const std::string& line) {
    return line.starts_with(to) ? std::optional(bytes) : std::nullopt;
  };
}

/// Returns a value with all byte values.
std::string value_of(std::size_t bytes, node_id rank) {
  std::string value;
  for (std::size_t i = 0; i < bytes; ++i)
    value += static_cast<char>((i * i + i / 3 + rank) % 256);
  return value;
}

TEST(pmi, processes_read_what_others_have_put) {
  static constexpr node_id count = 4;
  // Around the limits of pieces, and of base64url's groups of three bytes.
  static constexpr std::array<std::size_t, 9> sizes{0, 1, 2, 3, 680, 681, 682, 683, 3000};
  std::vector<unique_fd> theirs;
  std::vector<unique_fd> ours;
  for (node_id i = 0; i < count; ++i) {
    auto [one, other] = make_pair();
    ours.push_back(std::move(one));
    theirs.push_back(std::move(other));
  }
  server manager(std::move(theirs));
  std::vector<std::thread> processes;
  for (node_id rank = 0; rank < count; ++rank) {
    processes.emplace_back([rank, &ours] {
      pmi_manager m(std::move(ours[rank]), rank, count, soon(), no_mpi);
      EXPECT_EQ(m.rank(), rank);
      EXPECT_EQ(m.size(), count);
      for (const std::size_t bytes : sizes)
        m.put("v" + std::to_string(bytes), value_of(bytes, rank));
      m.fence(soon());
      for (node_id from = 0; from < count; ++from) {
        for (const std::size_t bytes : sizes)
          EXPECT_EQ(m.get(from, "v" + std::to_string(bytes), soon()), value_of(bytes, from));
      }
      m.fence(soon());
    });
  }
  for (std::thread& one : processes)
    one.join();
  // Slurm takes no longer lines.
  for (const std::string& line : manager.end())
    EXPECT_LT(line.size(), 1024U);
}

TEST(pmi, sends_the_lines_of_the_protocol) {
  alone a;
  a.manager().put("a.key", "abc");
  a.manager().fence(soon());
  EXPECT_EQ(a.manager().get(0, "a.key", soon()), "abc");
  a.manager().finalize();
  a.manager().finalize();
  EXPECT_THAT(
      a.lines(),
      ElementsAre("cmd=init pmi_version=1 pmi_subversion=1", "cmd=get_maxes", "cmd=get_my_kvsname",
                  "cmd=put kvsname=kvs_1_vm key=farcall-0-a.key-0 value=1.YWJj", "cmd=barrier_in",
                  "cmd=get kvsname=kvs_1_vm key=farcall-0-a.key-0", "cmd=finalize"));
}

TEST(pmi, keeps_to_the_limits_of_the_process_manager) {
  alone a(reply("cmd=get_maxes", "cmd=maxes kvsname_max=16 keylen_max=60 vallen_max=101\n"));
  const std::string value = value_of(1000, 0);
  a.manager().put("k", value);
  EXPECT_EQ(a.manager().get(0, "k", soon()), value);
  std::size_t longest = 0;
  for (const std::string& line : a.lines())
    longest = std::max(longest, pmi_line(line).word("value").value_or("").size());
  EXPECT_EQ(longest, 100U);
}

TEST(pmi, aborts_with_a_status) {
  alone a;
  a.manager().abort(7, "a test");
  EXPECT_THAT(a.lines(), ::testing::Contains("cmd=abort exitcode=7"));
}

TEST(pmi, names_the_process_that_has_put_nothing) {
  alone a;
  try {
    (void)a.manager().get(5, "card", soon());
    FAIL();
  } catch (const error& e) {
    EXPECT_EQ(e.node(), 5U);
    EXPECT_THAT(e.what(), AllOf(HasSubstr("process 5"), HasSubstr("\"card\""),
                                HasSubstr("msg=key_not_found")));
  }
}

TEST(pmi, refuses_malformed_keys_and_large_values) {
  alone a;
  const auto put = [](const std::string& key, std::size_t bytes) {
    return [=](pmi_manager& m) { m.put(key, std::string(bytes, 'x')); };
  };
  EXPECT_THAT(a.failure(put("a b", 1)), HasSubstr("\"a b\" should be letters"));
  EXPECT_THAT(a.failure(put("", 1)), HasSubstr("should be letters"));
  EXPECT_THAT(a.failure(put("a\n", 1)), HasSubstr("should be letters"));
  EXPECT_THAT(a.failure(put(std::string(31, 'k'), 1)), HasSubstr("at most 30"));
  EXPECT_EQ(a.failure(put(std::string(30, 'k'), 1)), "nothing");
  EXPECT_THAT(a.failure(put(std::string(30, 'k'), 1)), HasSubstr("has been put already"));
  EXPECT_THAT(a.failure(put("large", 10'000'000)), HasSubstr("10000000 bytes"));
}

TEST(pmi, takes_replies_in_pieces_and_settings_between_them) {
  auto [ours, theirs] = make_pair();
  std::thread manager([&theirs = theirs] {
    std::array<char, 200> piece;
    (void)::read(theirs.get(), piece.data(), piece.size());
    for (const char c : std::string("cmd=set debug=0\ncmd=maxes a=b=c rc=0 a=d\n"))
      EXPECT_EQ(::write(theirs.get(), &c, 1), 1);
  });
  pmi_connection connection(std::move(ours));
  const pmi_line line = connection.ask("cmd=get_maxes", "maxes", soon());
  EXPECT_EQ(line.word("a"), "b=c");
  EXPECT_EQ(line.word("b"), std::nullopt);
  EXPECT_TRUE(line.is_success());
  manager.join();
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i)
    all += text;
  return all;
}

struct malformed {
  const char* to;    ///< beginning of a request
  std::string bytes; ///< malformed reply to it
  const char* text;  ///< part of the error's text
};

TEST(pmi, malformed_replies_are_errors) {
  const std::string end(1, hang_up);
  const std::vector<malformed> all{
      {"cmd=init", "cmd=response_to_init rc=-1\n", "refuses \"cmd=init "},
      {"cmd=init", "cmd=maxes\n", "should have replied \"cmd=response_to_init …\", but replied"},
      {"cmd=init", "\n", "but replied \"\""},
      {"cmd=init", "a cmd=response_to_init\n", "but replied \"a cmd="},
      {"cmd=init", std::string("cmd=\x01\xff\n"), "but replied \"cmd=??\""},
      {"cmd=init", end, "has closed the connection"},
      {"cmd=init", "cmd=respon" + end, "in the middle of a line, \"cmd=respon\""},
      {"cmd=init", repeated("cmd=set debug=0\n", 100), "but replied \"cmd=set debug=0\""},
      {"cmd=init", std::string(70'000, 'x'), "a line of more than 65536 bytes: \"xxx"},
      {"cmd=get_maxes", "cmd=maxes\n", "should have said \"cmd=maxes …"},
      {"cmd=get_maxes", "cmd=maxes keylen_max=64 vallen_max=-1\n",
       "with numbers, but said \"cmd=maxes keylen"},
      {"cmd=get_maxes", "cmd=maxes keylen_max=64 vallen_max=99999999999999999999\n",
       "with numbers, but said"},
      {"cmd=get_maxes", "cmd=maxes keylen_max=20 vallen_max=1024\n", "leave no space"},
      {"cmd=get_maxes", "cmd=maxes keylen_max=64 vallen_max=1\n", "leave no space"},
      {"cmd=get_my_kvsname", "cmd=my_kvsname\n", "should have said \"cmd=my_kvsname kvsname=…\""},
      {"cmd=get_my_kvsname", "cmd=my_kvsname kvsname=" + std::string(2000, 'k') + "\n",
       "leave no space"},
      {"cmd=put", "cmd=put_result rc=1\n", "refuses \"cmd=put "},
      {"cmd=barrier_in", "cmd=barrier_out rc=-1\n", "refuses \"cmd=barrier_in\""},
      {"cmd=get ", "cmd=get_result rc=0\n", "has put nothing"},
      {"cmd=get ", "cmd=get_result rc=0 value=\n", "does not say its length"},
      {"cmd=get ", "cmd=get_result rc=0 value=YWJj\n", "does not say its length"},
      {"cmd=get ", "cmd=get_result rc=0 value=0.YWJj\n", "does not say its length"},
      {"cmd=get ", "cmd=get_result rc=0 value=+1.YWJj\n", "does not say its length"},
      {"cmd=get ", "cmd=get_result rc=0 value=1001.YWJj\n", "does not say its length"},
      {"cmd=get ", "cmd=get_result rc=0 value=1.YW+j\n", "is not base64url"},
      {"cmd=get ", "cmd=get_result rc=0 value=1.Y\n", "is not base64url"},
      {"cmd=get ", "cmd=get_result rc=0 value=1.YWI\n", "nothing"},
      {"cmd=get ", "cmd=get_result rc=0 value=1.YWL\n", "is not base64url"},
  };
  for (const malformed& one : all) {
    alone a(reply(one.to, one.bytes));
    EXPECT_THAT(a.failure([](pmi_manager& m) {
      m.put("k", "abc");
      m.fence(soon());
      (void)m.get(0, "k", soon());
    }),
                AllOf(HasSubstr(one.text), Not(HasSubstr("YWJj"))))
        << one.to << " " << one.bytes.substr(0, 100);
  }
}

TEST(pmi, requests_fail_after_a_missing_reply) {
  alone a(reply("cmd=barrier_in", ""));
  (void)a.manager();
  const time_point deadline = clock::now() + std::chrono::milliseconds(20);
  EXPECT_THAT(a.failure<timeout>([=](pmi_manager& m) { m.fence(deadline); }),
              HasSubstr("did not reply to \"cmd=barrier_in\" in time"));
  EXPECT_GE(clock::now(), deadline);
  // A later reply could be the reply to the fence.
  EXPECT_THAT(a.failure([](pmi_manager& m) { (void)m.get(0, "k", soon()); }),
              HasSubstr("cannot be asked any more: earlier, the process manager did not reply to"));
  EXPECT_EQ(a.lines().back(), "cmd=finalize");
}

TEST(pmi, warns_of_long_waits) {
  alone a(reply("cmd=barrier_in", ""));
  (void)a.manager();
  ::testing::internal::CaptureStderr();
  (void)a.failure<timeout>(
      [](pmi_manager& m) { m.fence(clock::now() + std::chrono::milliseconds(5500)); });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("waiting for the process manager, which was sent \"cmd=barrier_in\""));
}

TEST(pmi, refuses_requests_after_the_end) {
  alone a;
  a.manager().finalize();
  EXPECT_THAT(a.failure([](pmi_manager& m) { m.fence(soon()); }), HasSubstr("listens no more"));
  EXPECT_THAT(a.failure([](pmi_manager& m) { m.put("k", "v"); }), HasSubstr("listens no more"));
  a.manager().abort(1, "a test");
  EXPECT_EQ(a.lines().back(), "cmd=finalize");
}

TEST(pmi, ends_after_a_closed_connection) {
  alone a(reply("cmd=barrier_in", std::string(1, hang_up)));
  EXPECT_THAT(a.failure([](pmi_manager& m) { m.fence(soon()); }), HasSubstr("closed"));
  a.manager().abort(1, "a test");
  a.manager().finalize();
}

TEST(pmi, needs_a_stream) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const unique_fd other(ends[1]);
  const auto failure = [](unique_fd with, node_id rank = 0) -> std::string {
    try {
      const pmi_manager m(std::move(with), rank, 1, soon(), no_mpi);
    } catch (const error& e) {
      return e.what();
    }
    return "nothing";
  };
  EXPECT_THAT(failure(unique_fd(ends[0])), HasSubstr("needs a socket"));
  EXPECT_THAT(failure(make_pair(SOCK_SEQPACKET).first), HasSubstr("a socket of another type"));
  EXPECT_THAT(failure(unique_fd()), HasSubstr("needs a socket"));
  EXPECT_THAT(failure(make_pair().first, 1), HasSubstr("process 1 of 1, counted from 0"));
}

// ---- beside MPI ---------------------------------------------------------------------------------

TEST(pmi, leaves_init_and_finalize_to_a_running_mpi) {
  alone a({}, running_mpi);
  a.manager().fence(soon());
  a.manager().finalize();
  EXPECT_THAT(a.lines(), ElementsAre("cmd=get_maxes", "cmd=get_my_kvsname", "cmd=barrier_in"));
}

TEST(pmi, cannot_be_made_after_mpi_finalize) {
  alone a({}, ended_mpi);
  EXPECT_THAT(a.failure([](pmi_manager&) {}), HasSubstr("MPI_Finalize has told"));
}

/// Returns the lines that a process sends between the end of its job and its own end, with MPI in
/// that state.
template <mpi_state (*AtExit)() noexcept>
std::vector<std::string> lines_of_a_process() {
  auto [ours, theirs] = make_pair();
  const test::forked_child process([&]() -> int {
    theirs.reset();
    static bool is_at_exit = false;
    const int same = ::fcntl(ours.get(), F_DUPFD_CLOEXEC, 0);
    pmi_manager m(
        std::move(ours), 0, 1, soon(),
        +[]() noexcept { return is_at_exit ? AtExit() : mpi_state::not_started; });
    m.finalize();
    (void)::write(same, "behind finalize()\n", 18);
    is_at_exit = true;
    std::exit(0);
  });
  ours.reset();
  std::vector<unique_fd> sockets;
  sockets.push_back(std::move(theirs));
  server manager(std::move(sockets));
  return manager.end();
}

TEST(pmi, finalizes_at_exit_if_mpi_may_follow) {
  EXPECT_THAT(lines_of_a_process<coming_mpi>(),
              ElementsAre(StartsWith("cmd=init "), "cmd=get_maxes", "cmd=get_my_kvsname",
                          "behind finalize()", "cmd=finalize"));
}

TEST(pmi, sends_no_finalize_at_exit_after_mpi) {
  EXPECT_EQ(lines_of_a_process<ended_mpi>().back(), "behind finalize()");
}

// ---- the environment ----------------------------------------------------------------------------

class pmi_environment : public ::testing::Test {
 protected:
  pmi_environment() { clear(); }
  ~pmi_environment() override { clear(); }

  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }
  static std::string failure() {
    try {
      (void)pmi_manager::find(soon());
    } catch (const error& e) {
      return e.what();
    }
    return "nothing";
  }

 private:
  static void clear() {
    for (const char* name : {"PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_PORT", "PMI_ID"})
      ::unsetenv(name);
  }
};

TEST_F(pmi_environment, may_name_none) { EXPECT_EQ(pmi_manager::find(soon()), nullptr); }

TEST_F(pmi_environment, names_a_descriptor_that_stays) {
  auto [ours, theirs] = make_pair();
  ASSERT_EQ(::fcntl(ours.get(), F_SETFD, 0), 0);
  std::vector<unique_fd> sockets;
  sockets.push_back(std::move(theirs));
  server manager(std::move(sockets));
  set("PMI_FD", std::to_string(ours.get()));
  set("PMI_RANK", "2");
  set("PMI_SIZE", "3");
  const auto found = pmi_manager::find(soon());
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->rank(), 2U);
  EXPECT_EQ(found->size(), 3U);
  EXPECT_EQ(found->name(), "PMI 1.1");
  found->finalize();
  // Open for an MPI library in this program, but not in other programs.
  EXPECT_EQ(::fcntl(ours.get(), F_GETFD), FD_CLOEXEC);
  ours.reset();
}

TEST_F(pmi_environment, that_makes_no_sense_is_an_error) {
  set("PMI_FD", "0");
  EXPECT_THAT(failure(), HasSubstr("PMI_FD is set, and PMI_SIZE is not"));
  set("PMI_SIZE", "2");
  EXPECT_THAT(failure(), HasSubstr("PMI_FD is set, and PMI_RANK is not"));
  set("PMI_RANK", "2");
  EXPECT_THAT(failure(), HasSubstr("PMI_RANK"));
  set("PMI_RANK", "1");
  set("PMI_FD", "-1");
  EXPECT_THAT(failure(), HasSubstr("PMI_FD"));
  set("PMI_FD", "1000000");
  EXPECT_THAT(failure(), HasSubstr("PMI_FD=1000000 names a descriptor that is not there"));
}

/// A process manager that waits for one connection.
class port {
 public:
  explicit port(script instead = {}) : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_.get(), any, bytes), 0);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener_.get(), any, &bytes), 0);
    name_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this, instead] {
      std::vector<unique_fd> sockets;
      sockets.emplace_back(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      lines_ = server(std::move(sockets), instead).end();
    });
  }
  ~port() { end(); }
  port(const port&) = delete;
  port& operator=(const port&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  const std::vector<std::string>& end() {
    if (thread_.joinable()) thread_.join();
    return lines_;
  }

 private:
  unique_fd listener_;
  std::string name_;
  std::vector<std::string> lines_;
  std::thread thread_;
};

TEST_F(pmi_environment, names_a_port) {
  port manager;
  set("PMI_PORT", manager.name());
  set("PMI_ID", "1");
  auto found = pmi_manager::find(soon());
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->rank(), 1U);
  EXPECT_EQ(found->size(), 3U);
  found.reset();
  EXPECT_THAT(manager.end(), ElementsAre("cmd=initack pmiid=1", StartsWith("cmd=init "),
                                         "cmd=get_maxes", "cmd=get_my_kvsname", "cmd=finalize"));
}

TEST_F(pmi_environment, names_a_port_that_sends_no_valid_rank) {
  for (const std::string& replies : {
           std::string("cmd=set size=2\ncmd=set rank=x\n"),
           std::string("cmd=set size=0\ncmd=set rank=0\n"),
           std::string("cmd=maxes size=2 rank=0\n"),
           repeated("cmd=set size=2\n", 100),
       }) {
    port manager(reply("cmd=initack", "cmd=initack\n" + replies));
    set("PMI_PORT", manager.name());
    set("PMI_ID", "0");
    EXPECT_THAT(failure(), HasSubstr("should have said \"cmd=set size=…\"")) << replies;
  }
  port manager(reply("cmd=initack", "cmd=initack\ncmd=set size=2\ncmd=set rank=2\n"));
  set("PMI_PORT", manager.name());
  EXPECT_THAT(failure(), HasSubstr("process 2 of 2"));
}

TEST_F(pmi_environment, names_a_port_that_cannot_be_reached) {
  set("PMI_PORT", "127.0.0.1:1");
  EXPECT_THAT(failure(), HasSubstr("PMI_PORT is set, and PMI_ID is not"));
  set("PMI_ID", "0");
  EXPECT_THAT(failure(), AllOf(HasSubstr("PMI_PORT=127.0.0.1:1"), HasSubstr("refused")));
  set("PMI_PORT", "127.0.0.1");
  EXPECT_THAT(failure(), HasSubstr("should be host:port"));
  set("PMI_PORT", "127.0.0.1:http");
  EXPECT_THAT(failure(), HasSubstr("the port in PMI_PORT"));
}

} // namespace
} // namespace farcall::pmi_manager_test
