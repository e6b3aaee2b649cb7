// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/server/client_file.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <sys/stat.h>

namespace farcall::test::client_file_test {
namespace {

using detail::client_file;
using detail::client_limits;
using detail::read_client_file;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

std::string digits(char of) { return std::string(2 * tcp::key_bytes, of); }

class client_file_test : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "farcall-clients-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string file(const std::string& content, mode_t mode = 0600) const {
    const std::string path = folder_ / "clients";
    std::ofstream(path) << content;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }

  [[nodiscard]] client_file read(const std::string& content) const {
    return read_client_file(file(content));
  }

  void expect_refused(const std::string& content, const std::string& why) const {
    EXPECT_THAT([&] { (void)read(content); },
                ThrowsMessage<setting_error>(AllOf(HasSubstr(folder_ / "clients"), HasSubstr(why),
                                                   Not(HasSubstr("aaaaaaaa")))))
        << content;
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(client_file_test, has_a_client_on_each_line_and_comments) {
  const client_file f = read("# who may come\n\n  alice " + digits('a') +
                             " # of the first floor\r\n" + "bob@lab-2.example\t" + digits('B'));
  ASSERT_EQ(f.keys.size(), 2U);
  EXPECT_EQ(f.keys[0].name, "alice");
  EXPECT_EQ(f.keys[0].key.bytes()[31], std::byte{0xaa});
  EXPECT_EQ(f.keys[1].name, "bob@lab-2.example");
  EXPECT_EQ(f.keys[1].key.bytes()[0], std::byte{0xbb});
  EXPECT_EQ(f.clients.at("alice"), client_limits{});
  EXPECT_EQ(f.clients.size(), 2U);
}

TEST_F(client_file_test, may_be_without_clients) {
  EXPECT_TRUE(read("").clients.empty());
  EXPECT_TRUE(read("# none left\n").keys.empty());
}

TEST_F(client_file_test, reads_the_limits_of_each_client) {
  const client_file f =
      read("alice " + digits('a') + " targets=3 memory=2G cpus=0-2,9,1 lanes=40\n" + "bob " +
           digits('b') + " memory=33554432\n");
  const client_limits& alice = f.clients.at("alice");
  EXPECT_EQ(alice.targets, 3U);
  EXPECT_EQ(alice.memory, std::uint64_t{2} << 30);
  EXPECT_THAT(alice.cpus, ElementsAre(0U, 1U, 2U, 9U));
  EXPECT_EQ(alice.lanes, 40U);
  const client_limits& bob = f.clients.at("bob");
  EXPECT_EQ(bob.memory, std::uint64_t{32} << 20);
  EXPECT_FALSE(bob.targets || bob.lanes || !bob.cpus.empty());
}

TEST_F(client_file_test, takes_two_keys_of_a_client_that_changes_them) {
  const client_file f =
      read("alice " + digits('a') + " targets=3\nalice " + digits('b') + " targets=3 lanes=5\n");
  EXPECT_EQ(f.keys.size(), 2U);
  EXPECT_EQ(f.clients.size(), 1U);
  EXPECT_EQ(f.clients.at("alice").targets, 3U);
  EXPECT_EQ(f.clients.at("alice").lanes, 5U);
  expect_refused("x " + digits('a') + " targets=3\nx " + digits('b') + " targets=4\n", "line 2");
  expect_refused("x " + digits('a') + " cpus=3\nx " + digits('b') + " cpus=3-4\n", "line 2");
}

TEST_F(client_file_test, errors_name_the_line_and_hide_keys) {
  const std::string key = digits('a');
  expect_refused("\nalice\n", "line 2");
  expect_refused(key + " alice\n", "line 1");
  expect_refused("alice " + key + "a\n", "line 1: the key of alice");
  expect_refused("alice " + key.substr(1) + "g\n", "64 hexadecimal digits");
  expect_refused("al/ice " + key + "\n", "name");
  expect_refused("alice " + key + " " + key + "\n", "limits");
  expect_refused("alice " + key + " targets=" + key + "\n", "where a number belongs");
  expect_refused("alice " + key + "\nbob " + key + "\n",
                 "line 2: the key of bob stands on an earlier");
  for (const char* limit : {"targets=0", "targets=", "targets", "lanes=-1", "memory=4",
                            "memory=31M", "memory=4T", "memory=M", "cpus=", "cpus=3-1", "cpus=a",
                            "cpus=0,,1", "cpus=99999", "lane=3", "memory=99999999999G"}) {
    expect_refused("alice " + key + " " + limit, "line 1");
  }
}

TEST_F(client_file_test, names_memory_in_the_units_that_people_write) {
  const std::string line = "alice " + digits('a') + " memory=";
  for (const std::string wrong : {"2T", "1.5G", "1048577G", "99999999999G", "M", "2GiB"}) {
    expect_refused(line + wrong, "memory= is \"" + wrong +
                                     "\"; give a whole number with k, M or G behind it, or of "
                                     "bytes, from 32M to 1048576G");
  }
  EXPECT_EQ(read(line + "1048576G").clients.at("alice").memory, std::uint64_t{1} << 50);
  expect_refused(line + "31M", "memory= is less than 32M");
}

TEST_F(client_file_test, is_for_its_owner_only) {
  EXPECT_THAT([&] { (void)read_client_file(file("", 0640)); },
              ThrowsMessage<setting_error>(HasSubstr("chmod 600")));
}

} // namespace
} // namespace farcall::test::client_file_test
