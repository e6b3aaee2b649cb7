// SPDX-License-Identifier: Apache-2.0
#include "tests/network/support.hpp"

#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>
#include <unistd.h>

/// Tests targets of servers that get the places of targets that have ended.
namespace farcall::test::place_test {
namespace {

using testing::Each;
using testing::HasSubstr;

struct layout {
  const char* name;
  const char* first;  ///< the target that is started again; T stands for the server's URL
  const char* second; ///< a target that knows the other one
  bool has_key;
};

void PrintTo(const layout& l, std::ostream* out) { *out << l.name; }
std::string name_of(const testing::TestParamInfo<layout>& info) { return info.param.name; }

class network_places : few_places, public testing::TestWithParam<layout> {
 protected:
  network_places() : few_places(3) {
    key_ = folder_.make_key(GetParam().has_key);
    server_.emplace(local_server(key_));
    job_.emplace(network_job(url(GetParam().first) + "," + url(GetParam().second), key_));
  }

  [[nodiscard]] std::string url(const std::string& text) const {
    return text == "T" ? url_of(*server_) : text;
  }

  void kill(const node& target) {
    ::kill(static_cast<pid_t>(target.description().pid), SIGKILL);
    ASSERT_TRUE(comes_true([&] { return !target.alive(); }));
  }

  scratch_folder folder_;
  std::string key_;
  std::optional<server> server_;
  std::optional<job> job_;
};

INSTANTIATE_TEST_SUITE_P(all, network_places,
                         testing::Values(layout{"plain", "T", "T", false},
                                         layout{"key", "T", "T", true},
                                         layout{"tcp_for_shm", "T", "shm", true},
                                         layout{"shm_for_tcp", "shm", "T", false}),
                         name_of);

std::string failure_of_call_to(node_id other) {
  try {
    (void)ask_number_of(other);
  } catch (const node_failed& e) {
    return e.what();
  }
  return "";
}

/// Copies through the fastest way between the two nodes, also by bulk connections.
int last_of(remote_span<int> there) {
  std::vector<int> here(there.size());
  get(there, std::span(here)).get();
  return here.back();
}

TEST_P(network_places, are_given_again) {
  constexpr std::size_t size = 300'000;
  const node witness = job_->targets().at(1);
  node now = job_->targets().at(0);
  std::vector<buffer<int>> former;
  for (int i = 0; i < 5; ++i) {
    auto memory = now.allocate<int>(size);
    put(std::vector<int>(size, i), memory).get();
    ASSERT_EQ(sync(witness, fn<&ask_number_of>, now.id()), now.id());
    ASSERT_EQ(sync(now, fn<&ask_number_of>, witness.id()), witness.id());
    ASSERT_EQ(sync(witness, fn<&last_of>, memory.span()), i);
    const lane stream(now);
    future<void> pending = async(stream, [] { ::pause(); });
    former.push_back(std::move(memory));
    kill(now);
    const node again = job_->restart(now);
    ASSERT_EQ(again.id(), successor_of(now.id()));
    ASSERT_EQ(sync(again, fn<&own_number>), again.id());
    auto later = again.allocate<int>(size);
    put(std::vector<int>(size, 77), later).get();
    EXPECT_THROW(pending.get(), node_failed);
    EXPECT_THROW((void)sync(now, fn<&own_number>), node_failed);
    EXPECT_THROW((void)sync(stream, fn<&own_number>), node_failed);
    std::vector<int> here(size, 9);
    for (const auto& of_former : former) {
      EXPECT_THROW(put(here, of_former).get(), node_failed);
      EXPECT_THROW(get(of_former, here).get(), node_failed);
      EXPECT_THROW((void)sync(witness, fn<&last_of>, of_former.span()), remote_error);
    }
    EXPECT_EQ(sync(witness, fn<&ask_number_of>, again.id()), again.id());
    EXPECT_EQ(sync(witness, fn<&last_of>, later.span()), 77);
    EXPECT_THAT(sync(witness, fn<&failure_of_call_to>, now.id()), HasSubstr("node"));
    get(later, here).get();
    EXPECT_THAT(here, Each(77)) << "a copy to a former node";
    if (HasFailure()) return;
    now = again;
  }
}

} // namespace
} // namespace farcall::test::place_test
