// SPDX-License-Identifier: Apache-2.0
#include <farcall/call/callable.hpp>
#include <farcall/call/callable_description.hpp>
#include <farcall/call/signature.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <typeinfo>
#include <unordered_map>
#include <vector>

#include <gtest/gtest.h>

namespace app {

double length(const std::vector<double>& of) { return static_cast<double>(of.size()); }
template <class T>
std::vector<T> twice(T value) {
  return {value, value};
}
struct adds {
  int what;
  int operator()(int n) const { return n + what; }
};
struct counts {
  std::string name;
};
bool operator<(const counts& a, const counts& b) { return a.name < b.name; }

} // namespace app

namespace farcall {
namespace {

template <class F>
callable_description describe(std::string_view signature, const std::string& file = "") {
  return describe_callable(typeid(F).name() + file, signature);
}

TEST(callable_description, names_functions_without_their_parameters) {
  const callable_description c =
      describe<fn_t<&app::length>>(signature_text<double(const std::vector<double>&)>());
  EXPECT_EQ(c.name, "app::length");
  EXPECT_EQ(c.kind, "function");
  EXPECT_EQ(c.type, "double (std::vector<double> const&)");
  EXPECT_EQ(c.layout, "8:8,{8:8}");
  EXPECT_EQ(c.contents, "");
  EXPECT_EQ(c.compiler, "");
  EXPECT_FALSE(c.is_library);
}

TEST(callable_description, names_templates_without_their_result) {
  using function = std::vector<std::string> (*)(std::string);
  constexpr function twice = &app::twice<std::string>;
  EXPECT_EQ(describe<fn_t<twice>>("FviE|-").name, "app::twice<std::string>");
}

TEST(callable_description, leaves_operators_as_they_are) {
  constexpr bool (*less)(const app::counts&, const app::counts&) = &app::operator<;
  EXPECT_NE(describe<fn_t<less>>("FviE|-").name.find("app::operator<"), std::string::npos);
}

TEST(callable_description, tells_lambdas_objects_and_pointers_apart) {
  const auto lambda = [](int n) { return n; };
  const callable_description l = describe<decltype(lambda)>("FiiE|4:4,4:4;8:8|gcc");
  EXPECT_EQ(l.kind, "lambda");
  EXPECT_EQ(l.layout, "4:4,4:4");
  EXPECT_EQ(l.contents, "8:8");
  EXPECT_EQ(l.compiler, "gcc");
  const callable_description o = describe<app::adds>(farcall::callable_text<app::adds, int(int)>());
  EXPECT_EQ(o.kind, "object");
  EXPECT_EQ(o.name, "app::adds");
  EXPECT_EQ(o.contents, "4:4");
  const callable_description p = describe<double (*)(double)>("FddE|8:8,8:8");
  EXPECT_EQ(p.kind, "pointer");
  EXPECT_EQ(p.name, "double (*)(double)");
  EXPECT_EQ(p.type, "double (double)");
}

TEST(callable_description, tells_which_file_knows_it) {
  const callable_description c = describe<app::adds>("FiiE|4:4,4:4", "@solver.cpp");
  EXPECT_EQ(c.file, "solver.cpp");
  EXPECT_EQ(c.name, "app::adds");
}

TEST(callable_description, is_of_the_library_where_farcall_is_called) {
  EXPECT_TRUE(describe_callable("N7farcall1c10named_callE", "reply(name, bytes)").is_library);
}

TEST(callable_description, takes_what_is_no_mangled_name) {
  const callable_description c = describe_callable("@", "");
  EXPECT_EQ(c.name, "");
  EXPECT_EQ(c.layout, "");
  EXPECT_EQ(describe_callable("((<", "|;|").name, "((<");
}

TEST(readable_type, leaves_out_what_is_the_default) {
  EXPECT_EQ(readable_type(typeid(std::map<std::string, std::vector<int>>).name()),
            "std::map<std::string, std::vector<int>>");
  EXPECT_EQ(readable_type(typeid(std::unordered_map<std::string, double>).name()),
            "std::unordered_map<std::string, double>");
  EXPECT_EQ(readable_type(typeid(std::unique_ptr<int>).name()), "std::unique_ptr<int>");
  EXPECT_EQ(readable_type(typeid(std::map<int, char, std::greater<int>>).name()),
            "std::map<int, char, std::greater<int>>");
}

} // namespace
} // namespace farcall
