#pragma once

#include <farcall/call/pack.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

// What is done with files, here and by targets.

namespace farcall::tool {

enum class file_access : std::uint8_t { write, read, write_in_a_row, read_in_a_row, read_anywhere };

/// So many threads, each with a file of its own, "<path>.0" and so on, that is there already.
struct file_work {
  std::string path = {};
  file_access access = file_access::read;
  std::uint64_t record = 0; ///< bytes of one call
  std::uint64_t bytes = 0;  ///< of each file
  std::uint64_t calls = 0;  ///< of each thread
  std::uint64_t threads = 1;
};

/// Makes the files, full of words that say where they are.
void make_files(const file_work& work);

/// Does it, each word of the first and last of each record checked when it was read. Returns
/// nanoseconds from the first call to the last one's end, with fsync() and close() of what was
/// written. Throws failed_run.
double do_file_work(const file_work& work);

/// Throws failed_run unless all files are as make_files() and the writes of do_file_work() have
/// left them.
void check_files(const file_work& work);

} // namespace farcall::tool

template <>
struct farcall::packer<farcall::tool::file_work> {
  static void pack(writer& w, const tool::file_work& work) {
    w(work.path, static_cast<std::uint8_t>(work.access), work.record, work.bytes, work.calls,
      work.threads);
  }
  static tool::file_work unpack(reader& r) {
    tool::file_work work;
    work.path = r.read<std::string>();
    work.access = static_cast<tool::file_access>(r.read<std::uint8_t>());
    work.record = r.read<std::uint64_t>();
    work.bytes = r.read<std::uint64_t>();
    work.calls = r.read<std::uint64_t>();
    work.threads = r.read<std::uint64_t>();
    return work;
  }
};
