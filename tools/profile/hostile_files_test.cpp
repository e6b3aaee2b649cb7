// SPDX-License-Identifier: Apache-2.0
#include "source_frames.hpp"
#include "symbolizer.hpp"
#include <tools/common/elf_file.hpp>

#include <tools/common/outcome.hpp>

#include <farcall/base/unique_fd.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/// Tests of program files that were made to harm their reader.
namespace farcall::tool {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

template <class T>
void append(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Writes an ELF file of sections only.
class elf_writer {
 public:
  elf_writer() { add("", SHT_NULL, {}); }

  /// Returns the section's index. `bytes`: its claimed size; 0 for the true one.
  std::uint32_t add(const std::string& name, std::uint32_t type, const std::string& content,
                    std::uint32_t link = 0, std::uint64_t bytes = 0) {
    const std::uint64_t at = sizeof(Elf64_Ehdr) + contents_.size();
    contents_ += content;
    add_at(name, type, at, bytes == 0 ? content.size() : bytes, link);
    return static_cast<std::uint32_t>(headers_.size() - 1);
  }
  /// Adds a section that shares the bytes of another one.
  void add_again(const std::string& name, std::uint32_t type, std::uint32_t other) {
    add_at(name, type, headers_[other].sh_offset, headers_[other].sh_size, 0);
  }
  /// Returns an unnamed file; `length` extends it by a hole.
  [[nodiscard]] unique_fd file(std::uint64_t length = 0) {
    const std::uint32_t names = add(".shstrtab", SHT_STRTAB, names_ + ".shstrtab" + '\0');
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_DYN;
#if defined(__aarch64__)
    header.e_machine = EM_AARCH64;
#elif defined(__riscv)
    header.e_machine = EM_RISCV;
#else
    header.e_machine = EM_X86_64;
#endif
    header.e_version = EV_CURRENT;
    header.e_ehsize = sizeof header;
    header.e_shentsize = sizeof(Elf64_Shdr);
    if (headers_.size() < SHN_LORESERVE) {
      header.e_shnum = static_cast<std::uint16_t>(headers_.size());
      header.e_shstrndx = static_cast<std::uint16_t>(names);
    } else {
      header.e_shstrndx = SHN_XINDEX;
      headers_[0].sh_size = headers_.size();
      headers_[0].sh_link = names;
    }
    contents_.resize((contents_.size() + 7) / 8 * 8);
    header.e_shoff = sizeof header + contents_.size();
    std::string all;
    append(all, header);
    all += contents_;
    for (const Elf64_Shdr& h : headers_)
      append(all, h);
    unique_fd made(::memfd_create("program", MFD_CLOEXEC));
    if (::write(made.get(), all.data(), all.size()) != static_cast<ssize_t>(all.size()) ||
        (length != 0 && ::ftruncate(made.get(), static_cast<off_t>(length)) != 0))
      throw failed_run("no memory file");
    return made;
  }

 private:
  void add_at(const std::string& name, std::uint32_t type, std::uint64_t at, std::uint64_t bytes,
              std::uint32_t link) {
    Elf64_Shdr h{};
    h.sh_name = static_cast<std::uint32_t>(names_.size());
    names_ += name + '\0';
    h.sh_type = type;
    h.sh_offset = at;
    h.sh_size = bytes;
    h.sh_link = link;
    headers_.push_back(h);
  }

  std::string names_;
  std::string contents_;
  std::vector<Elf64_Shdr> headers_;
};

std::string function_symbol(std::uint32_t name, std::uint64_t address) {
  Elf64_Sym made{};
  made.st_name = name;
  made.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  made.st_shndx = 1;
  made.st_value = address;
  made.st_size = 16;
  std::string bytes;
  append(bytes, made);
  return bytes;
}

std::string function_in(unique_fd file, std::uint64_t address) {
  const module_file module{"/no/such/file", std::move(file)};
  return symbolize(module, std::vector{address}).at(0).frames.back().function;
}

TEST(hostile_files, have_the_names_that_can_be_read) {
  elf_writer made;
  const std::uint32_t names = made.add(".strtab", SHT_STRTAB, std::string("\0work\0", 6));
  made.add(".symtab", SHT_SYMTAB, function_symbol(1, 0x1000), names);
  EXPECT_EQ(function_in(made.file(), 0x1008), "work");
}

TEST(hostile_files, take_no_memory_for_holes) {
  constexpr std::uint64_t much = std::uint64_t{1} << 40;
  elf_writer made;
  const std::uint32_t names = made.add(".strtab", SHT_STRTAB, std::string("\0work\0", 6), 0, much);
  made.add(".symtab", SHT_SYMTAB, function_symbol(1, 0x1000), names, much);
  EXPECT_EQ(function_in(made.file(much + (1 << 20)), 0x1008), "0x1008");
}

TEST(hostile_files, have_endless_names_truncated) {
  elf_writer made;
  std::string texts(1, '\0');
  texts.append(std::size_t{4} << 20, 'f');
  const std::uint32_t names = made.add(".strtab", SHT_STRTAB, texts);
  std::string symbols;
  for (std::uint32_t i = 0; i < 100; ++i)
    symbols += function_symbol(1 + i, 0x1000 + 16 * std::uint64_t{i});
  made.add(".symtab", SHT_SYMTAB, symbols, names);
  EXPECT_EQ(function_in(made.file(), 0x1000), std::string(elf_file::max_name, 'f'));
}

TEST(hostile_files, have_shared_sections_read_once) {
  // The notes would sum up to 40 GiB if each were read.
  elf_writer made;
  std::string notes;
  while (notes.size() < std::size_t{1} << 20) {
    append(notes, Elf64_Nhdr{.n_namesz = 4, .n_descsz = 0, .n_type = 7});
    notes += std::string("GNU\0", 4);
  }
  const std::uint32_t first = made.add(".note", SHT_NOTE, notes);
  for (int i = 0; i < 20'000; ++i) {
    made.add_again(".note", SHT_NOTE, first);
    made.add_again(".gnu_debuglink", SHT_PROGBITS, first);
  }
  const unique_fd file = made.file();
  const elf_file read(file.get());
  EXPECT_TRUE(read.is_valid());
  EXPECT_THAT(read.build_id(), IsEmpty());
}

// ---- debug information --------------------------------------------------------------------------

/// Returns a file with one unit, at 0x1000 to 0x2000, whose rest is in another file.
elf_writer with_rest_in(const std::string& file) {
  elf_writer made;
  // A skeleton unit: name and folder of the other file, start and size of the code.
  made.add(".debug_abbrev", SHT_PROGBITS,
           std::string("\x01\x4a\0\x76\x08\x1b\x08\x11\x01\x12\x07\0\0\0", 14));
  std::string unit;
  append(unit, std::uint16_t{5});
  unit += std::string("\x04\x08\0\0\0\0", 6);
  append(unit, std::uint64_t{1});
  unit += '\x01' + file + '\0' + "/" + '\0';
  append(unit, std::uint64_t{0x1000});
  append(unit, std::uint64_t{0x1000});
  std::string info;
  append(info, static_cast<std::uint32_t>(unit.size()));
  made.add(".debug_info", SHT_PROGBITS, info + unit);
  return made;
}

std::string why_ended(int file, std::chrono::milliseconds timeout) {
  const std::vector<std::uint64_t> addresses{0x1008};
  return read_source_frames_apart(
      file, addresses, [](std::size_t, const std::vector<source_frame>&) {}, timeout);
}

TEST(hostile_files, may_name_a_pipe_as_their_debug_information) {
  if (!reads_debug_information()) GTEST_SKIP() << "built without libdw";
  std::string folder = std::filesystem::temp_directory_path() / "farcall-test-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string pipe = folder + "/pipe";
  EXPECT_THAT(why_ended(with_rest_in(pipe).file().get(), std::chrono::minutes(1)), IsEmpty());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  // Opening the pipe blocks until a writer opens it.
  EXPECT_THAT(why_ended(with_rest_in(pipe).file().get(), std::chrono::milliseconds(200)),
              HasSubstr("too long"));
  std::filesystem::remove_all(folder);
}

} // namespace
} // namespace farcall::tool
