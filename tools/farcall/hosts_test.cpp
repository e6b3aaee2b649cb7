// SPDX-License-Identifier: Apache-2.0
#include "hosts.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

TEST(hosts, lines_have_a_name_and_options) {
  const auto hosts =
      parse_hosts("# all\n\n one\nme@two.example count=3 # fast\n"
                  "three address=10.0.0.3 slots=4\nfour address=fe80::1 port=7070\r\n",
                  "file");
  ASSERT_EQ(hosts.size(), 4U);
  EXPECT_EQ(hosts[0].name, "one");
  EXPECT_EQ(hosts[0].address, "one");
  EXPECT_EQ(hosts[0].count, 1U);
  EXPECT_EQ(hosts[1].name, "me@two.example");
  EXPECT_EQ(hosts[1].address, "two.example");
  EXPECT_EQ(hosts[1].count, 3U);
  EXPECT_EQ(hosts[2].address, "10.0.0.3");
  EXPECT_EQ(hosts[2].count, 4U);
  EXPECT_EQ(hosts[2].port, 0U);
  EXPECT_EQ(hosts[3].address, "[fe80::1]");
  EXPECT_EQ(hosts[3].port, 7070U);
}

TEST(hosts, mistakes_are_refused) {
  for (const char* text : {"", "# nobody\n", "-v\n", "one two\n", "one address=\n", "count=3\n",
                           "one count=4000\ntwo\n", "127.0.0.1:2\n", "one address=two:2\n"}) {
    EXPECT_THROW((void)parse_hosts(text, "file"), usage_problem) << text;
  }
  for (const char* text : {"one slots=0\n", "one slots=\n", "one port=0\n", "one port=65536\n"})
    EXPECT_THROW((void)parse_hosts(text, "file"), setting_error) << text;
  EXPECT_THROW((void)parse_hosts("one count=0\n", "file"), setting_error);
  EXPECT_THROW((void)parse_hosts("one count=x\n", "file"), setting_error);
  for (const char* file : {"/does/not/exist", "/", "/dev/null", "/dev/zero"}) {
    EXPECT_THROW((void)read_hosts(file), usage_problem) << file;
  }
}

TEST(hosts, number_behind_a_colon_gets_advice) {
  EXPECT_THAT([] { (void)parse_hosts("user@one:2\n", "file"); },
              testing::ThrowsMessage<usage_problem>(testing::HasSubstr(
                  "\"one:2\" has a number behind a colon; write \"one slots=N\"")));
}

TEST(hosts, the_shell_there_sees_the_words_as_they_are) {
  EXPECT_EQ(shell_text({"a", "b c", "", "it's", "$x", "/a-b_c.d:e=f"}),
            "a 'b c' '' 'it'\\''s' '$x' /a-b_c.d:e=f");
  const host_entry host{"me@one", "10.0.0.1", 2, 0};
  served_program served;
  served.program = "/bin/app";
  served.arguments = {"x y"};
  EXPECT_EQ(serve_command("ssh -o BatchMode=yes", host, served),
            (std::vector<std::string>{"ssh", "-o", "BatchMode=yes", "me@one",
                                      "farcall serve --listen 10.0.0.1:0 --key-from-stdin "
                                      "/bin/app 'x y'"}));
  served.arguments.clear();
  served.folder = "/the data";
  served.takes_exports = true;
  EXPECT_EQ(serve_command("ssh", host, served).back(),
            "farcall serve --listen 10.0.0.1:0 --key-from-stdin --exports-from-stdin "
            "--folder-if-there '/the data' /bin/app");
  served.needs_folder = served.uses_host_files = true;
  EXPECT_THAT(serve_command("ssh", host, served).back(),
              ::testing::HasSubstr(" --folder '/the data' --host-files /bin/app"));
  served.host_files_by = "mount";
  EXPECT_THAT(serve_command("ssh", host, served).back(),
              ::testing::HasSubstr(" --host-files --host-files-by=mount /bin/app"));
  EXPECT_THROW((void)serve_command("", host, served), usage_problem);
}

/// A machine may resolve its own name to 127.0.1.1.
TEST(hosts, servers_of_named_hosts_listen_at_all_addresses) {
  EXPECT_EQ(listen_address({"one", "localhost", 1, 0}), "0.0.0.0:0");
  EXPECT_EQ(listen_address({"one", "no-such-host.invalid", 1, 7070}), "0.0.0.0:7070");
  EXPECT_EQ(listen_address({"one", "10.0.0.1", 1, 7070}), "10.0.0.1:7070");
  EXPECT_EQ(listen_address({"one", "[::1]", 1, 0}), "[::1]:0");
}

TEST(hosts, a_common_port_keeps_explicit_ports) {
  std::vector<host_entry> hosts{{"one", "a", 1, 0}, {"two", "b", 1, 7}, {"three", "a", 1, 9}};
  set_ports(hosts, 0);
  EXPECT_EQ(hosts[0].port, 0U);
  set_ports(hosts, 8);
  EXPECT_EQ(hosts[0].port, 8U);
  EXPECT_EQ(hosts[1].port, 7U);
  hosts[2].port = 8;
  EXPECT_THAT([&] { set_ports(hosts, 8); },
              ::testing::ThrowsMessage<usage_problem>(
                  ::testing::HasSubstr("hosts one and three: port 8 of a")));
}

} // namespace
} // namespace farcall::tool
