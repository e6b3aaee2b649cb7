// SPDX-License-Identifier: Apache-2.0
#include "profile_page.hpp"

#include "example_profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr auto functions = call_tree_options::roots::functions;

TEST(profile_page, shows_shares_processes_and_functions) {
  const std::string page = profile_page(example_profile(), functions, {"One <gap>."});
  EXPECT_THAT(page, HasSubstr("<h1>./solver &lt;input&gt; &amp; &quot;more&quot;</h1>"));
  EXPECT_THAT(
      page,
      HasSubstr("12 samples in 0.12 s, 100 per second and thread; the kernel dropped 7 more"));
  // Six of twelve samples compute in the program, one in a library; two wait, three are idle.
  for (const char* share :
       {"program 50.0 %", "libraries 8.3 %", "farcall 0.0 %", "waiting 16.7 %", "idle 25.0 %"})
    EXPECT_THAT(page, HasSubstr(share));
  EXPECT_THAT(page, HasSubstr("<td class=\"t\">node 0</td><td>8</td><td>75.0 %</td>"));
  EXPECT_THAT(page, HasSubstr("<tr class=\"i1row\"><td>3</td><td>42.9 %</td><td>85.7 %</td>"
                              "<td class=\"t name\"><span class=\"dot i1\"></span>"
                              "solve(matrix&lt;double&gt; const&amp;)</td>"));
  EXPECT_THAT(page, HasSubstr("<li>One &lt;gap&gt;.</li>"));
  EXPECT_THAT(page, Not(HasSubstr("id=\"own\"")));
}

TEST(profile_page, hides_functions_of_farcall_at_first) {
  profile seen = example_profile();
  seen.frames[1].function = "farcall::solve(int)";
  const std::string page = profile_page(seen, functions, {});
  EXPECT_THAT(page, HasSubstr("id=\"own\""));
  EXPECT_THAT(page, HasSubstr("<tr class=\"i3row\">"));
  EXPECT_THAT(page, HasSubstr("#own:not(:checked)~.wide .i3row{display:none}"));
  EXPECT_THAT(page, Not(HasSubstr("Gaps")));
}

TEST(profile_page, needs_no_other_file) {
  const std::string page = profile_page(example_profile(), functions, {});
  for (const char* word : {"src=\"", "url(", "@import", "<image", "href=\"http"})
    EXPECT_THAT(page, Not(HasSubstr(word)));
}

TEST(profile_page, is_valid_for_an_empty_profile) {
  const std::string page = profile_page({}, functions, {});
  EXPECT_THAT(page, HasSubstr("0 samples in 0 s"));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
}

} // namespace
} // namespace farcall::tool
