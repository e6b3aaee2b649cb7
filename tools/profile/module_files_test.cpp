// SPDX-License-Identifier: Apache-2.0
#include "modules.hpp"
#include "processes.hpp"
#include "symbolizer.hpp"

#include <tools/common/forked_process.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/// Tests which file a module's names come from.
namespace farcall::tool::module_files_test {
namespace {

namespace fs = std::filesystem;

std::string bytes_of(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void append_to(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::app) << bytes;
}

class module_files : public testing::Test {
 protected:
  ~module_files() override { fs::remove_all(folder_); }

  const fs::path& folder() const { return folder_; }
  static bool succeeds(const std::string& command) { return std::system(command.c_str()) == 0; }

 private:
  static fs::path made_folder() {
    std::string path = fs::temp_directory_path() / "module-files-XXXXXX";
    return ::mkdtemp(path.data());
  }
  fs::path folder_ = made_folder();
};

std::vector<std::uint64_t> offsets_in(const fs::path& path) {
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t offset = 0; offset < fs::file_size(path); offset += 4)
    offsets.push_back(offset);
  return offsets;
}

std::vector<symbol> symbols_of(const fs::path& path, const std::vector<std::uint64_t>& offsets) {
  const module_file module{path, unique_fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC))};
  return symbolize(module, offsets);
}

// ---- debug files --------------------------------------------------------------------------------

class debug_files : public module_files {
 protected:
  /// Splits the library into a stripped file and a debug file, which the stripped file names.
  fs::path parted(const std::string& debug_file, bool with_build_id) {
    const fs::path library = folder() / "library.so";
    const fs::path debug = folder() / debug_file;
    fs::create_directories(debug.parent_path());
    const std::string sections =
        with_build_id ? "" : "objcopy --remove-section=.note.gnu.build-id library.so && ";
    EXPECT_TRUE(succeeds(fmt::format(
        "cp '{0}' '{1}' && cd '{2}' && {3}objcopy --only-keep-debug library.so '{4}' && "
        "strip library.so && cd '{5}' && objcopy --add-gnu-debuglink='{6}' '{1}'",
        PROFILED_LIBRARY, library.string(), folder().string(), sections, debug.string(),
        debug.parent_path().string(), debug.filename().string())));
    return library;
  }
  /// True if a static function has its name, which is missing in the stripped library.
  static bool has_names(const fs::path& library) {
    return std::ranges::any_of(symbols_of(library, offsets_in(library)), [](const symbol& s) {
      return s.frames.back().function.find("static_work") != std::string::npos;
    });
  }
};

TEST_F(debug_files, may_have_the_name_of_the_program) {
  for (const bool with_build_id : {true, false})
    EXPECT_TRUE(has_names(parted(".debug/library.so", with_build_id))) << with_build_id;
}

TEST_F(debug_files, may_be_beside_the_program) {
  EXPECT_TRUE(has_names(parted("library.so.debug", true)));
}

TEST_F(debug_files, are_matched_by_checksum_without_build_ids) {
  const fs::path library = parted("library.debug", false);
  EXPECT_TRUE(has_names(library));
  append_to(folder() / "library.debug", "x");
  EXPECT_FALSE(has_names(library));
}

#if defined NESTED_FUNCTIONS
TEST_F(debug_files, have_functions_inlined_into_nested_functions) {
  const std::vector<std::uint64_t> all = offsets_in(NESTED_FUNCTIONS);
  const auto symbols = symbols_of(NESTED_FUNCTIONS, all);
  // Addresses in the nested function only.
  std::vector<std::uint64_t> nested;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (symbols[i].frames.back().function.starts_with("nested_work")) nested.push_back(all[i]);
  }
  ASSERT_FALSE(nested.empty());
  EXPECT_TRUE(std::ranges::any_of(symbols_of(NESTED_FUNCTIONS, nested), [](const symbol& s) {
    return s.frames.size() == 2 && s.frames[0].function == "inlined_step" &&
           s.frames[1].function.starts_with("nested_work");
  }));
}
#endif

// ---- names --------------------------------------------------------------------------------------

TEST(module_names, do_not_come_from_the_previous_section) {
  // The PLT follows _init(), which has no size.
  const auto symbols = symbols_of(PROFILED_LIBRARY, offsets_in(PROFILED_LIBRARY));
  const auto named = std::ranges::count_if(
      symbols, [](const symbol& s) { return s.frames.back().function == "_init"; });
  EXPECT_LE(named, 8);
}

std::string name_in(const fs::path& path, std::uint64_t offset) {
  return symbols_of(path, {offset}).front().frames.back().function;
}

#if defined(__x86_64__)
TEST(module_names, include_functions_called_by_plt_entries) {
  const auto symbols = symbols_of(PROFILED_LIBRARY, offsets_in(PROFILED_LIBRARY));
  const auto has = [&](const std::string& name) {
    return std::ranges::any_of(symbols,
                               [&](const symbol& s) { return s.frames.back().function == name; });
  };
  EXPECT_TRUE(has("__cxa_finalize@plt"));
  EXPECT_TRUE(has("std::terminate()@plt"));
}
#endif

/// Finds the library of a function, and the function's place in the file.
std::pair<fs::path, std::uint64_t> place_of(void* function) {
  std::pair<void*, std::pair<fs::path, std::uint64_t>> wanted;
  wanted.first = function;
  ::dl_iterate_phdr(
      [](dl_phdr_info* library, std::size_t, void* into) {
        auto& [code, found] = *static_cast<decltype(wanted)*>(into);
        for (int i = 0; i < library->dlpi_phnum; ++i) {
          const auto& s = library->dlpi_phdr[i];
          const auto at = reinterpret_cast<std::uintptr_t>(code) - library->dlpi_addr - s.p_vaddr;
          if (s.p_type == PT_LOAD && at < s.p_filesz) found = {library->dlpi_name, at + s.p_offset};
        }
        return 0;
      },
      &wanted);
  return wanted.second;
}

// The C library also names it __libc_free, and cfree for older programs.
TEST(module_names, prefer_what_programs_call) {
  // A sanitizer defines a function of that name in the program.
  void* const c_library = ::dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  ASSERT_NE(c_library, nullptr);
  const auto [library, offset] = place_of(::dlsym(c_library, "free"));
  ::dlclose(c_library);
  EXPECT_EQ(name_in(library, offset), "free");
}

TEST(module_names, come_from_the_map_of_compiled_code) {
  map_record code;
  code.start = 0x7f0000000000;
  code.bytes = 0x10000;
  code.path = "//anon";
  const std::string map = fmt::format("/tmp/perf-{}.map", ::getpid());
  fs::remove(map);
  modules files;
  const std::uint32_t place = files.add(::getpid(), code);
  ASSERT_NE(place, modules::none);
  EXPECT_EQ(files.all()[place].path, "");
  append_to(map, "7f0000000000 100 older\nno line of it\n7f0000000000 100 LazyCompile:~hot a.js:1\n"
                 "0x7f0000000200 10 next\n");
  files.look_for_perf_maps();
  fs::remove(map);
  const std::vector<std::uint64_t> addresses{0x7f00000000ff, 0x7f0000000100, 0x7f0000000200};
  const auto symbols = symbolize(files.all()[place], addresses);
  ASSERT_EQ(symbols.size(), 3U);
  EXPECT_EQ(symbols[0].frames[0].function, "LazyCompile:~hot a.js:1");
  EXPECT_EQ(symbols[1].frames[0].function, "0x7f0000000100");
  EXPECT_EQ(symbols[2].frames[0].function, "next");
}

// ---- programs that were replaced ----------------------------------------------------------------

/// Drops root's rights: the kernel shows root the files of all mappings.
void become_ordinary_user() {
  constexpr uid_t nobody = 65534;
  if (::getuid() == 0 && ::setresuid(nobody, nobody, nobody) != 0) ::_exit(9);
}

/// A process that runs a copy of /bin/sleep at the given path, as an ordinary user.
class sleeping_program {
 public:
  explicit sleeping_program(const fs::path& file) : file_(file) {
    fs::copy_file("/bin/sleep", file);
    pid_ = ::fork();
    if (pid_ == 0) {
      become_ordinary_user();
      ::execl(file.c_str(), "sleep", "600", nullptr);
      ::_exit(9);
    }
    while (program_of(pid_) != file.string() && ::waitpid(pid_, nullptr, WNOHANG) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~sleeping_program() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  sleeping_program(const sleeping_program&) = delete;
  sleeping_program& operator=(const sleeping_program&) = delete;

  pid_t pid() const { return pid_; }

 private:
  fs::path file_;
  pid_t pid_ = -1;
};

/// True if an ordinary user reads the program's module as a file of these bytes.
bool is_read_as(const sleeping_program& program, const std::string& bytes) {
  forked_process reader([&] {
    become_ordinary_user();
    const std::string path = program_of(program.pid());
    for (const map_record& mapping : mappings_of(program.pid())) {
      if (mapping.path != path) continue;
      modules files;
      const std::uint32_t place = files.add(program.pid(), mapping);
      const unique_fd& file = files.all()[place].file;
      return file && bytes_of(fmt::format("/proc/self/fd/{}", file.get())) == bytes ? 0 : 1;
    }
    return 2;
  });
  return reader.wait_until(std::chrono::steady_clock::now() + std::chrono::minutes(1)) &&
         reader.exit_status() == 0;
}

class replaced_programs : public module_files {
 protected:
  replaced_programs() { ::chmod(folder().c_str(), 0755); }
};

TEST_F(replaced_programs, are_read_as_they_run) {
  const fs::path file = folder() / "program";
  const sleeping_program program(file);
  const std::string bytes = bytes_of(file);
  EXPECT_TRUE(is_read_as(program, bytes));
  fs::copy_file(file, folder() / "new");
  append_to(folder() / "new", "x");
  fs::rename(folder() / "new", file);
  EXPECT_TRUE(is_read_as(program, bytes));
}

TEST_F(replaced_programs, are_read_though_they_were_deleted) {
  const fs::path file = folder() / "program";
  const sleeping_program program(file);
  const std::string bytes = bytes_of(file);
  fs::remove(file);
  EXPECT_TRUE(is_read_as(program, bytes));
}

} // namespace
} // namespace farcall::tool::module_files_test
