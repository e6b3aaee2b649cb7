// SPDX-License-Identifier: Apache-2.0

// The two processes of `farcall bench am2`: an AM-2 program that uses farcall only through am2.h.
// Process 0 reads the measurements from its standard input, a line each:
//
//     <figure> <bytes> <batches> <operations per batch>
//
// and replies with a line of nanoseconds per operation, one number per batch. Its first line has
// the ids of the two processes. Process 1 polls during a measurement, and otherwise sleeps.
#include <am2.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include <unistd.h>

namespace {

constexpr int measuring = 0;
constexpr int replying = 1;

enum handler : handler_t {
  end_request = 1,
  begin_measurement,
  end_measurement,
  make_segment,
  segment_made,
  replied,
  reply_short,
  reply_payload,
  count_short,
  say_count,
  counted,
};

/// Global, since AM-2 passes no object to handlers.
struct {
  eb_t bundle = nullptr;
  ep_t endpoint = nullptr;
  // State of the measuring process.
  std::uint64_t replies = 0;
  std::int32_t count_there = -1;
  bool has_segment_there = false;
  void* segment = nullptr;
  std::vector<std::byte> source{};
  // State of the other process.
  bool is_measured = false;
  bool is_over = false;
  std::size_t wanted_segment = 0;
  std::int32_t count = 0;
  // AM-2 passes no context to handlers.
} own; // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "farcall-bench-am2: %s\n", what);
  AMX_SPMDExit(1);
  std::abort();
}

void require(int status, const char* what) {
  if (status != AM_OK) give_up(what);
}

// ---- handlers ----------------------------------------------------------------------------------

void on_end_request(void* /*token*/) { own.is_over = true; }
void on_begin_measurement(void* token) {
  own.is_measured = true;
  own.count = 0;
  AM_Reply0(token, replied);
}
void on_end_measurement(void* token) {
  own.is_measured = false;
  AM_Reply0(token, replied);
}
void on_make_segment(void* /*token*/, std::int32_t kibibytes) {
  own.wanted_segment = static_cast<std::size_t>(kibibytes) * 1024;
}
void on_segment_made(void* /*token*/) { own.has_segment_there = true; }
void on_replied(void* /*token*/) { ++own.replies; }
void on_reply_short(void* token) { AM_Reply0(token, replied); }
void on_reply_payload(void* token, void* /*payload*/, std::size_t /*bytes*/) {
  AM_Reply0(token, replied);
}
void on_count_short(void* /*token*/) { ++own.count; }
void on_say_count(void* token) { AM_Reply1(token, counted, own.count); }
void on_counted(void* /*token*/, std::int32_t count) { own.count_there = count; }

void set_handlers() {
  AM_SetHandler(own.endpoint, end_request, on_end_request);
  AM_SetHandler(own.endpoint, begin_measurement, on_begin_measurement);
  AM_SetHandler(own.endpoint, end_measurement, on_end_measurement);
  AM_SetHandler(own.endpoint, make_segment, on_make_segment);
  AM_SetHandler(own.endpoint, segment_made, on_segment_made);
  AM_SetHandler(own.endpoint, replied, on_replied);
  AM_SetHandler(own.endpoint, reply_short, on_reply_short);
  AM_SetHandler(own.endpoint, reply_payload, on_reply_payload);
  AM_SetHandler(own.endpoint, count_short, on_count_short);
  AM_SetHandler(own.endpoint, say_count, on_say_count);
  AM_SetHandler(own.endpoint, counted, on_counted);
}

// ---- the process that replies -------------------------------------------------------------------

/// Returns touched memory, the destination of long requests.
void* new_segment(std::size_t bytes) {
  void* const memory = AM2_AllocateSegment(bytes);
  if (memory == nullptr) give_up("no memory for a segment");
  std::memset(memory, 1, bytes);
  return memory;
}

void reply() {
  AM_SetEventMask(own.bundle, AM_NOTEMPTY);
  while (!own.is_over) {
    if (own.is_measured) {
      AM_Poll(own.bundle);
    } else {
      AM_WaitSema(own.bundle);
    }
    if (own.wanted_segment != 0) {
      AM_SetSeg(own.endpoint, new_segment(own.wanted_segment), own.wanted_segment);
      own.wanted_segment = 0;
      require(AM_Request0(own.endpoint, measuring, segment_made), "cannot reply");
    }
  }
}

// ---- the process that measures -----------------------------------------------------------------

void wait_for(std::uint64_t replies) {
  while (own.replies != replies)
    AM_Poll(own.bundle);
}

/// Sends a short request and waits for its reply.
void ask(handler h) {
  const std::uint64_t all = own.replies + 1;
  require(AM_Request0(own.endpoint, replying, h), "cannot send a request");
  wait_for(all);
}

void send_medium(std::size_t bytes) {
  require(AM_RequestI0(own.endpoint, replying, reply_payload, own.source.data(), bytes),
          "cannot send a medium request");
}
void send_long(std::size_t bytes) {
  require(AM_RequestXfer0(own.endpoint, replying, 0, reply_payload, own.source.data(), bytes),
          "cannot send a long request");
}

void short_round_trips(std::size_t /*bytes*/, std::size_t operations) {
  for (; operations != 0; --operations)
    ask(reply_short);
}
void medium_round_trips(std::size_t bytes, std::size_t operations) {
  for (; operations != 0; --operations) {
    const std::uint64_t all = own.replies + 1;
    send_medium(bytes);
    wait_for(all);
  }
}
void long_round_trips(std::size_t bytes, std::size_t operations) {
  for (; operations != 0; --operations) {
    const std::uint64_t all = own.replies + 1;
    send_long(bytes);
    wait_for(all);
  }
}
void pipelined_shorts(std::size_t /*bytes*/, std::size_t operations) {
  const std::uint64_t all = own.replies + operations;
  for (; operations != 0; --operations)
    require(AM_Request0(own.endpoint, replying, reply_short), "cannot send a request");
  wait_for(all);
}
/// Waits until all requests have been handled, by a final one that asks for their count: AM-2
/// guarantees no order.
void one_way_shorts(std::size_t /*bytes*/, std::size_t operations) {
  static std::int32_t sent = 0;
  // The other process counts from 0 in each measurement, so restart with its first batch.
  if (own.count_there < 0) sent = 0;
  sent += static_cast<std::int32_t>(operations);
  for (; operations != 0; --operations)
    require(AM_Request0(own.endpoint, replying, count_short), "cannot send a request");
  do {
    own.count_there = -1;
    require(AM_Request0(own.endpoint, replying, say_count), "cannot send a request");
    while (own.count_there < 0)
      AM_Poll(own.bundle);
  } while (own.count_there != sent);
}
void medium_stream(std::size_t bytes, std::size_t operations) {
  const std::uint64_t all = own.replies + operations;
  for (; operations != 0; --operations)
    send_medium(bytes);
  wait_for(all);
}
void long_stream(std::size_t bytes, std::size_t operations) {
  const std::uint64_t all = own.replies + operations;
  for (; operations != 0; --operations)
    send_long(bytes);
  wait_for(all);
}
/// Measures copies of a long request's bytes within this process, between memory of the same kinds.
void copies(std::size_t bytes, std::size_t operations) {
  for (; operations != 0; --operations) {
    std::memcpy(own.segment, own.source.data(), bytes);
    asm volatile("" ::: "memory"); // prevents removal of the copies
  }
}

struct figure {
  std::string_view name;
  void (*batch)(std::size_t bytes, std::size_t operations);
};
constexpr std::array figures{
    figure{"short", short_round_trips}, figure{"medium", medium_round_trips},
    figure{"long", long_round_trips},   figure{"pipelined", pipelined_shorts},
    figure{"one_way", one_way_shorts},  figure{"medium_stream", medium_stream},
    figure{"long_stream", long_stream}, figure{"memcpy", copies},
};

/// Enlarges the buffers of both sides to at least that size.
void reserve(std::size_t bytes) {
  if (own.source.size() >= bytes) return;
  own.source.resize(bytes);
  std::memset(own.source.data(), 2, bytes);
  AM2_FreeSegment(own.segment);
  own.segment = new_segment(bytes);
  own.has_segment_there = false;
  const auto kibibytes = static_cast<std::int32_t>((bytes + 1023) / 1024);
  require(AM_Request1(own.endpoint, replying, make_segment, kibibytes), "cannot ask for memory");
  while (!own.has_segment_there)
    AM_Poll(own.bundle);
}

void measure(const figure& f, std::size_t bytes, std::size_t batches, std::size_t operations) {
  using clock = std::chrono::steady_clock;
  reserve(bytes);
  std::vector<double> samples(batches);
  ask(begin_measurement);
  own.count_there = -1;
  const std::size_t warm_up = std::min<std::size_t>(batches / 4 + 2, 20);
  for (std::size_t i = 0; i < warm_up; ++i)
    f.batch(bytes, operations);
  for (double& sample : samples) {
    const auto start = clock::now();
    f.batch(bytes, operations);
    const std::chrono::duration<double, std::nano> took = clock::now() - start;
    sample = took.count() / static_cast<double>(operations);
  }
  ask(end_measurement);
  for (const double sample : samples)
    std::printf("%.3f ", sample);
  std::printf("\n");
}

void take_commands() {
  std::array<char, 256> line{};
  while (std::fgets(line.data(), line.size(), stdin) != nullptr) {
    std::array<char, 32> name{};
    std::size_t bytes = 0;
    std::size_t batches = 0;
    std::size_t operations = 0;
    if (std::sscanf(line.data(), "%31s %zu %zu %zu", name.data(), &bytes, &batches, &operations) !=
        4)
      give_up("a command that is none");
    const auto* const f = std::find_if(figures.begin(), figures.end(),
                                       [&](const figure& g) { return g.name == name.data(); });
    if (f == figures.end()) give_up("there is no such figure");
    measure(*f, bytes, batches, operations);
    std::fflush(stdout);
  }
}

} // namespace

int main(int argc, char** argv) {
  if (AMX_SPMDStartup(&argc, &argv, 0, nullptr, &own.bundle, &own.endpoint) != AM_OK) return 1;
  set_handlers();
  const pid_t pid = getpid();
  std::array<pid_t, 2> pids{};
  if (AMX_SPMDNumProcs() != 2) give_up("this is for two processes, which farcall bench am2 starts");
  require(AMX_SPMDAllGather(const_cast<pid_t*>(&pid), pids.data(), sizeof pid), "cannot begin");
  AMX_SPMDBarrier();
  if (AMX_SPMDMyProc() == replying) {
    reply();
  } else {
    std::printf("%d %d\n", int{pids[0]}, int{pids[1]});
    std::fflush(stdout);
    take_commands();
    require(AM_Request0(own.endpoint, replying, end_request), "cannot end");
  }
  AMX_SPMDBarrier();
  AMX_SPMDExit(0);
  return 1;
}
