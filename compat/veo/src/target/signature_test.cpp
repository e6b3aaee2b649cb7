// SPDX-License-Identifier: Apache-2.0
#include "signature.hpp"

#include "test_kernels/library.hpp"
#include "test_kernels/printing.hpp"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <link.h>

namespace farcall::veo::signature_test {

namespace {

using test::library;
using enum value_class;

/// An extern "C" function of this program.
extern "C" [[gnu::used]] double farcall_veo_signature_of_the_program(int factor, double value) {
  return factor * value;
}

#if FARCALL_VEO_HAS_DWARF

TEST(signature_of, c_functions) {
  const library c(FARCALL_VEO_TEST_KERNELS_C);
  const auto of = [&c](const char* name) { return signature_of(c[name]); };
  EXPECT_EQ(of("no_arguments"), (signature{none, {}, false}));
  EXPECT_EQ(of("narrow_signed"), (signature{sint8, {sint8, sint16, sint32, integer64}, false}));
  EXPECT_EQ(of("narrow_unsigned"), (signature{uint8, {uint8, uint16, uint32, integer64}, false}));
  EXPECT_EQ(of("negative_short"), (signature{sint16, {}, false}));
  EXPECT_EQ(of("big_short"), (signature{uint16, {}, false}));
  EXPECT_EQ(of("negative_int"), (signature{sint32, {}, false}));
  EXPECT_EQ(of("big_int"), (signature{uint32, {}, false}));
  EXPECT_EQ(of("negation"), (signature{boolean, {boolean}, false}));
  EXPECT_EQ(of("half_single"), (signature{real32, {real32}, false}));
  EXPECT_EQ(of("half"), (signature{real64, {real64}, false}));
  EXPECT_EQ(of("opposite"), (signature{sint32, {uint32, sint32}, false}));
  EXPECT_EQ(of("variadic"), (signature{sint32, {sint32}, true}));
}

TEST(signature_of, types_behind_names_and_qualifiers) {
  const library c(FARCALL_VEO_TEST_KERNELS_C);
  EXPECT_EQ(signature_of(c["scaled"]), (signature{real64, {sint32, real64}, false}));
  EXPECT_EQ(signature_of(c["named_nothing"]), (signature{none, {integer64}, false}));
  EXPECT_EQ(signature_of(c["third"]),
            (signature{integer64, {integer64, integer64, integer64, integer64}, false}));
}

TEST(signature_of, types_that_no_register_holds) {
  const library c(FARCALL_VEO_TEST_KERNELS_C);
  EXPECT_EQ(signature_of(c["odd_ones"]),
            (signature{integer64, {wide, wide, wide, wide, sint32}, false}));
}

TEST(signature_of, structures_of_one_word) {
  const library c(FARCALL_VEO_TEST_KERNELS_C);
#if defined(__x86_64__)
  constexpr value_class two_singles = real64;
#else
  constexpr value_class two_singles = wide;
#endif
  EXPECT_EQ(signature_of(c["sum_of_reals_in"]),
            (signature{real32, {two_singles, real64, real32}, false}));
  EXPECT_EQ(signature_of(c["swapped"]), (signature{two_singles, {two_singles}, false}));
  EXPECT_EQ(signature_of(c["doubled"]), (signature{real64, {real64}, false}));
  EXPECT_EQ(signature_of(c["sum_of_words"]), (signature{integer64, {integer64, integer64}, false}));
  EXPECT_EQ(signature_of(c["second_of_packed"]), (signature{sint32, {wide}, false}));
}

TEST(signature_of, members_of_classes) {
  const library cpp(FARCALL_VEO_TEST_KERNELS_DEBUG);
  EXPECT_EQ(signature_of(cpp["_ZNK5space6object6methodEif"]),
            (signature{real64, {integer64, sint32, real32}, false}));
  EXPECT_EQ(signature_of(cpp["_ZN5space6object8of_classE5levelb"]),
            (signature{sint16, {uint8, boolean}, false}));
  EXPECT_EQ(signature_of(cpp["_ZN5space6object8in_classEt"]),
            (signature{sint32, {integer64, uint16}, false}));
}

TEST(signature_of, functions_that_are_inlined_elsewhere) {
  const library cpp(FARCALL_VEO_TEST_KERNELS_DEBUG);
  EXPECT_EQ(signature_of(cpp["small_or"]), (signature{uint8, {real64, uint8}, false}));
  EXPECT_EQ(signature_of(cpp["calls_small_or"]), (signature{uint8, {real64}, false}));
}

TEST(signature_of, references_enumerations_and_packs) {
  const library cpp(FARCALL_VEO_TEST_KERNELS_DEBUG);
  EXPECT_EQ(
      signature_of(cpp["_Z8first_ofRKdOdDn6offset5plainDsiPKc"]),
      (signature{integer64,
                 {integer64, integer64, integer64, integer64, sint16, uint16, sint32, integer64},
                 false}));
  EXPECT_EQ(signature_of(cpp["_Z3sumIJcdlEEdDpT_"]),
            (signature{real64, {sint8, real64, integer64}, false}));
}

TEST(signature_of, fortran_functions) {
  if (std::string(FARCALL_VEO_TEST_KERNELS_FORTRAN).empty()) GTEST_SKIP() << "no gfortran found";
  const library fortran(FARCALL_VEO_TEST_KERNELS_FORTRAN);
  const auto of = [&fortran](const char* name) { return signature_of(fortran[name]); };
  EXPECT_EQ(of("fortran_dot_"), (signature{real64, {integer64, integer64, integer64}, false}));
  EXPECT_EQ(of("fortran_ninth_"),
            (signature{real64, std::vector<value_class>(9, integer64), false}));
  EXPECT_EQ(of("fortran_scale_"), (signature{none, {integer64, integer64}, false}));
  EXPECT_EQ(of("fortran_values"),
            (signature{real64,
                       {real64, sint32, real32, integer64, integer64, integer64, integer64,
                        integer64, integer64, integer64, sint16},
                       false}));
  EXPECT_EQ(of("fortran_address"), (signature{none, {integer64, integer64}, false}));
}

TEST(signature_of, addresses_inside_functions_is_not_known) {
  const library c(FARCALL_VEO_TEST_KERNELS_C);
  EXPECT_EQ(signature_of(static_cast<const char*>(c["narrow_signed"]) + 1), std::nullopt);
  EXPECT_EQ(signature_of(c["runs"]), std::nullopt);
}

class scratch_folder {
 public:
  scratch_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "farcall-veo-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~scratch_folder() { std::filesystem::remove_all(path_); }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

const signature real_from_real{real64, {real64}, false};

TEST(signature_of, libraries_that_come_and_go) {
  const scratch_folder folder;
  const auto path = folder.path() / "libcome_and_go.so";
  for (int turn = 0; turn < 3; ++turn) {
    // A copy, because the loader would return the library that is open.
    std::filesystem::copy_file(turn % 2 == 0 ? FARCALL_VEO_TEST_KERNELS_DEBUG
                                             : FARCALL_VEO_TEST_KERNELS_PLAIN,
                               path, std::filesystem::copy_options::overwrite_existing);
    {
      const library library(path);
      const std::optional<signature> known = signature_of(library["same_real"]);
      EXPECT_EQ(known, turn % 2 == 0 ? std::optional(real_from_real) : std::nullopt);
    }
    close_debug_information();
  }
}

/// Writes a library with one function, `half`, at the same address for each type.
void write_half_of(const char* type, const std::filesystem::path& path) {
  const std::string source = path.string() + ".c";
  std::ofstream(source) << type << " half(" << type << " a) { return a / 2; }\n";
  const std::string command = std::string("\"") + FARCALL_VEO_TEST_COMPILER +
                              "\" -x c -g -O2 -fPIC -shared \"" + source + "\" -o \"" +
                              path.string() + "\"";
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
}

TEST(signature_of, library_that_is_removed_once_it_is_loaded) {
  const scratch_folder folder;
  const auto path = folder.path() / "libremoved.so";
  write_half_of("double", path);
  const library library(path);
  open_debug_information();
  std::filesystem::remove(path);
  EXPECT_EQ(signature_of(library["half"]), real_from_real);
}

TEST(signature_of, library_that_is_replaced_once_it_is_loaded) {
  const scratch_folder folder;
  const auto path = folder.path() / "libreplaced.so";
  const auto other = folder.path() / "libother.so";
  write_half_of("double", path);
  write_half_of("long", other);
  const library library(path);
  open_debug_information();
  std::filesystem::rename(other, path);
  EXPECT_EQ(signature_of(library["half"]), real_from_real);
}

// Only the superuser can open the removed file; types of the new file would be wrong.
TEST(signature_of, library_that_is_replaced_before_a_look) {
  const scratch_folder folder;
  const auto path = folder.path() / "libunseen.so";
  const auto other = folder.path() / "libother.so";
  write_half_of("double", path);
  write_half_of("long", other);
  const library library(path);
  std::filesystem::rename(other, path);
  const std::optional<signature> known = signature_of(library["half"]);
  EXPECT_EQ(known.value_or(real_from_real), real_from_real);
}

TEST(signature_of, library_that_is_removed_stays_known_while_others_go) {
  const scratch_folder folder;
  const auto path = folder.path() / "libstays.so";
  write_half_of("double", path);
  const library stays(path);
  {
    const library goes(FARCALL_VEO_TEST_KERNELS_DEBUG);
    open_debug_information();
  }
  std::filesystem::remove(path);
  close_debug_information();
  EXPECT_EQ(signature_of(stays["half"]), real_from_real);
}

TEST(signature_of, library_whose_split_debug_information_is_removed) {
  const scratch_folder folder;
  const auto path = folder.path() / "libsplit.so";
  const std::string command =
      "cd \"" + folder.path().string() + "\" && \"" + FARCALL_VEO_TEST_COMPILER +
      "\" -x c -g -gsplit-dwarf -O2 -fPIC -c \"" + FARCALL_VEO_TEST_KERNELS_SOURCE +
      "\" -o split.o && \"" + FARCALL_VEO_TEST_COMPILER + "\" -shared split.o -o libsplit.so";
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  ASSERT_TRUE(std::filesystem::exists(folder.path() / "split.dwo"));
  const library library(path);
  open_debug_information();
  std::filesystem::remove_all(folder.path());
  EXPECT_EQ(signature_of(library["half"]), real_from_real);
}

TEST(signature_of, library_with_a_relative_name_after_chdir) {
  const auto before = std::filesystem::current_path();
  const std::filesystem::path path(FARCALL_VEO_TEST_KERNELS_C);
  std::filesystem::current_path(path.parent_path());
  {
    const library c("./" + path.filename().string());
    std::filesystem::current_path("/");
    EXPECT_EQ(signature_of(c["half"]), real_from_real);
  }
  std::filesystem::current_path(before);
  close_debug_information();
}

/// Returns the debug sections of a library, which the loader does not read, so that tests can
/// damage them.
std::vector<std::span<char>> debug_sections(std::string& file) {
  ElfW(Ehdr) header;
  std::memcpy(&header, file.data(), sizeof header);
  const auto section = [&](std::size_t index) {
    ElfW(Shdr) found;
    std::memcpy(&found, file.data() + header.e_shoff + index * header.e_shentsize, sizeof found);
    return found;
  };
  const char* names = file.data() + section(header.e_shstrndx).sh_offset;
  std::vector<std::span<char>> found;
  for (std::size_t index = 0; index < header.e_shnum; ++index) {
    const auto one = section(index);
    if (std::string_view(names + one.sh_name).starts_with(".debug")) {
      found.emplace_back(file.data() + one.sh_offset, one.sh_size);
    }
  }
  return found;
}

// Any result is right; the test checks that there is one.
TEST(signature_of, damaged_libraries_does_no_harm) {
  const scratch_folder folder;
  std::ifstream original(FARCALL_VEO_TEST_KERNELS_C, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(original), {}};
  int unlike = 0;
  for (unsigned variant = 0; variant < 60; ++variant) {
    std::string damaged = bytes;
    const auto sections = debug_sections(damaged);
    ASSERT_GE(sections.size(), 3U);
    for (const std::span<char> section : sections) {
      for (std::size_t at = variant; at < section.size(); at += 60) {
        section[at] = static_cast<char>(static_cast<unsigned char>(section[at]) ^ (variant + 1));
      }
    }
    const auto path = folder.path() / ("lib" + std::to_string(variant) + ".so");
    std::ofstream(path, std::ios::binary) << damaged;
    {
      const library library(path);
      for (const char* name : {"odd_ones", "third", "opposite", "scaled"}) {
        static_cast<void>(signature_of(library[name]));
      }
      if (signature_of(library["half"]) != real_from_real) ++unlike;
    }
    close_debug_information();
  }
  EXPECT_GT(unlike, 0) << "nothing was damaged";
}

TEST(signature_of, functions_of_the_program) {
  const auto* code = reinterpret_cast<const void*>(&farcall_veo_signature_of_the_program);
  EXPECT_EQ(signature_of(code), (signature{real64, {sint32, real64}, false}));
}

#else

TEST(signature_of, anything_is_unknown_in_a_build_without_libdw) {
  const library c(FARCALL_VEO_TEST_KERNELS_C);
  EXPECT_EQ(signature_of(c["half"]), std::nullopt);
}

#endif

TEST(signature_of, libraries_without_debug_information) {
  const library plain(FARCALL_VEO_TEST_KERNELS_PLAIN);
  EXPECT_EQ(signature_of(plain["same_real"]), std::nullopt);
  const library lines(FARCALL_VEO_TEST_KERNELS_LINES);
  EXPECT_EQ(signature_of(lines["same_real"]), std::nullopt);
}

TEST(signature_of, addresses_without_code) {
  EXPECT_EQ(signature_of(nullptr), std::nullopt);
  EXPECT_EQ(signature_of(reinterpret_cast<const void*>(0x10)), std::nullopt);
  const int local = 0;
  EXPECT_EQ(signature_of(&local), std::nullopt);
}

} // namespace
} // namespace farcall::veo::signature_test
