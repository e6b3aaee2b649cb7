// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/settings_table.hpp>
#include <farcall/offload/other_variables.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/tcp/remote_target.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace farcall::other_variables_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(other_variables, are_no_settings) {
  for (const std::string_view v : other_variables()) {
    EXPECT_TRUE(v.starts_with("FARCALL_")) << v;
    for (const setting& s : settings::core)
      EXPECT_NE(settings::variable_of(s), v);
  }
}

TEST(other_variables, include_variables_that_hosts_set_for_targets) {
  std::string entry = bootstrap_variable;
  entry += "=5";
  std::string addresses = server_addresses_variable;
  addresses += "=192.0.2.1:80";
  const char* const environment[] = {entry.c_str(), addresses.c_str(), "FARCALL_VEO_NODES=shm",
                                     nullptr};
  EXPECT_THAT(settings::unknown(environment, other_variables()), IsEmpty());
}

TEST(other_variables, leave_misspelt_settings_to_be_warned_about) {
  const char* const environment[] = {"FARCALL_TARGET=shm", "FARCALL_VEO_NODE=shm", nullptr};
  EXPECT_THAT(settings::unknown(environment, other_variables()),
              ElementsAre(HasSubstr("FARCALL_TARGETS?"), HasSubstr("FARCALL_VEO_NODE")));
}

} // namespace
} // namespace farcall::other_variables_test
