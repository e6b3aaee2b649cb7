// SPDX-License-Identifier: Apache-2.0
#include "server_pages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace farcall::tool {
namespace {

using testing::HasSubstr;

server_status busy() {
  server_status s;
  s.targets = 2;
  s.hosts = 1;
  s.unproved = 3;
  s.targets_started = 40;
  s.targets_not_started = 7;
  s.connections = 500;
  s.refused.at(static_cast<std::size_t>(tcp::refusal_cause::timeout)) = 6;
  return s;
}

TEST(server_pages, metrics_match_the_status) {
  const std::string text = server_metrics(busy());
  for (const char* line :
       {"\nfarcall_server_targets 2\n", "\nfarcall_server_hosts 1\n",
        "\nfarcall_server_draining 0\n", "\nfarcall_server_unproved_connections 3\n",
        "\nfarcall_server_targets_started_total 40\n",
        "\nfarcall_server_targets_not_started_total 7\n",
        "\nfarcall_server_connections_total 500\n",
        "\nfarcall_server_refused_connections_total{cause=\"timeout\"} 6\n",
        "\nfarcall_server_refused_connections_total{cause=\"request\"} 0\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

TEST(server_pages, readiness_ends_when_the_server_drains) {
  server_status status = busy();
  const auto pages = server_pages([&] { return std::optional(status); });
  EXPECT_EQ(pages.at("/readyz")().status, 200);
  status.is_draining = true;
  EXPECT_EQ(pages.at("/readyz")().status, 503);
  EXPECT_EQ(pages.at("/livez")().status, 200);
  EXPECT_EQ(pages.at("/metrics")().status, 200);
  EXPECT_EQ(server_summary(status), "draining, 2 targets of 1 host");
}

TEST(server_pages, an_unresponsive_server_is_neither_alive_nor_ready) {
  for (const auto& [path, page] : server_pages([] { return std::optional<server_status>(); }))
    EXPECT_EQ(page().status, 503) << path;
}

} // namespace
} // namespace farcall::tool
