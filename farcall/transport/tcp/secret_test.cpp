// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/secret.hpp>
#include <tests/vm_flags.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::tcp::secret_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::ThrowsMessage;

static_assert(!std::is_copy_constructible_v<secret> && !std::is_copy_assignable_v<secret>);

std::vector<std::byte> copy(const secret& s) { return {s.bytes().begin(), s.bytes().end()}; }

/// 64 digits whose value is 0x00, 0x11, ... 0xff, twice.
const std::string good_key = "00112233445566778899aAbBcCdDeEfF00112233445566778899aabbccddeeff";

/// Files in the test's own folder.
class key_file : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "farcall-key-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name = "it's a key") const {
    return folder_ / name;
  }
  [[nodiscard]] std::string file(const std::string& content, mode_t mode = 0600) const {
    std::ofstream(path()) << content;
    EXPECT_EQ(::chmod(path().c_str(), mode), 0);
    return path();
  }
  [[nodiscard]] static std::string content(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  [[nodiscard]] static mode_t mode(const std::string& path) {
    struct stat status{};
    EXPECT_EQ(::stat(path.c_str(), &status), 0);
    return status.st_mode & 07777;
  }

 private:
  std::filesystem::path folder_;
};

TEST(secret, random_bytes_differ_from_one_to_the_next) {
  for (const std::size_t size : {32U, 300U, 5000U}) {
    const secret a = secret::random(size);
    const secret b = secret::random(size);
    EXPECT_EQ(a.bytes().size(), size);
    EXPECT_FALSE(a == b);
    // The last bytes are filled as well.
    EXPECT_TRUE(std::any_of(a.bytes().end() - 16, a.bytes().end(),
                            [](std::byte byte) { return byte != std::byte{0}; }));
  }
}

TEST(secret, is_equal_if_every_byte_is) {
  std::vector<std::byte> bytes(32, std::byte{7});
  const secret a = secret::copy_of(bytes);
  EXPECT_TRUE(a == secret::copy_of(bytes));
  EXPECT_EQ(copy(a), bytes);
  for (const std::size_t at : {0U, 17U, 31U}) {
    std::vector<std::byte> other = bytes;
    other[at] ^= std::byte{0x80};
    EXPECT_FALSE(a == secret::copy_of(other)) << at;
  }
  EXPECT_FALSE(a == secret::copy_of(std::span(bytes).first(31)));
  EXPECT_TRUE(secret() == secret::copy_of({}));
}

TEST(secret, moves_and_leaves_nothing_behind) {
  const std::vector<std::byte> bytes(32, std::byte{7});
  secret from = secret::copy_of(bytes);
  secret to = std::move(from);
  EXPECT_EQ(copy(to), bytes);
  EXPECT_TRUE(from.bytes().empty()); // NOLINT(bugprone-use-after-move): that is the question
  secret last;
  last = std::move(to);
  EXPECT_EQ(copy(last), bytes);
}

TEST(secret, is_read_from_hexadecimal_digits) {
  const auto of = [](std::string_view text) {
    return copy(secret::of_digits(std::as_bytes(std::span(text.data(), text.size()))));
  };
  EXPECT_EQ(of("00fFA1"), (std::vector<std::byte>{std::byte{0}, std::byte{255}, std::byte{0xa1}}));
  for (const char* none : {"", "0", "0g", "000", "-1"})
    EXPECT_TRUE(of(none).empty()) << none;
}

TEST(secret, is_empty_in_forks) {
  const secret s = secret::random(key_bytes);
  ASSERT_FALSE(s.is_wiped());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(s.is_wiped() ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == 1) GTEST_SKIP() << "Linux before 4.14 keeps nothing from forks";
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(s.is_wiped()) << "here it stays";
}

TEST(secret, stays_out_of_core_dumps) {
  const secret s = secret::random(32);
  const std::string flags = test::vm_flags(s.bytes().data());
  if (flags.empty()) GTEST_SKIP() << "the system tells nothing about its mappings";
  EXPECT_THAT(flags, HasSubstr(" dd")) << "do not dump";
}

TEST_F(key_file, is_written_and_read_back) {
  write_key_file(path());
  EXPECT_THAT(content(path()), MatchesRegex("[0-9a-f]+\n"));
  EXPECT_EQ(content(path()).size(), 65U);
  const secret key = read_key_file(path()).key;
  EXPECT_EQ(key.bytes().size(), 32U);
  EXPECT_TRUE(key == read_key_file(path()).key);
  write_key_file(path("another"));
  EXPECT_FALSE(key == read_key_file(path("another")).key);
}

TEST_F(key_file, belongs_to_its_owner_whatever_the_umask) {
  for (const mode_t mask : {0000U, 0022U, 0277U, 0777U}) {
    const std::string at = path("key" + std::to_string(mask));
    const mode_t before = ::umask(mask);
    EXPECT_NO_THROW(write_key_file(at));
    ::umask(before);
    EXPECT_EQ(mode(at), 0600U);
  }
}

TEST_F(key_file, is_never_overwritten) {
  const std::string there = file("precious");
  EXPECT_THAT([&] { write_key_file(there); },
              ThrowsMessage<setting_error>(AllOf(HasSubstr(there), HasSubstr("overwritten"))));
  EXPECT_EQ(content(there), "precious");
  // A link to a missing file is not followed.
  ASSERT_EQ(::symlink(path("nowhere").c_str(), path("link").c_str()), 0);
  EXPECT_THROW(write_key_file(path("link")), setting_error);
  EXPECT_FALSE(std::filesystem::exists(path("nowhere")));
}

TEST_F(key_file, needs_its_folder) {
  EXPECT_THAT([&] { write_key_file(path("none/key")); },
              ThrowsMessage<setting_error>(HasSubstr("mkdir -p")));
}

TEST_F(key_file, holds_64_digits_with_or_without_a_newline) {
  std::vector<std::byte> value;
  for (int i = 0; i < 32; ++i)
    value.push_back(static_cast<std::byte>(i % 16 * 0x11));
  EXPECT_EQ(copy(read_key_file(file(good_key)).key), value);
  EXPECT_EQ(copy(read_key_file(file(good_key + "\n")).key), value);
}

TEST_F(key_file, begins_with_a_clients_name) {
  write_key_file(path(), "alice@lab.example");
  EXPECT_EQ(mode(path()), 0600U);
  EXPECT_THAT(content(path()), MatchesRegex("alice@lab.example [0-9a-f]+\n"));
  const named_key read = read_key_file(path());
  EXPECT_EQ(read.name, "alice@lab.example");
  EXPECT_EQ(read.key.bytes().size(), key_bytes);
  EXPECT_EQ(read_key_file(file(good_key)).name, "");
  EXPECT_TRUE(read_key_file(file(good_key + "\r\n")).key == read_key_file(file(good_key)).key);
  for (const std::string& name : {std::string("a b"), std::string("a/b"), std::string("-a"),
                                  std::string("a\n"), std::string(64, 'a')}) {
    EXPECT_THROW(write_key_file(path("another"), name), setting_error) << name;
    EXPECT_THROW((void)read_key_file(file(name + " " + good_key)), setting_error) << name;
  }
  EXPECT_FALSE(std::filesystem::exists(path("another")));
}

TEST_F(key_file, invalid_content_is_refused_and_not_shown) {
  for (const std::string& content :
       {std::string(), std::string("\n"), good_key.substr(1), good_key + "0", good_key + "\n\n",
        good_key + "\r\r\n", good_key + "\n" + good_key + "\n", " " + good_key.substr(1),
        good_key.substr(0, 63) + "g", good_key.substr(0, 63) + std::string(1, '\0'),
        "0x" + good_key.substr(2), std::string(100'000, 'a')}) {
    const std::string at = file(content);
    EXPECT_THAT([&] { (void)read_key_file(at); },
                ThrowsMessage<setting_error>(AllOf(HasSubstr(at), Not(HasSubstr("2233445566")))))
        << content.size();
  }
  EXPECT_THAT([&] { (void)read_key_file(file("abc")); },
              ThrowsMessage<setting_error>(AllOf(HasSubstr("too short"), HasSubstr("64"))));
}

TEST_F(key_file, must_be_inaccessible_for_group_and_others) {
  for (const mode_t mode : {0640U, 0604U, 0620U, 0601U, 0666U, 0777U}) {
    const std::string at = file(good_key, mode);
    EXPECT_THAT(
        [&] { (void)read_key_file(at); },
        ThrowsMessage<setting_error>(AllOf(HasSubstr("chmod 600 '"), HasSubstr("it'\\''s a key'"))))
        << mode;
  }
  EXPECT_NO_THROW((void)read_key_file(file(good_key, 0400)));
}

TEST_F(key_file, must_belong_to_this_user) {
  const std::string at = file(good_key);
  if (::chown(at.c_str(), 12345, static_cast<gid_t>(-1)) != 0) {
    GTEST_SKIP() << "only root can give a file away";
  }
  EXPECT_THAT([&] { (void)read_key_file(at); },
              ThrowsMessage<setting_error>(AllOf(HasSubstr("user 12345"), HasSubstr("install"))));
}

TEST_F(key_file, must_be_a_file_that_is_there) {
  EXPECT_THAT([&] { (void)read_key_file(path("none")); },
              ThrowsMessage<setting_error>(AllOf(HasSubstr(path("none")), HasSubstr("copy it"))));
  ASSERT_EQ(::mkdir(path("folder").c_str(), 0700), 0);
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const char* name : {"folder", "pipe"}) {
    EXPECT_THAT([&] { (void)read_key_file(path(name)); },
                ThrowsMessage<setting_error>(HasSubstr("not a regular file")));
  }
}

TEST_F(key_file, may_be_reached_through_a_link) {
  ASSERT_EQ(::symlink(file(good_key).c_str(), path("link").c_str()), 0);
  EXPECT_TRUE(read_key_file(path("link")).key == read_key_file(path()).key);
}

} // namespace
} // namespace farcall::tcp::secret_test
