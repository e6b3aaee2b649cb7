// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/byte_stream.hpp>
#include <farcall/trace/batch.hpp>

#include <cstring>
#include <utility>

namespace farcall::trace {
namespace {

constexpr const char* what = "a batch of events";

/// Reads a count and that many rows. Each row takes at least one byte of the input. A wrong count
/// therefore exceeds the input before it can allocate much memory.
template <class Read>
void read_each(byte_reader& r, const Read& read) {
  for (auto left = r.number<std::uint32_t>(); left != 0; --left)
    read();
}

template <class Rows>
void write_count(byte_writer& w, const Rows& rows) {
  w.number(static_cast<std::uint32_t>(rows.size()));
}

void write_short(byte_writer& w, const std::string& text) {
  w.text(text.substr(0, byte_reader::max_text));
}

void encode_thread(byte_writer& w, const thread_events& t) {
  w.number(t.thread);
  w.number(t.process_thread);
  write_short(w, t.name);
  w.number(t.missed);
  w.block(std::as_bytes(std::span(t.events)));
}

thread_events decode_thread(byte_reader& r) {
  thread_events t;
  t.thread = r.number<std::uint32_t>();
  t.process_thread = r.number<std::int64_t>();
  t.name = r.text();
  t.missed = r.number<std::uint64_t>();
  const std::span<const std::byte> bytes = r.block();
  if (bytes.size() % sizeof(event) != 0)
    throw malformed_message(std::string(what) + " is cut short");
  t.events.resize(bytes.size() / sizeof(event));
  if (!bytes.empty()) std::memcpy(t.events.data(), bytes.data(), bytes.size());
  for (const event& e : t.events) {
    if (e.kind() < event_kind::call_begin || e.kind() > last_event_kind)
      throw malformed_message(std::string(what) + " holds an event of no known kind");
  }
  return t;
}

} // namespace

std::vector<std::byte> encode(const batch& b) {
  byte_writer w;
  w.number(b.node);
  w.number(b.process);
  w.number(static_cast<std::uint8_t>(b.source));
  w.number(b.ticks_per_second);
  write_count(w, b.clocks);
  for (const clock_sample& c : b.clocks)
    w.number(c);
  write_count(w, b.functions);
  for (const function_name& f : b.functions) {
    w.number(f.key);
    w.number(f.handle);
    write_short(w, f.name);
  }
  write_count(w, b.events.lanes);
  for (const lane_description& l : b.events.lanes) {
    w.number(l.number);
    w.number(l.peer);
    w.number(std::uint8_t{l.is_caller});
    w.number(l.peers_number);
  }
  w.number(b.events.first_range);
  write_count(w, b.events.ranges);
  for (const std::string& name : b.events.ranges)
    write_short(w, name);
  write_count(w, b.events.threads);
  for (const thread_events& t : b.events.threads)
    encode_thread(w, t);
  return std::move(w).bytes();
}

batch decode_batch(std::span<const std::byte> bytes) {
  byte_reader r(bytes, what);
  batch b;
  b.node = r.number<node_id>();
  b.process = r.number<std::int64_t>();
  b.source =
      r.number<std::uint8_t>() == 0 ? tick_source::steady_clock : tick_source::processor_counter;
  b.ticks_per_second = r.number<double>();
  read_each(r, [&] { b.clocks.push_back(r.number<clock_sample>()); });
  read_each(r, [&] {
    function_name& f = b.functions.emplace_back();
    f.key = r.number<std::uint32_t>();
    f.handle = r.number<std::uint32_t>();
    f.name = r.text();
  });
  read_each(r, [&] {
    lane_description& l = b.events.lanes.emplace_back();
    l.number = r.number<std::uint32_t>();
    l.peer = r.number<node_id>();
    l.is_caller = r.number<std::uint8_t>() != 0;
    l.peers_number = r.number<std::uint32_t>();
  });
  b.events.first_range = r.number<std::uint32_t>();
  read_each(r, [&] { b.events.ranges.push_back(r.text()); });
  read_each(r, [&] { b.events.threads.push_back(decode_thread(r)); });
  if (!r.empty()) throw malformed_message(std::string(what) + " is followed by other bytes");
  return b;
}

} // namespace farcall::trace
