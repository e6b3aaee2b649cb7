// SPDX-License-Identifier: Apache-2.0
#include "exports.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/base/unique_fd.hpp>

#include <cstdlib>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace farcall::tool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Returns the variables that `farcall serve` reads from such an input.
std::vector<std::string> read_back(const std::string& input) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {"no pipe"};
  const unique_fd from{ends[0]};
  unique_fd to{ends[1]};
  EXPECT_EQ(write(to.get(), input.data(), input.size()), static_cast<ssize_t>(input.size()));
  to.reset();
  return read_exports(from.get());
}

TEST(exports, a_name_alone_takes_its_local_value) {
  setenv("FARCALL_TEST_EXPORTED", "a,b =\nc", 1);
  const auto all = parse_exports("FARCALL_TEST_EXPORTED,X_1=y=z,EMPTY=");
  EXPECT_THAT(all, ElementsAre("FARCALL_TEST_EXPORTED=a,b =\nc", "X_1=y=z", "EMPTY="));
  EXPECT_EQ(read_back(encode_exports(all)), all);
  unsetenv("FARCALL_TEST_EXPORTED");
}

TEST(exports, bad_variables_are_named) {
  for (const char* text : {"", "=x", "1A=x", "A-B=x", "A=x,,B=y", "A B"})
    EXPECT_THROW((void)parse_exports(text), usage_problem) << text;
  EXPECT_THAT([] { (void)parse_exports("FARCALL_TEST_UNSET"); },
              ThrowsMessage<usage_problem>(HasSubstr("FARCALL_TEST_UNSET: it is not set here")));
  EXPECT_THAT([] { (void)parse_exports("A=" + std::string(std::size_t{300} << 10, 'x')); },
              ThrowsMessage<usage_problem>(HasSubstr("256 KiB")));
}

TEST(exports, invalid_input_is_refused) {
  const std::string end(1, '\0');
  EXPECT_THAT(read_back(end), testing::IsEmpty());
  for (const std::string& text : {std::string{}, std::string{"A=b"}, "A=b" + end})
    EXPECT_THAT([&] { (void)read_back(text); },
                ThrowsMessage<failed_run>(HasSubstr("standard input ended")))
        << text;
  for (const std::string& text : {"A" + end + end, "=b" + end + end, "A-B=c" + end + end})
    EXPECT_THAT([&] { (void)read_back(text); },
                ThrowsMessage<failed_run>(HasSubstr("are no variables")))
        << text;
}

} // namespace
} // namespace farcall::tool
