// SPDX-License-Identifier: Apache-2.0
#include "perf_record.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include <linux/perf_event.h>

namespace farcall::tool {

namespace {

/// Takes values from the beginning of a record. If the record has too few bytes left, a value is 0,
/// and is_whole() becomes false.
class record_reader {
 public:
  explicit record_reader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <class T>
  T take() {
    T value{};
    const auto from = take_bytes(sizeof value);
    if (!from.empty()) std::memcpy(&value, from.data(), sizeof value);
    return value;
  }

  std::span<const std::byte> take_bytes(std::uint64_t count) {
    if (count > left_.size()) {
      is_whole_ = false;
      left_ = {};
      return {};
    }
    const auto taken = left_.first(static_cast<std::size_t>(count));
    left_ = left_.subspan(static_cast<std::size_t>(count));
    return taken;
  }

  std::vector<std::uint64_t> take_values(std::uint64_t count) {
    if (count > left_.size() / sizeof(std::uint64_t)) {
      is_whole_ = false;
      return {};
    }
    std::vector<std::uint64_t> values(static_cast<std::size_t>(count));
    const auto from = take_bytes(count * sizeof(std::uint64_t));
    if (!values.empty()) std::memcpy(values.data(), from.data(), from.size());
    return values;
  }

  /// Returns the text up to the first zero byte, or up to the end of the record.
  std::string take_text() {
    const std::string_view text(reinterpret_cast<const char*>(left_.data()), left_.size());
    return std::string(text.substr(0, text.find('\0')));
  }

  [[nodiscard]] bool is_whole() const { return is_whole_; }

 private:
  std::span<const std::byte> left_;
  bool is_whole_ = true;
};

/// True if the address is a mark, by which the kernel says of what kind the following addresses
/// are.
bool is_marker(std::uint64_t address) { return address >= std::uint64_t{PERF_CONTEXT_MAX}; }

sample_record read_sample(record_reader& from, const sample_layout& layout, perf_record& into) {
  sample_record sample;
  into.event = from.take<std::uint64_t>();
  const auto instruction = from.take<std::uint64_t>();
  into.process = from.take<std::int32_t>();
  into.thread = from.take<std::int32_t>();
  into.time = from.take<std::uint64_t>();
  if (layout.has_callers) {
    sample.addresses = from.take_values(from.take<std::uint64_t>());
    std::erase_if(sample.addresses, is_marker);
  }
  if (sample.addresses.empty()) sample.addresses.push_back(instruction);
  if (layout.has_stack) {
    if (from.take<std::uint64_t>() != PERF_SAMPLE_REGS_ABI_NONE)
      sample.registers = from.take_values(layout.registers);
    if (const auto size = from.take<std::uint64_t>(); size != 0) {
      const auto copy = from.take_bytes(size);
      const auto used = std::min<std::uint64_t>(from.take<std::uint64_t>(), copy.size());
      sample.stack.assign(copy.begin(), copy.begin() + static_cast<std::ptrdiff_t>(used));
    }
  }
  return sample;
}

map_record read_map(record_reader& from, perf_record& into) {
  map_record map;
  into.process = from.take<std::int32_t>();
  into.thread = from.take<std::int32_t>();
  map.start = from.take<std::uint64_t>();
  map.bytes = from.take<std::uint64_t>();
  map.file_offset = from.take<std::uint64_t>();
  const auto major = from.take<std::uint32_t>();
  const auto minor = from.take<std::uint32_t>();
  map.device = std::uint64_t{major} << 32 | minor;
  map.inode = from.take<std::uint64_t>();
  from.take_bytes(16); // inode generation, protection and flags
  map.path = from.take_text();
  return map;
}

fork_record read_fork(record_reader& from, perf_record& into) {
  fork_record made;
  into.process = from.take<std::int32_t>();
  made.parent_process = from.take<std::int32_t>();
  into.thread = from.take<std::int32_t>();
  made.parent_thread = from.take<std::int32_t>();
  return made;
}

} // namespace

bool read_record(std::span<const std::byte> bytes, const sample_layout& layout, perf_record& into) {
  perf_event_header header{};
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.size < sizeof header || header.size > bytes.size()) return false;
  std::span<const std::byte> body = bytes.first(header.size).subspan(sizeof header);
  into = {};
  if (header.type == PERF_RECORD_SAMPLE) {
    record_reader from(body);
    into.what = read_sample(from, layout, into);
    return from.is_whole();
  }
  // Each record that is no sample ends with these fields: process, thread, time and event.
  constexpr std::size_t trailer_bytes = 24;
  if (body.size() < trailer_bytes) return false;
  record_reader trailer(body.last(trailer_bytes));
  body = body.first(body.size() - trailer_bytes);
  record_reader from(body);
  into.process = trailer.take<std::int32_t>();
  into.thread = trailer.take<std::int32_t>();
  into.time = trailer.take<std::uint64_t>();
  into.event = trailer.take<std::uint64_t>();
  switch (header.type) {
  case PERF_RECORD_MMAP2:
    into.what = read_map(from, into);
    return from.is_whole();
  case PERF_RECORD_COMM: {
    into.process = from.take<std::int32_t>();
    into.thread = from.take<std::int32_t>();
    const bool is_exec = (header.misc & PERF_RECORD_MISC_COMM_EXEC) != 0;
    into.what = name_record{from.take_text(), is_exec};
    return from.is_whole();
  }
  case PERF_RECORD_FORK:
    into.what = read_fork(from, into);
    return from.is_whole();
  case PERF_RECORD_EXIT:
    (void)read_fork(from, into);
    into.what = exit_record{};
    return from.is_whole();
  case PERF_RECORD_LOST:
    from.take<std::uint64_t>(); // skips the event's id, which the trailer has too
    into.what = lost_record{from.take<std::uint64_t>()};
    return from.is_whole();
  case PERF_RECORD_THROTTLE:
    into.what = throttle_record{};
    return true;
  default:
    return false;
  }
}

} // namespace farcall::tool
