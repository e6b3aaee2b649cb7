// The two processes of `farcall bench am2`: an AM-2 program, which knows of farcall only what am2.h
// says. Process 0 reads what to measure from its standard input, a line each:
//
//     <figure> <bytes> <batches> <operations per batch>
//
// and answers with a line of nanoseconds per operation, one number per batch. Its first line has
// the numbers of the two processes. Process 1 polls during a measurement, and else sleeps.
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
constexpr int answering = 1;

enum handler : handler_t {
  end_request = 1,
  begin_measurement,
  end_measurement,
  make_segment,
  segment_made,
  replied,
  answer_short,
  answer_payload,
  count_short,
  say_count,
  counted,
};

/// Handlers get no object.
struct {
  eb_t bundle = nullptr;
  ep_t endpoint = nullptr;
  // Of the process that measures.
  std::uint64_t replies = 0;
  std::int32_t count_there = -1;
  bool has_segment_there = false;
  void* segment = nullptr;
  std::vector<std::byte> source{};
  // Of the other.
  bool is_measured = false;
  bool is_over = false;
  std::size_t wanted_segment = 0;
  std::int32_t count = 0;
  // Handlers of AM-2 are given no context.
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
void on_answer_short(void* token) { AM_Reply0(token, replied); }
void on_answer_payload(void* token, void* /*payload*/, std::size_t /*bytes*/) {
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
  AM_SetHandler(own.endpoint, answer_short, on_answer_short);
  AM_SetHandler(own.endpoint, answer_payload, on_answer_payload);
  AM_SetHandler(own.endpoint, count_short, on_count_short);
  AM_SetHandler(own.endpoint, say_count, on_say_count);
  AM_SetHandler(own.endpoint, counted, on_counted);
}

// ---- the process that answers ------------------------------------------------------------------

/// Memory that longs are copied into, touched.
void* new_segment(std::size_t bytes) {
  void* const memory = AM2_AllocateSegment(bytes);
  if (memory == nullptr) give_up("no memory for a segment");
  std::memset(memory, 1, bytes);
  return memory;
}

void answer() {
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
      require(AM_Request0(own.endpoint, measuring, segment_made), "cannot answer");
    }
  }
}

// ---- the process that measures -----------------------------------------------------------------

void wait_for(std::uint64_t replies) {
  while (own.replies != replies)
    AM_Poll(own.bundle);
}

/// A short request, and its reply.
void ask(handler h) {
  const std::uint64_t all = own.replies + 1;
  require(AM_Request0(own.endpoint, answering, h), "cannot send a request");
  wait_for(all);
}

void send_medium(std::size_t bytes) {
  require(AM_RequestI0(own.endpoint, answering, answer_payload, own.source.data(), bytes),
          "cannot send a medium request");
}
void send_long(std::size_t bytes) {
  require(AM_RequestXfer0(own.endpoint, answering, 0, answer_payload, own.source.data(), bytes),
          "cannot send a long request");
}

void short_round_trips(std::size_t /*bytes*/, std::size_t operations) {
  for (; operations != 0; --operations)
    ask(answer_short);
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
    require(AM_Request0(own.endpoint, answering, answer_short), "cannot send a request");
  wait_for(all);
}
/// Until all have been handled, which the last one asks for; AM-2 promises no order.
void one_way_shorts(std::size_t /*bytes*/, std::size_t operations) {
  static std::int32_t sent = 0;
  // The other process begins each measurement at 0, and so does the count of a first batch.
  if (own.count_there < 0) sent = 0;
  sent += static_cast<std::int32_t>(operations);
  for (; operations != 0; --operations)
    require(AM_Request0(own.endpoint, answering, count_short), "cannot send a request");
  do {
    own.count_there = -1;
    require(AM_Request0(own.endpoint, answering, say_count), "cannot send a request");
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
/// What a long's bytes take within a process, between memory of the same kinds.
void copies(std::size_t bytes, std::size_t operations) {
  for (; operations != 0; --operations) {
    std::memcpy(own.segment, own.source.data(), bytes);
    asm volatile("" ::: "memory"); // each is made
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

/// Buffers of at least that size, on both sides.
void reserve(std::size_t bytes) {
  if (own.source.size() >= bytes) return;
  own.source.resize(bytes);
  std::memset(own.source.data(), 2, bytes);
  AM2_FreeSegment(own.segment);
  own.segment = new_segment(bytes);
  own.has_segment_there = false;
  const auto kibibytes = static_cast<std::int32_t>((bytes + 1023) / 1024);
  require(AM_Request1(own.endpoint, answering, make_segment, kibibytes), "cannot ask for memory");
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
  if (AMX_SPMDMyProc() == answering) {
    answer();
  } else {
    std::printf("%d %d\n", int{pids[0]}, int{pids[1]});
    std::fflush(stdout);
    take_commands();
    require(AM_Request0(own.endpoint, answering, end_request), "cannot end");
  }
  AMX_SPMDBarrier();
  AMX_SPMDExit(0);
  return 1;
}
