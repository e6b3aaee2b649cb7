// SPDX-License-Identifier: Apache-2.0
#include "gzip.hpp"

#include <array>
#include <cstddef>
#include <new>

#include <zlib.h>

namespace farcall::tool {

namespace {

constexpr int window_bits = 15;
constexpr int gzip_header = 16;
constexpr int memory_level = 8;
constexpr std::size_t max_at_once = std::size_t{1} << 30U; // zlib counts in 32 bits

/// RAII: ends the stream.
class deflate_stream {
 public:
  deflate_stream() {
    if (deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, window_bits + gzip_header,
                     memory_level, Z_DEFAULT_STRATEGY) != Z_OK)
      throw std::bad_alloc();
  }
  ~deflate_stream() { (void)deflateEnd(&stream_); }
  deflate_stream(const deflate_stream&) = delete;
  deflate_stream& operator=(const deflate_stream&) = delete;
  deflate_stream(deflate_stream&&) = delete;
  deflate_stream& operator=(deflate_stream&&) = delete;

  void add(std::string& out, std::string_view bytes, bool is_last) {
    std::array<char, 65536> part{};
    // Remove const, because zlib declares its input non-const, although it does not change it.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(part.data());
      stream_.avail_out = static_cast<uInt>(part.size());
      (void)deflate(&stream_, is_last ? Z_FINISH : Z_NO_FLUSH);
      out.append(part.data(), part.size() - stream_.avail_out);
    } while (stream_.avail_out == 0);
  }

 private:
  z_stream stream_{};
};

} // namespace

std::string gzip_compressed(std::string_view bytes) {
  deflate_stream stream;
  std::string out;
  bool is_last = false;
  while (!is_last) {
    const std::string_view part = bytes.substr(0, max_at_once);
    bytes.remove_prefix(part.size());
    is_last = bytes.empty();
    stream.add(out, part, is_last);
  }
  return out;
}

} // namespace farcall::tool
