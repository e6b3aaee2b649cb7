// SPDX-License-Identifier: Apache-2.0
#include <farcall/call/program_image.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include <unistd.h>

namespace farcall::test {

int image_test_extern(int v) { return v + 1; }
int image_test_overloaded(int v) { return v + 2; }
int image_test_overloaded(double v) { return static_cast<int>(v) + 3; }
static int image_test_static(int v) { return v + 4; }
template <class T>
T image_test_template(T v) {
  return v + 5;
}

namespace {

int image_test_unnamed(int v) { return v + 6; }

template <class F>
any_function any(F* f) {
  return reinterpret_cast<any_function>(f);
}

template <class F>
int call(any_function f, int v) {
  return reinterpret_cast<F*>(f)(v);
}

const program_image& image() { return program_image::instance(); }

TEST(program_images, know_their_build) {
  EXPECT_FALSE(image().build().empty());
  EXPECT_EQ(&image(), &program_image::instance());
}

TEST(program_images, offsets_lead_back) {
  for (const any_function f : {any(&image_test_extern), any(&image_test_static),
                               any(&image_test_unnamed), any(&image_test_template<int>)}) {
    const auto offset = image().offset_of(f);
    ASSERT_TRUE(offset);
    EXPECT_EQ(image().at_offset(*offset), f);
  }
  EXPECT_NE(*image().offset_of(any(&image_test_extern)),
            *image().offset_of(any(&image_test_static)));
}

TEST(program_images, reject_offsets_outside_the_code) {
  EXPECT_EQ(image().at_offset(0), nullptr) << "the file's header";
  EXPECT_EQ(image().at_offset(UINT64_MAX), nullptr);
  EXPECT_EQ(image().at_offset(std::uint64_t{1} << 40), nullptr);
  static int variable = 0;
  EXPECT_FALSE(image().offset_of(reinterpret_cast<any_function>(&variable)));
  EXPECT_FALSE(image().offset_of(nullptr));
  int local = 0;
  EXPECT_FALSE(image().offset_of(reinterpret_cast<any_function>(&local)));
}

TEST(program_images, names_of_functions) {
  EXPECT_EQ(image().name_of(any(&image_test_extern)), "_ZN7farcall4test17image_test_externEi");
  EXPECT_EQ(image().name_of(any(static_cast<int (*)(int)>(&image_test_overloaded))),
            "_ZN7farcall4test21image_test_overloadedEi");
  EXPECT_EQ(image().name_of(any(static_cast<int (*)(double)>(&image_test_overloaded))),
            "_ZN7farcall4test21image_test_overloadedEd");
  EXPECT_EQ(image().name_of(any(&image_test_static)),
            "_ZN7farcall4testL17image_test_staticEi@program_image_test.cpp");
  EXPECT_EQ(image().name_of(any(&image_test_template<int>)),
            "_ZN7farcall4test19image_test_templateIiEET_S2_");
  EXPECT_NE(image().name_of(any(&image_test_unnamed)), "");
}

TEST(program_images, functions_by_name) {
  EXPECT_EQ(call<int(int)>(image().by_name("_ZN7farcall4test17image_test_externEi"), 1), 2);
  EXPECT_EQ(call<int(int)>(image().by_name("_ZN7farcall4test21image_test_overloadedEi"), 1), 3);
  EXPECT_EQ(
      call<int(int)>(
          image().by_name("_ZN7farcall4testL17image_test_staticEi@program_image_test.cpp"), 1),
      5);
  for (const any_function f : {any(&image_test_extern), any(&image_test_static),
                               any(&image_test_unnamed), any(&image_test_template<int>)}) {
    EXPECT_EQ(image().by_name(image().name_of(f)), f);
  }
}

TEST(program_images, names_that_no_function_has) {
  EXPECT_EQ(image().by_name(""), nullptr);
  EXPECT_EQ(image().by_name("farcall_no_such_function"), nullptr);
  EXPECT_EQ(image().by_name("_ZN7farcall4test17image_test_externEiX"), nullptr);
  EXPECT_EQ(image().by_name(std::string(100'000, 'x')), nullptr);
}

TEST(program_images, functions_of_shared_libraries) {
  const any_function f = any(&::getpid);
  if (image().offset_of(f)) {
    GTEST_LOG_(INFO) << "linked statically: getpid is part of the program";
  }
  const std::string name = image().name_of(f);
  EXPECT_NE(name, "");
  EXPECT_EQ(image().by_name(name), f);
}

TEST(program_images, the_middle_of_a_function_has_no_name) {
  const auto inside =
      reinterpret_cast<any_function>(reinterpret_cast<std::uintptr_t>(any(&image_test_extern)) + 1);
  EXPECT_EQ(image().name_of(inside), "");
}

TEST(program_images, variables_are_no_functions) {
  EXPECT_EQ(image().by_name("environ"), nullptr);
  EXPECT_EQ(image().by_name("stdout"), nullptr);
}

} // namespace
} // namespace farcall::test
