// SPDX-License-Identifier: Apache-2.0
#include "link.hpp"

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

TEST(with_option, is_added_if_missing) {
  EXPECT_EQ(with_option("tcp://h:1", "cpu", 3), "tcp://h:1?cpu=3");
  EXPECT_EQ(with_option("tcp://h:1?workers=2", "cpu", 3), "tcp://h:1?workers=2&cpu=3");
}

TEST(with_option, keeps_the_users_value) {
  EXPECT_EQ(with_option("tcp://h:1?cpu=0", "cpu", 3), "tcp://h:1?cpu=0");
  EXPECT_EQ(with_option("tcp://h:1?workers=2&cpu=0", "cpu", 3), "tcp://h:1?workers=2&cpu=0");
  EXPECT_EQ(with_option("tcp://h:1,tcp://h:2", "cpu", 3), "tcp://h:1,tcp://h:2");
}

TEST(kind_of, follows_transport_or_targets_and_key) {
  bench_options options;
  EXPECT_EQ(kind_of(options), link_kind::shm);
  options.transport = "tls";
  EXPECT_EQ(kind_of(options), link_kind::tls);
  options.transport = "shm";
  options.targets = "tcp://127.0.0.1:9000";
  EXPECT_EQ(kind_of(options), link_kind::tcp);
  options.key = "key";
  EXPECT_EQ(kind_of(options), link_kind::tls);
  options.key = "";
  options.targets = "cuda-emulated:0?workers=2";
  EXPECT_THROW((void)kind_of(options), usage_problem);
  options.takes_devices = true;
  EXPECT_EQ(kind_of(options), link_kind::emulated);
  options.targets = "cuda:0?workers=2";
  EXPECT_EQ(kind_of(options), link_kind::gpu);
  options.takes_devices = false;
  EXPECT_THROW((void)kind_of(options), usage_problem);
  options.key = "key";
  options.targets = "";
  EXPECT_THROW((void)kind_of(options), usage_problem);
}

TEST(cores_of, the_url_may_name_the_core_of_the_target) {
  bench_options options;
  options.targets = "tcp://127.0.0.1:9000?cpu=" + std::to_string(allowed_cpus().front());
  EXPECT_EQ(cores_of(options).target, allowed_cpus().front());
}

TEST(cores_of, a_gpu_has_none) {
  bench_options options;
  options.takes_devices = true;
  options.targets = "cuda:0";
  options.host_cpu = allowed_cpus().back();
  EXPECT_EQ(cores_of(options).host, allowed_cpus().back());
  EXPECT_EQ(cores_of(options).target, no_core);
  EXPECT_FALSE(cores_of(options).shared());
  options.target_cpu = allowed_cpus().front();
  EXPECT_THROW((void)cores_of(options), usage_problem);
}

TEST(one_target, a_gpu_is_bound_to_no_processor) {
  bench_options options;
  options.takes_devices = true;
  options.targets = "cuda:1?threads=64";
  const bench_link link(options, no_core);
  EXPECT_EQ(link.one_target(no_core).targets, options.targets);
  EXPECT_STREQ(word_of(link.kind()), "cuda");
}

// The tests are linked without code for GPUs.
TEST(make_floor, needs_gpu_code_for_a_gpu) {
  EXPECT_THROW((void)make_floor(link_kind::gpu, {0, no_core}), usage_problem);
}

TEST(url_of_announcement, the_address_ends_at_the_comma) {
  EXPECT_EQ(url_of_announcement("farcall: serving at tcp://127.0.0.1:4242, unencrypted"),
            "tcp://127.0.0.1:4242");
  EXPECT_EQ(url_of_announcement("farcall: something else"), "");
}

} // namespace
} // namespace farcall::tool
