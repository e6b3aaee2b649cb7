// SPDX-License-Identifier: Apache-2.0
#include <tests/child.hpp>

#include <farcall/farcall.hpp>
#include <farcall/job/process_group.hpp>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

/// Tests jobs of processes that exist already, and exchange addresses by their own means.
namespace farcall::test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int cannot_join_status = 70;

/// Pipes from process 0 to the others.
class processes {
 public:
  explicit processes(std::uint32_t size) : ends_(size) {
    for (auto& ends : ends_) {
      if (::pipe(ends.data()) != 0) throw std::system_error(errno, std::generic_category());
    }
  }
  ~processes() {
    for (const auto& ends : ends_) {
      ::close(ends[0]);
      ::close(ends[1]);
    }
  }
  processes(const processes&) = delete;
  processes& operator=(const processes&) = delete;

  [[nodiscard]] process_group group(node_id rank) const {
    process_group g;
    g.name = "a test";
    g.rank = rank;
    g.size = static_cast<std::uint32_t>(ends_.size());
    g.broadcast = [this, rank](const std::string& of_host, time_point /*deadline*/) {
      if (rank == host_id) {
        for (const auto& ends : ends_)
          send(ends[1], of_host);
        return of_host;
      }
      return receive(rank);
    };
    return g;
  }

  void tell(node_id rank, const std::string& bytes) const { send(ends_[rank][1], bytes); }
  [[nodiscard]] std::string receive(node_id rank) const {
    std::string bytes(8192, 0);
    const ssize_t got = ::read(ends_[rank][0], bytes.data(), bytes.size());
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  }

 private:
  /// Fits a pipe, so that one write() takes it.
  static void send(int fd, const std::string& bytes) {
    if (::write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      throw std::system_error(errno, std::generic_category());
    }
  }
  std::vector<std::array<int, 2>> ends_;
};

int take_part(const processes& all, node_id rank) {
  job j(spmd, all.group(rank));
  if (j.rank() != rank || j.size() != 3) return 1;
  const auto next = static_cast<node_id>((rank + 1) % 3);
  if (sync(j.node_at(next), [] { return this_node().id(); }) != next) return 2;
  if (j.node_at(next).description().transport != "shm") return 3;
  j.close();
  return 0;
}

TEST(process_groups, make_one_job) {
  const processes all(3);
  std::vector<std::unique_ptr<forked_child>> each;
  for (node_id rank = 0; rank < 3; ++rank)
    each.push_back(std::make_unique<forked_child>([&, rank] { return take_part(all, rank); }));
  for (const auto& child : each)
    EXPECT_EQ(child->wait(), 0);
}

TEST(process_groups, with_one_process_make_a_job) {
  forked_child alone([] {
    const processes all(1);
    job j(spmd, all.group(0));
    return j.size() == 1 ? 0 : 1;
  });
  EXPECT_EQ(alone.wait(), 0);
}

TEST(process_groups, report_a_missing_process) {
  const processes all(2);
  forked_child host([&] {
    job_options o;
    o.start_timeout = std::chrono::milliseconds(300);
    try {
      job j(spmd, all.group(0), o);
    } catch (const start_failed& e) {
      const std::string why = e.what();
      return e.node() == 1 && why.find("rank 1 of a test") != std::string::npos ? 0 : 2;
    }
    return 1;
  });
  EXPECT_EQ(host.wait(), 0);
}

TEST(process_groups, join_only_a_host) {
  const processes all(2);
  forked_child other([&] {
    job j(spmd, all.group(1));
    return 0;
  });
  all.tell(1, "hello, I am no host of farcall at all");
  EXPECT_EQ(other.wait(), cannot_join_status);
}

TEST(process_groups, that_are_impossible_are_refused) {
  const processes all(2);
  process_group none = all.group(0);
  none.size = 0;
  EXPECT_THAT([&] { (void)job(spmd, none); }, ThrowsMessage<setting_error>(HasSubstr("size")));
  process_group beyond = all.group(0);
  beyond.rank = 2;
  EXPECT_THAT([&] { (void)job(spmd, beyond); }, ThrowsMessage<setting_error>(HasSubstr("rank")));
}

TEST(process_groups, with_too_many_processes_are_refused) {
  const processes all(2);
  forked_child host([&] {
    process_group many = all.group(0);
    many.size = 65537;
    try {
      job j(spmd, many);
    } catch (const start_failed& e) {
      return std::string(e.what()).find("at most 65536 nodes") != std::string::npos ? 0 : 2;
    }
    return 1;
  });
  EXPECT_EQ(host.wait(), 0);
}

} // namespace
} // namespace farcall::test
