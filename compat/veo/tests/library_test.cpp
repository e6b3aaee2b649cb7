// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

namespace veo_test {
namespace {

using ::testing::HasSubstr;

std::uint64_t load(const process& p, const std::string& file) {
  const bounded b("veo_load_library");
  return veo_load_library(p.get(), file.c_str());
}

std::uint64_t find(const process& p, std::uint64_t library, const std::string& name) {
  const bounded b("veo_get_sym");
  return veo_get_sym(p.get(), library, name.c_str());
}

int unload(const process& p, std::uint64_t library) {
  const bounded b("veo_unload_library");
  return veo_unload_library(p.get(), library);
}

/// Returns another name of the same file, with `length` characters.
std::string padded(const std::string& file, std::size_t length) {
  std::string result = file;
  const std::size_t slash = result.rfind('/');
  if (result.size() % 2 != length % 2) result.insert(slash, "/");
  while (result.size() < length)
    result.insert(slash, "/.");
  return result;
}

/// Changes the working folder; the destructor restores it.
class working_folder {
 public:
  explicit working_folder(const std::string& folder) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder);
  }
  working_folder(const working_folder&) = delete;
  working_folder& operator=(const working_folder&) = delete;
  ~working_folder() { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_;
};

TEST(library, runs_its_constructors_when_loaded) {
  process p;
  EXPECT_EQ(p.read<std::uint64_t>(p.symbol("constructed")), 7U);
  EXPECT_EQ(call(p.main(), p.symbol("made_at_load", "cxx")), ok(3));
}

TEST(library, by_a_path_from_where_the_process_was_created) {
  VEO_TEST_LOCAL_ONLY("helpers elsewhere have folders of their own");
  const working_folder here(kernels_folder());
  const process p;
  const std::uint64_t library = load(p, "./libveo_shadow.so");
  ASSERT_NE(library, 0U) << last_error();
  EXPECT_NE(find(p, library, "same"), 0U);
}

TEST(library, by_name_in_the_path_for_libraries) {
  VEO_TEST_LOCAL_ONLY("helpers elsewhere have an environment of their own");
  const environment_variable path("VE_LD_LIBRARY_PATH", kernels_folder().c_str());
  const process p;
  EXPECT_NE(load(p, "libveo_shadow.so"), 0U) << last_error();
}

TEST(library, that_is_not_there) {
  const process p;
  EXPECT_EQ(load(p, "/no/such/library.so"), 0U);
  EXPECT_THAT(last_error(), HasSubstr("/no/such/library.so"));
  EXPECT_EQ(load(p, "libveo_no_such_library.so"), 0U);
  EXPECT_EQ(load(p, ""), 0U);
}

TEST(library, that_is_none) {
  VEO_TEST_LOCAL_ONLY("the file is one of this machine");
  process p;
  EXPECT_EQ(load(p, "/etc/passwd"), 0U);
  EXPECT_EQ(p.call("same", std::uint64_t{3}), 3U);
}

/// Copies a library of kernels to the folder for temporary files.
std::filesystem::path copy_of(const std::string& library, const std::string& name) {
  const std::filesystem::path file = std::filesystem::temp_directory_path() /
                                     ("veo_" + name + "_" + std::to_string(::getpid()) + ".so");
  std::filesystem::copy_file(library_file(library), file,
                             std::filesystem::copy_options::overwrite_existing);
  return file;
}

// Programs with an embedded library do this.
TEST(library, that_is_removed_once_it_is_loaded) {
  VEO_TEST_LOCAL_ONLY("the file is one of this machine");
  process p;
  const std::filesystem::path file = copy_of("basic", "removed");
  const std::uint64_t library = load(p, file.string());
  std::filesystem::remove(file);
  ASSERT_NE(library, 0U) << last_error();
  // A double's bits, set as an integer: only debug information has the type.
  EXPECT_EQ(call(p.main(), find(p, library, "halved"), std::bit_cast<std::uint64_t>(7.0)),
            ok(std::bit_cast<std::uint64_t>(3.5)));
}

TEST(library, that_is_removed_has_lines_in_reports_of_faults) {
  VEO_TEST_LOCAL_ONLY("the file is one of this machine");
  captured_output errors(STDERR_FILENO);
  {
    process p;
    const std::filesystem::path file = copy_of("basic", "without_a_name");
    const std::uint64_t library = load(p, file.string());
    std::filesystem::remove(file);
    (void)call(p.open(), find(p, library, "write_nowhere"));
  }
  EXPECT_THAT(errors.end(), HasSubstr("at write_nowhere ("));
}

TEST(library, for_the_vector_engine_is_named_as_such) {
  VEO_TEST_LOCAL_ONLY("the file is one of this machine");
  process p;
  const std::filesystem::path file = copy_of("shadow", "for_the_card");
  const auto set_machine = [&file](char machine) {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(18);
    bytes.put(machine);
    bytes.put(0);
  };
  set_machine(static_cast<char>(251));
  EXPECT_EQ(load(p, file.string()), 0U);
  EXPECT_THAT(last_error(), HasSubstr("built for NEC's Vector Engine"));
  EXPECT_THAT(last_error(), HasSubstr("ncc"));
  set_machine(8); // MIPS
  EXPECT_EQ(load(p, file.string()), 0U);
  EXPECT_THAT(last_error(), HasSubstr("another processor (ELF machine 8)"));
  std::filesystem::remove(file);
  EXPECT_EQ(p.call("same", std::uint64_t{3}), 3U);
}

TEST(library, that_is_truncated) {
  VEO_TEST_LOCAL_ONLY("the file is one of this machine");
  process p;
  const std::filesystem::path file = std::filesystem::temp_directory_path() /
                                     ("veo_truncated_" + std::to_string(::getpid()) + ".so");
  std::filesystem::copy_file(library_file("shadow"), file);
  for (const std::uintmax_t size : {8192, 4096, 100, 0}) {
    std::filesystem::resize_file(file, size);
    EXPECT_EQ(load(p, file.string()), 0U) << size;
    EXPECT_THAT(last_error(), HasSubstr(file.string()));
  }
  std::filesystem::remove(file);
  EXPECT_EQ(p.call("same", std::uint64_t{3}), 3U);
}

TEST(library, with_the_longest_name) {
  const process p;
  const std::string file = library_file("shadow");
  ASSERT_LT(file.size(), 254U) << "the folder's name is too long for this test";
  EXPECT_NE(load(p, padded(file, VEO_SYMNAME_LEN_MAX)), 0U) << last_error();
}

TEST(library, with_a_name_that_is_too_long) {
  const process p;
  const std::string file = library_file("shadow");
  ASSERT_LT(file.size(), 254U) << "the folder's name is too long for this test";
  errno = 0;
  EXPECT_EQ(load(p, padded(file, VEO_SYMNAME_LEN_MAX + 1)), 0U);
  EXPECT_EQ(errno, ENAMETOOLONG);
  errno = 0;
  EXPECT_EQ(load(p, std::string(100000, 'x')), 0U);
  EXPECT_EQ(errno, ENAMETOOLONG);
}

TEST(library, sees_symbols_of_those_before_it) {
  process p;
  // 0 + 1 + 4 + ... + 15 * 15
  EXPECT_EQ(call(p.main(), p.symbol("sum_of_table", "shadow")), ok(1240));
}

TEST(library, may_have_the_names_of_another) {
  process p;
  const std::uint64_t basic = p.symbol("same");
  const std::uint64_t shadow = p.symbol("same", "shadow");
  EXPECT_NE(basic, shadow);
  EXPECT_EQ(call(p.main(), basic, std::uint64_t{1}), ok(1));
  EXPECT_EQ(call(p.main(), shadow, std::uint64_t{1}), ok(1001));
  EXPECT_EQ(p.read<std::uint64_t>(p.symbol("variable")), 42U);
  EXPECT_EQ(p.read<std::uint64_t>(p.symbol("variable", "shadow")), 4242U);
}

TEST(library, may_be_loaded_twice) {
  process p;
  const std::uint64_t again = load(p, library_file("basic"));
  ASSERT_NE(again, 0U);
  EXPECT_EQ(find(p, again, "count"), p.symbol("count"));
  EXPECT_EQ(unload(p, again), 0);
  // The library was loaded once more than it was unloaded.
  EXPECT_EQ(p.call("same", std::uint64_t{1}), 1U);
}

TEST(library, unloaded_and_loaded_again_starts_afresh) {
  const process p;
  for (int round = 0; round < 3; ++round) {
    const std::uint64_t library = load(p, library_file("shadow"));
    ASSERT_NE(library, 0U);
    const std::uint64_t variable = find(p, library, "variable");
    const std::uint64_t same = find(p, library, "same");
    ASSERT_NE(variable, 0U);
    ASSERT_NE(same, 0U);
    std::uint64_t value = 0;
    ASSERT_EQ(veo_read_mem(p.get(), &value, variable, sizeof value), 0);
    EXPECT_EQ(value, 4242U);
    value = 1;
    ASSERT_EQ(veo_write_mem(p.get(), variable, &value, sizeof value), 0);
    EXPECT_EQ(call(p.main(), same, std::uint64_t{1}), ok(1001));
    ASSERT_EQ(unload(p, library), 0) << last_error();
    // Symbols of an unloaded library are forgotten.
    EXPECT_EQ(find(p, library, "variable"), 0U);
    EXPECT_EQ(find(p, library, "same"), 0U);
  }
}

TEST(library, unloaded_leaves_the_symbols_of_others) {
  process p;
  const std::uint64_t same = p.symbol("same");
  const std::uint64_t library = load(p, library_file("shadow"));
  ASSERT_NE(find(p, library, "same"), 0U);
  ASSERT_EQ(unload(p, library), 0);
  EXPECT_EQ(p.symbol("same"), same);
  EXPECT_EQ(p.call("same", std::uint64_t{8}), 8U);
}

TEST(library, that_was_never_loaded_cannot_be_unloaded) {
  process p;
  const std::uint64_t library = load(p, library_file("shadow"));
  ASSERT_EQ(unload(p, library), 0);
  EXPECT_NE(unload(p, library), 0);
  EXPECT_NE(unload(p, 12345), 0);
  EXPECT_NE(unload(p, 0), 0);
  EXPECT_EQ(p.call("same", std::uint64_t{8}), 8U);
}

TEST(library, loaded_by_several_threads) {
  const process p;
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const std::uint64_t library = load(p, library_file("shadow"));
        if (library != 0 && find(p, library, "sum_of_table") != 0) ++right;
      }
    });
  }
  for (std::thread& t : threads)
    t.join();
  EXPECT_EQ(right, 80);
}

// --- symbols -------------------------------------------------------------------------------------

TEST(unlinked_library, gets_the_runtime_of_openmp) {
  process p;
  const std::uint64_t seen = p.symbol("threads_seen", "openmp_unlinked");
  EXPECT_EQ(call(p.main(), seen, std::int32_t{3}), ok(3));
}

TEST(unlinked_library, gets_the_runtime_of_fortran) {
  VEO_TEST_LOCAL_ONLY("there are no kernels in Fortran for other machines");
  process p;
  const double a[] = {1, 2};
  const double b[] = {3, 4};
  EXPECT_EQ(
      call(p.main(), p.symbol("dot", "fortran_unlinked"), in(a, 2), in(b, 2), std::int64_t{2}),
      ok(bits_of(11.0)));
}

TEST(symbol, can_be_data_or_a_function) {
  process p;
  EXPECT_EQ(p.read<std::uint64_t>(p.symbol("variable")), 42U);
  EXPECT_EQ(p.read<std::int64_t>(p.symbol("table") + 5 * 8), 25);
  EXPECT_EQ(call(p.main(), p.symbol("add"), std::int64_t{1}, std::int64_t{2}), ok(3));
}

TEST(symbol, is_the_same_each_time) {
  process p;
  const std::uint64_t first = p.symbol("add");
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(p.symbol("add"), first);
}

TEST(symbol, can_be_in_cxx_or_fortran) {
  process p;
  EXPECT_EQ(call(p.main(), p.symbol("_ZN16veo_test_kernels5twiceEl", "cxx"), std::int64_t{-4}),
            ok(word(-8)));
  EXPECT_NE(p.symbol("scale_array_", "fortran"), 0U);
}

TEST(symbol, that_is_not_there) {
  process p;
  const std::uint64_t library = p.library("basic");
  EXPECT_EQ(find(p, library, "no_such_symbol"), 0U);
  EXPECT_THAT(last_error(), HasSubstr("no_such_symbol"));
  EXPECT_EQ(find(p, library, "no_such_symbol"), 0U);
  EXPECT_EQ(find(p, library, ""), 0U);
  EXPECT_EQ(find(p, 12345, "add"), 0U);
  EXPECT_EQ(p.call("same", std::uint64_t{3}), 3U);
}

TEST(symbol, that_comes_with_a_library_is_found_then) {
  process p;
  EXPECT_EQ(find(p, p.library("basic"), "sum_of_table"), 0U);
  EXPECT_NE(p.symbol("sum_of_table", "shadow"), 0U);
}

TEST(symbol, with_the_longest_name) {
  process p;
  const std::string name(VEO_SYMNAME_LEN_MAX, 'x');
  EXPECT_EQ(call(p.main(), p.symbol(name)), ok(255));
  EXPECT_EQ(find(p, p.library("basic"), name + "x"), 0U);
  EXPECT_EQ(find(p, p.library("basic"), std::string(100000, 'x')), 0U);
}

TEST(symbol, with_handle_0_is_one_of_the_program_itself) {
  const process p;
  EXPECT_EQ(find(p, 0, "no_such_symbol"), 0U);
}

TEST(symbol, looked_up_by_several_threads) {
  process p;
  const std::uint64_t library = p.library("basic");
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (const char* name : {"add", "same", "count", "note", "variable", "table", "from_i8"}) {
        const std::uint64_t first = find(p, library, name);
        if (first != 0 && find(p, library, name) == first) ++right;
      }
    });
  }
  for (std::thread& t : threads)
    t.join();
  EXPECT_EQ(right, 28);
}

} // namespace
} // namespace veo_test
