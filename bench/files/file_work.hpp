// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/call/pack.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

// Operations on files, by the host and by targets.

namespace farcall::tool {

enum class file_access : std::uint8_t {
  write,
  read,
  read_again, ///< like read, of bytes that the system has cached if it can
  write_in_a_row,
  read_in_a_row,
  read_anywhere,
};

/// The work of `threads` threads, each on its own existing file, "<path>.0" and so on.
struct file_work {
  std::string path = {};
  file_access access = file_access::read;
  std::uint64_t record = 0; ///< bytes per call
  std::uint64_t bytes = 0;  ///< bytes of each file
  std::uint64_t calls = 0;  ///< calls of each thread
  std::uint64_t threads = 1;
  /// Drops what the system has cached of the file before it is read.
  bool drops_cache = false;
};

/// Creates the files, filled with words that encode their position.
void make_files(const file_work& work);

/// Does the work, checking the first and last word of each record that is read. Returns nanoseconds
/// from the first call to the end of the last one, including fsync() and close() of written files.
/// Throws failed_run.
double do_file_work(const file_work& work);

/// Does the work like do_file_work(), but copies each byte twice, between the file, a buffer of
/// 1 MiB and the record. This is what a reader or writer in another process needs at least. At
/// least two threads copy, each with a buffer of its own, because two processes would have two
/// processors. Returns nanoseconds. Throws failed_run.
double do_copied_work(const file_work& work);

/// True if the path is below a mount by FUSE.
bool is_fuse_mount(const std::string& path);

/// Throws failed_run if a file differs from what make_files() and the writes of do_file_work()
/// leave.
void check_files(const file_work& work);

} // namespace farcall::tool

template <>
struct farcall::packer<farcall::tool::file_work> {
  static void pack(writer& w, const tool::file_work& work) {
    w(work.path, static_cast<std::uint8_t>(work.access), work.record, work.bytes, work.calls,
      work.threads, work.drops_cache);
  }
  static tool::file_work unpack(reader& r) {
    tool::file_work work;
    work.path = r.read<std::string>();
    work.access = static_cast<tool::file_access>(r.read<std::uint8_t>());
    work.record = r.read<std::uint64_t>();
    work.bytes = r.read<std::uint64_t>();
    work.calls = r.read<std::uint64_t>();
    work.threads = r.read<std::uint64_t>();
    work.drops_cache = r.read<bool>();
    return work;
  }
};
