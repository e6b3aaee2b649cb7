#include "hosts.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

TEST(hosts, lines_have_a_name_and_options) {
  const auto hosts = parse_hosts("# all\n\n one\nme@two.example count=3 # fast\n"
                                 "three address=10.0.0.3\nfour address=fe80::1\r\n",
                                 "file");
  ASSERT_EQ(hosts.size(), 4U);
  EXPECT_EQ(hosts[0].name, "one");
  EXPECT_EQ(hosts[0].address, "one");
  EXPECT_EQ(hosts[0].count, 1U);
  EXPECT_EQ(hosts[1].name, "me@two.example");
  EXPECT_EQ(hosts[1].address, "two.example");
  EXPECT_EQ(hosts[1].count, 3U);
  EXPECT_EQ(hosts[2].address, "10.0.0.3");
  EXPECT_EQ(hosts[3].address, "[fe80::1]");
}

TEST(hosts, mistakes_are_refused) {
  for (const char* text : {"", "# nobody\n", "-v\n", "one two\n", "one address=\n", "count=3\n",
                           "one count=4000\ntwo\n"}) {
    EXPECT_THROW((void)parse_hosts(text, "file"), usage_problem) << text;
  }
  EXPECT_THROW((void)parse_hosts("one count=0\n", "file"), setting_error);
  EXPECT_THROW((void)parse_hosts("one count=x\n", "file"), setting_error);
  for (const char* file : {"/does/not/exist", "/", "/dev/null", "/dev/zero"}) {
    EXPECT_THROW((void)read_hosts(file), usage_problem) << file;
  }
}

TEST(hosts, the_shell_there_sees_the_words_as_they_are) {
  EXPECT_EQ(shell_text({"a", "b c", "", "it's", "$x", "/a-b_c.d:e=f"}),
            "a 'b c' '' 'it'\\''s' '$x' /a-b_c.d:e=f");
  const host_entry host{"me@one", "10.0.0.1", 2};
  EXPECT_EQ(serve_command("ssh -o BatchMode=yes", host, "", "/bin/app", {"x y"}),
            (std::vector<std::string>{"ssh", "-o", "BatchMode=yes", "me@one",
                                      "farcall serve --listen 10.0.0.1:0 --key-from-stdin "
                                      "/bin/app 'x y'"}));
  EXPECT_EQ(
      serve_command("ssh", host, "/the data", "/bin/app", {}).back(),
      "cd -- '/the data' && exec farcall serve --listen 10.0.0.1:0 --key-from-stdin /bin/app");
  EXPECT_THAT(serve_command("ssh", host, "", "/bin/app", {"x"}, true).back(),
              ::testing::HasSubstr("--host-files /bin/app x"));
  EXPECT_THROW((void)serve_command("", host, "", "/bin/app", {}), usage_problem);
}

} // namespace
} // namespace farcall::tool
