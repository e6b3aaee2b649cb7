/* SPDX-License-Identifier: Apache-2.0 */

/* A job of several processes, with the headers of AMUDP or AMMPI, which a macro selects. The first
   argument selects the test. Process 0 prints "all good" at the end. */
#if defined(AMUDP)
#include <amudp.h>
#include <amudp_spmd.h>
#else
#include <ammpi.h>
#include <ammpi_spmd.h>
#endif

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "process %d, line %d: not so: %s\n", me, __LINE__, #condition);              \
      AMX_SPMDExit(9);                                                                             \
    }                                                                                              \
  } while (0)
#define OK(call) CHECK((call) == AM_OK)

enum {
  on_add = 1,
  on_added,
  on_medium,
  on_medium_back,
  on_long,
  on_long_back,
  on_count,
  on_got,
  on_ask,
  on_reply,
  on_bytes,
  on_bytes_back,
  on_tell,
  on_ask_in_vain,
  on_huge,
  on_huge_back,
  on_untouched,
  on_taken,
  on_forbidden,
  on_nothing
};
enum { segment_bytes = 3 << 20, long_bytes = 1 << 20 };

static int me, all;
static eb_t eb;
static ep_t ep;
static unsigned char* segment;
static int64_t sum, replies, received, returned_count, returned_status, returned_op;
static const unsigned char* sent;

static unsigned char pattern(size_t i, int from) { return (unsigned char)(i * 131 + (size_t)from); }

static void add(void* token, int32_t value) {
  sum += value;
  OK(AM_Reply1(token, on_added, value));
}
static void added(void* token, int32_t value) {
  (void)token;
  replies += value;
}
static void medium(void* token, void* buf, size_t nbytes, int32_t from) {
  int id;
  size_t i;
  OK(AMX_GetSourceId(token, &id));
  CHECK(id == from);
  CHECK((uintptr_t)buf % 8 == 0);
  for (i = 0; i < nbytes; ++i)
    CHECK(((unsigned char*)buf)[i] == pattern(i, from));
  OK(AM_ReplyI0(token, on_medium_back, buf, nbytes));
}
static void medium_back(void* token, void* buf, size_t nbytes) {
  (void)token;
  CHECK(memcmp(buf, sent, nbytes) == 0);
  ++replies;
}
static void at_long(void* token, void* buf, size_t nbytes, int32_t from, int32_t offset) {
  size_t i;
  CHECK(buf == segment + offset);
  for (i = 0; i < nbytes; i += 97)
    CHECK(((unsigned char*)buf)[i] == pattern(i, from));
  OK(AM_ReplyXfer1(token, 2 * long_bytes, on_long_back, buf, nbytes, (int32_t)nbytes));
}
static void long_back(void* token, void* buf, size_t nbytes, int32_t n) {
  (void)token;
  CHECK(buf == segment + 2 * long_bytes && (int32_t)nbytes == n);
  CHECK(memcmp(buf, sent, nbytes) == 0);
  ++replies;
}
static void count(void* token, int32_t a, int32_t b, int32_t c, int32_t d) {
  (void)token;
  received += a + b + c + d;
}
static void got(void* token, void* buf, size_t nbytes, int32_t from) {
  size_t i;
  (void)token;
  for (i = 0; i < nbytes; ++i)
    CHECK(((unsigned char*)buf)[i] == pattern(i, from));
  ++replies;
}
static void came_back(int status, op_t opcode, void* token) {
  (void)token;
  ++returned_count;
  returned_status = status;
  returned_op = opcode;
}

static void poll_until(int64_t* what, int64_t value) {
  while (*what != value)
    OK(AM_Poll(eb));
}
static void sleep_until(int64_t* what, int64_t value) {
  while (*what != value) {
    OK(AM_SetEventMask(eb, AM_NOTEMPTY));
    OK(AM_WaitSema(eb));
    OK(AM_Poll(eb));
  }
}

/* Each process sends requests to all, including itself. */
static void shorts(int rounds, int sleeps) {
  int i, to;
  sum = replies = 0;
  OK(AMX_SPMDBarrier());
  for (i = 0; i < rounds; ++i)
    for (to = 0; to < all; ++to)
      OK(AM_Request1(ep, to, on_add, 2));
  if (sleeps) {
    sleep_until(&replies, (int64_t)2 * rounds * all);
  } else {
    poll_until(&replies, (int64_t)2 * rounds * all);
  }
  while (sum != (int64_t)2 * rounds * all)
    OK(AM_Poll(eb));
  OK(AMX_SPMDBarrier());
}

static void payloads(void) {
  static const size_t sizes[] = {0, 1, 7, 24, 25, 64, 88, 89, 500, 1100, 16000, 65000, 70001};
  unsigned char* from = (unsigned char*)malloc(long_bytes);
  size_t s, i;
  int to;
  for (i = 0; i < long_bytes; ++i)
    from[i] = pattern(i, me);
  sent = from;
  for (s = 0; s < sizeof sizes / sizeof sizes[0]; ++s) {
    for (to = 0; to < all; ++to) {
      replies = 0;
      OK(AM_RequestI1(ep, to, on_medium, from, sizes[s], me));
      poll_until(&replies, 1);
    }
  }
  OK(AMX_SPMDBarrier());
  for (s = 0; s <= sizeof sizes / sizeof sizes[0]; ++s) {
    const size_t n = s == sizeof sizes / sizeof sizes[0] ? long_bytes : sizes[s];
    for (to = 0; to < all; ++to) {
      /* One process at a time: all write to the same offset. */
      int turn;
      for (turn = 0; turn < all; ++turn) {
        OK(AMX_SPMDBarrier());
        if (turn != me) continue;
        replies = 0;
        OK(AM_RequestXfer2(ep, to, 128, on_long, from, n, me, 128));
        poll_until(&replies, 1);
      }
    }
  }
  OK(AMX_SPMDBarrier());
  for (i = 0; i < 5000; ++i)
    segment[i] = pattern(i, me);
  OK(AMX_SPMDBarrier());
  for (to = 0; to < all; ++to) {
    replies = 0;
    OK(AM_GetXfer1(ep, to, 0, on_got, 2 * long_bytes, 5000, to));
    poll_until(&replies, 1);
  }
  OK(AMX_SPMDBarrier());
  free(from);
}

/* After AM_SetSeg and a barrier, longs reach the new segment, and none reaches the old one. */
static void other_segment(void) {
  unsigned char *old = segment, *from = (unsigned char*)malloc(long_bytes);
  size_t i;
  int turn;
  for (i = 0; i < long_bytes; ++i)
    from[i] = pattern(i, me);
  sent = from;
  memset(old, 0, segment_bytes);
  segment = (unsigned char*)malloc(segment_bytes);
  OK(AM_SetSeg(ep, segment, segment_bytes));
  for (turn = 0; turn < all; ++turn) {
    OK(AMX_SPMDBarrier());
    if (turn != me) continue;
    replies = 0;
    OK(AM_RequestXfer2(ep, (me + 1) % all, 4096, on_long, from, 100000, me, 4096));
    poll_until(&replies, 1);
  }
  OK(AMX_SPMDBarrier());
  for (i = 0; i < segment_bytes; ++i)
    CHECK(old[i] == 0);
  free(from);
}

/* Requests without replies: their slots come back all the same. */
static void flood(int n) {
  int i;
  received = 0;
  OK(AMX_SPMDBarrier());
  for (i = 0; i < n; ++i)
    OK(AM_Request4(ep, (me + 1) % all, on_count, 1, 2, 3, 4));
  poll_until(&received, (int64_t)10 * n);
  OK(AMX_SPMDBarrier());
}

/* Compact messages between processes have statistics, hooks and returns like all others. */

enum { max_status = 32 };
static int returned_with[max_status], before_calls, after_calls;
static int64_t told;

static int next_process(void) { return (me + 1) % all; }
static int process_before(void) { return (me + all - 1) % all; }

static void came_back_with(int status, op_t opcode, void* token) {
  (void)opcode;
  (void)token;
  CHECK(status >= 0 && status < max_status);
  ++returned_with[status];
}
static void ask(void* token) { OK(AM_Reply0(token, on_reply)); }
static void count_reply(void* token) {
  (void)token;
  ++replies;
}
static void bytes(void* token, void* buf, size_t nbytes, int32_t value) {
  CHECK(nbytes == 0 || ((unsigned char*)buf)[nbytes - 1] == (unsigned char)value);
  OK(AM_ReplyI1(token, on_bytes_back, buf, nbytes, value));
}
static void bytes_back(void* token, void* buf, size_t nbytes, int32_t value) {
  (void)token;
  CHECK(nbytes == 0 || ((unsigned char*)buf)[nbytes - 1] == (unsigned char)value);
  ++replies;
}
static void tell(void* token, int32_t value) {
  (void)token;
  told += value;
}
static void ask_in_vain(void* token) {
  tag_t own;
  OK(AM_GetTranslationTag(ep, process_before(), &own));
  OK(AMX_SetTranslationTag(ep, process_before(), own + 1));
  OK(AM_Reply0(token, on_reply));
  OK(AMX_SetTranslationTag(ep, process_before(), own));
}
static void before_call(amx_category_t category, int is_request, int handler, void* token,
                        void* buf, size_t nbytes, int numargs, uint32_t* args) {
  (void)category, (void)is_request, (void)handler, (void)token;
  (void)buf, (void)nbytes, (void)numargs, (void)args;
  ++before_calls;
}
static void after_call(amx_category_t category, int is_request) {
  (void)category, (void)is_request;
  ++after_calls;
}

static void send_each_kind(int rounds) {
  unsigned char data[88];
  int i;
  memset(data, 7, sizeof data);
  replies = told = 0;
  OK(AMX_SPMDBarrier());
  for (i = 0; i < rounds; ++i) {
    OK(AM_Request0(ep, next_process(), on_ask));
    OK(AM_RequestI1(ep, next_process(), on_bytes, data, (size_t)(i % 89), 7));
    OK(AM_Request1(ep, next_process(), on_tell, 3));
  }
  while (replies != 2 * rounds || told != 3 * rounds)
    OK(AM_Poll(eb));
  OK(AMX_SPMDBarrier());
}

static void statistics(void) {
  enum { rounds = 500 };
  amx_stats_t s;
  int i, sizes = 0;
  OK(AMX_ResetEndpointStatistics(ep));
  send_each_kind(rounds);
  OK(AMX_GetEndpointStatistics(ep, &s));
  for (i = 0; i < rounds; ++i)
    sizes += i % 89 + 4;
  CHECK(s.requests_sent[0] == 2 * rounds && s.requests_received[0] == 2 * rounds);
  CHECK(s.requests_sent[1] == rounds && s.requests_received[1] == rounds);
  CHECK(s.replies_sent[0] == rounds && s.replies_received[0] == rounds);
  CHECK(s.replies_sent[1] == rounds && s.replies_received[1] == rounds);
  CHECK(s.bytes_sent[0] == 4 * rounds && s.bytes_sent[1] == (uint64_t)(2 * sizes));
}

static void hooks(void) {
  enum { rounds = 50 };
  before_calls = after_calls = 0;
  OK(AMX_SetHandlerCallbacks(ep, before_call, after_call));
  send_each_kind(rounds);
  OK(AMX_SetHandlerCallbacks(ep, NULL, NULL));
  /* Three requests, and replies to two of them. */
  CHECK(before_calls == 5 * rounds && after_calls == 5 * rounds);
}

static void returned(void) {
  unsigned char data[8] = {0};
  tag_t own;
  OK(AM_SetHandler(ep, 0, came_back_with));
  OK(AM_GetTranslationTag(ep, next_process(), &own));
  OK(AMX_SPMDBarrier());
  OK(AMX_SetTranslationTag(ep, next_process(), own + 1));
  OK(AM_Request0(ep, next_process(), on_ask));
  OK(AM_Request1(ep, next_process(), on_tell, 1));
  OK(AM_RequestI0(ep, next_process(), on_bytes, data, sizeof data));
  OK(AMX_SetTranslationTag(ep, next_process(), own));
  OK(AM_Request0(ep, next_process(), on_nothing));
  OK(AM_Request0(ep, next_process(), on_ask_in_vain));
  /* Four EBADTAG: three requests of this process, and its own reply that was not accepted. */
  while (returned_with[EBADTAG] != 4 || returned_with[EBADHANDLER] != 1 ||
         returned_with[EREPLYREJECTED] != 1)
    OK(AM_Poll(eb));
  OK(AMX_SPMDBarrier());
  /* All slots are free again. */
  send_each_kind(300);
}

/* A poll of one bundle runs no handlers of another. */
static void other_bundle(void) {
  eb_t other;
  int i, k;
  if (all == 1) return;
  OK(AM_AllocateBundle(AM_SEQ, &other));
  OK(AM_MoveEndpoint(ep, eb, other));
  told = 0;
  OK(AMX_SPMDBarrier());
  OK(AM_Request1(ep, next_process(), on_tell, 1));
  /* Messages sent before a barrier have arrived after it. Barriers poll the job's bundle only. */
  OK(AMX_SPMDBarrier());
  CHECK(told == 0);
  for (i = 0; i < 2; ++i) {
    for (k = 0; k < 3; ++k)
      OK(AM_Request1(ep, next_process(), on_tell, 0));
    OK(AM_Poll(eb));
  }
  CHECK(told == 1);
  OK(AMX_SPMDBarrier());
  OK(AM_Poll(other));
  OK(AM_MoveEndpoint(ep, other, eb));
  OK(AM_FreeBundle(other));
  OK(AMX_SPMDBarrier());
}

static void collectives(void) {
  int values[3], *gathered = (int*)malloc(sizeof values * (size_t)all), i, k;
  for (k = 0; k < 20; ++k) {
    for (i = 0; i < 3; ++i)
      values[i] = 100 * me + 10 * k + i;
    OK(AMX_SPMDAllGather(values, gathered, sizeof values));
    for (i = 0; i < 3 * all; ++i)
      CHECK(gathered[i] == 100 * (i / 3) + 10 * k + i % 3);
    OK(AMX_SPMDBarrier());
#ifdef AMMPI
    i = me == k % all ? 4711 + k : 0;
    OK(AMMPI_SPMDBroadcast(&i, sizeof i, k % all));
    CHECK(i == 4711 + k);
#endif
  }
  free(gathered);
}

/* Collectives and AM_Terminate fail in handlers, which may not wait. */
static void forbidden(void* token) {
  int value = 0, values[1 << 8];
  (void)token;
  CHECK(AMX_SPMDBarrier() == AM_ERR_RESOURCE);
  CHECK(AMX_SPMDAllGather(&value, values, sizeof value) == AM_ERR_RESOURCE);
  CHECK(AMX_SPMDBroadcast(&value, sizeof value, 0) == AM_ERR_RESOURCE);
  CHECK(AM_Terminate() == AM_ERR_RESOURCE);
  ++replies;
}
static void waits_in_handlers(void) {
  replies = 0;
  OK(AMX_SPMDBarrier());
  OK(AM_Request0(ep, next_process(), on_forbidden));
  poll_until(&replies, 1);
  OK(AMX_SPMDBarrier());
}

/* Longs that exceed the memory that processes share: requests, gets, replies, and refused requests,
   which write no byte. */
static size_t huge_bytes;

static void check_huge(const unsigned char* at, size_t nbytes) {
  size_t i;
  CHECK(at == segment && nbytes == huge_bytes && at[nbytes - 1] == pattern(nbytes - 1, 0));
  for (i = 0; i < nbytes; i += 4093)
    CHECK(at[i] == pattern(i, 0));
}
static void at_huge(void* token, void* buf, size_t nbytes) {
  check_huge((unsigned char*)buf, nbytes);
  OK(AM_ReplyXfer0(token, 0, on_huge_back, buf, nbytes));
}
static void huge_back(void* token, void* buf, size_t nbytes) {
  (void)token;
  check_huge((unsigned char*)buf, nbytes);
  ++replies;
}
static void untouched(void* token, void* buf, size_t nbytes) {
  size_t i;
  (void)token;
  for (i = 0; i < nbytes; i += 512)
    CHECK(((unsigned char*)buf)[i] == 0);
  ++replies;
}

/* A request that needs more memory than there is fails and frees its slot; later ones succeed. */
static void too_large(void) {
  size_t bytes = (size_t)100 << 20;
  unsigned char* from = (unsigned char*)calloc(bytes, 1);
  if (me == 0) {
    CHECK(AM_RequestI1(ep, 1, on_bytes, from, bytes, 0) == AM_ERR_RESOURCE);
    CHECK(AM_RequestI1(ep, 1, on_bytes, from, (size_t)-1, 0) == AM_ERR_BAD_ARG);
    CHECK(AM_RequestI1(ep, 0, on_bytes, from, (size_t)-1, 0) == AM_ERR_BAD_ARG);
    CHECK(AM_RequestXfer0(ep, 1, 0, on_huge, from, (size_t)-1) == AM_ERR_BAD_ARG);
    CHECK(AM_GetXfer0(ep, 1, 0, on_got, 0, (size_t)-1) == AM_ERR_BAD_ARG);
  }
  free(from);
  OK(AMX_SPMDBarrier());
  send_each_kind(300);
}

static void taken(void* token, void* buf, size_t nbytes) {
  (void)token;
  CHECK(buf == segment && nbytes == huge_bytes);
}

static void huge(size_t bytes) {
  unsigned char* from;
  size_t i;
  tag_t own;
  huge_bytes = bytes;
  segment = (unsigned char*)calloc(bytes, 1);
  OK(AM_SetSeg(ep, segment, bytes));
  OK(AM_SetHandler(ep, 0, came_back_with));
  OK(AMX_SPMDBarrier());
  if (me == 0) {
    from = (unsigned char*)malloc(bytes);
    for (i = 0; i < bytes; ++i)
      from[i] = pattern(i, 0);
    OK(AM_GetTranslationTag(ep, 1, &own));
    OK(AMX_SetTranslationTag(ep, 1, own + 1));
    OK(AM_RequestXfer0(ep, 1, 0, on_huge, from, bytes));
    while (returned_with[EBADTAG] != 1)
      OK(AM_Poll(eb));
    OK(AMX_SetTranslationTag(ep, 1, own));
    OK(AM_GetXfer0(ep, 1, 0, on_untouched, 0, bytes));
    poll_until(&replies, 1);
    for (i = 0; i < 5; ++i)
      OK(AM_RequestXfer0(ep, 1, 0, on_nothing, from, bytes));
    while (returned_with[EBADHANDLER] != 5)
      OK(AM_Poll(eb));
    OK(AM_RequestXfer0(ep, 1, 0, on_huge, from, bytes));
    poll_until(&replies, 2);
    memset(segment, 0, bytes);
    OK(AM_GetXfer0(ep, 1, 0, on_huge_back, 0, bytes));
    poll_until(&replies, 3);
    free(from);
  }
  OK(AMX_SPMDBarrier());
}

/* Longs to a segment that covers all addresses. */
static void everywhere(void) {
  static unsigned char there[8000];
  unsigned char from[sizeof there];
  uintptr_t most, at = (uintptr_t)there;
  size_t i;
  for (i = 0; i < sizeof from; ++i)
    from[i] = pattern(i, 0);
  huge_bytes = sizeof there;
  segment = there;
  OK(AM_MaxSegLength(&most));
  OK(AM_SetSeg(ep, NULL, most));
  OK(AM_SetHandler(ep, 0, came_back_with));
  for (i = 0; i < (size_t)all; ++i) {
    uintptr_t address = at;
    replies = 0;
    /* With such a segment, programs exchange addresses to use as offsets. */
    uintptr_t* addresses = (uintptr_t*)malloc(sizeof at * (size_t)all);
    OK(AMX_SPMDAllGather(&address, addresses, sizeof address));
    if (me == 0) {
      OK(AM_RequestXfer0(ep, (int)i, addresses[i], on_taken, from, sizeof from));
      OK(AM_Request0(ep, (int)i, on_ask));
      poll_until(&replies, 1);
    }
    OK(AMX_SPMDBarrier());
    CHECK((size_t)me != i || memcmp(there, from, sizeof from) == 0);
    free(addresses);
  }
}

/* Calls in the child of a fork fail: it has no job. */
static void forked(void) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    const int results[] = {AM_Poll(eb), AM_Request0(ep, 0, on_ask), AMX_SPMDBarrier()};
    _exit(results[0] == AM_ERR_NOT_INIT && results[1] == AM_ERR_NOT_INIT &&
                  results[2] == AM_ERR_NOT_INIT
              ? 0
              : 1);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  child = fork();
  if (child == 0) AMX_SPMDExit(17);
  CHECK(child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 17);
  send_each_kind(300);
}

/* Checks the translation table that the startup has filled. */
static void names(void) {
  int i, n;
  tag_t own, other;
  en_t name;
  OK(AM_GetTag(ep, &own));
  OK(AM_GetNumTranslations(ep, &n));
  CHECK(n >= all);
  for (i = 0; i < n; ++i) {
    CHECK(AM_GetTranslationInuse(ep, i) == (i < all ? AM_OK : AM_ERR_RESOURCE));
    if (i >= all) continue;
    OK(AM_GetTranslationTag(ep, i, &other));
    CHECK((own == other) == (i == me));
    OK(AM_GetTranslationName(ep, i, &name));
  }
  CHECK(AM_Map(ep, n - 1, name, 5) == AM_ERR_RESOURCE);
}

/* Process 1 is killed while process 0 has requests to it, and process 2 waits for messages. */
static void death(void) {
  int64_t before;
  OK(AM_SetHandler(ep, 0, came_back));
  OK(AMX_SPMDBarrier());
  if (me == 1) {
    usleep(50000);
    kill(getpid(), SIGKILL);
  }
  if (me == 2) {
    sleep_until(&returned_count, 1);
  } else {
    /* Takes all slots, and then waits until the requests to process 1 are returned. */
    while (returned_count == 0)
      OK(AM_Request4(ep, 1, on_count, 1, 2, 3, 4));
  }
  CHECK(returned_status == EUNREACHABLE);
  CHECK(me != 2 || returned_op == 0);
  before = returned_count;
  OK(AM_Request1(ep, 1, on_add, 1));
  CHECK(returned_count == before + 1);
  if (all > 2) {
    replies = 0;
    OK(AM_Request1(ep, me, on_add, 1));
    CHECK(replies == 1);
  }
  CHECK(AMX_SPMDBarrier() == AM_ERR_RESOURCE);
}

static void at_exit(int code) {
  printf("process %d exits with %d\n", me, code);
  fflush(stdout);
}

int main(int argc, char** argv) {
  uint64_t number = 0;
  const char* what;
#ifdef AMUDP
  /* Before the startup, and only in the process that the user has started. */
  if (!AMX_SPMDIsWorker(argv)) setenv("AM2_TEST_VARIABLE", "of the master", 1);
#else
  setenv("AM2_TEST_VARIABLE", "of the master", 0);
#endif
  if (AMX_SPMDStartup(&argc, &argv, 0, &number, &eb, &ep) != AM_OK) return 8;
  me = AMX_SPMDMyProc();
  all = AMX_SPMDNumProcs();
  what = argc > 1 ? argv[1] : "all";
  segment = (unsigned char*)(argc > 2 ? malloc(segment_bytes) : AM2_AllocateSegment(segment_bytes));
  CHECK(segment != NULL && number != 0 && AMX_SPMDIsWorker(argv));
  OK(AM_SetSeg(ep, segment, segment_bytes));
  OK(AM_SetHandler(ep, on_add, add));
  OK(AM_SetHandler(ep, on_added, added));
  OK(AM_SetHandler(ep, on_medium, medium));
  OK(AM_SetHandler(ep, on_medium_back, medium_back));
  OK(AM_SetHandler(ep, on_long, at_long));
  OK(AM_SetHandler(ep, on_long_back, long_back));
  OK(AM_SetHandler(ep, on_count, count));
  OK(AM_SetHandler(ep, on_got, got));
  OK(AM_SetHandler(ep, on_ask, ask));
  OK(AM_SetHandler(ep, on_reply, count_reply));
  OK(AM_SetHandler(ep, on_bytes, bytes));
  OK(AM_SetHandler(ep, on_bytes_back, bytes_back));
  OK(AM_SetHandler(ep, on_tell, tell));
  OK(AM_SetHandler(ep, on_ask_in_vain, ask_in_vain));
  OK(AM_SetHandler(ep, on_huge, at_huge));
  OK(AM_SetHandler(ep, on_huge_back, huge_back));
  OK(AM_SetHandler(ep, on_untouched, untouched));
  OK(AM_SetHandler(ep, on_taken, taken));
  OK(AM_SetHandler(ep, on_forbidden, forbidden));
  OK(AMX_SPMDSetExitCallback(at_exit));
  OK(AMX_SPMDBarrier());
  if (strcmp(what, "all") == 0) {
    names();
    shorts(300, 0);
    shorts(50, 1);
    payloads();
    other_segment();
    flood(3000);
    statistics();
    hooks();
    returned();
    other_bundle();
    collectives();
    waits_in_handlers();
    CHECK(strcmp(AMX_SPMDgetenvMaster("AM2_TEST_VARIABLE"), "of the master") == 0);
    CHECK(AMX_SPMDgetenvMaster("AM2_NO_SUCH_VARIABLE") == NULL);
  } else if (strcmp(what, "too_large") == 0) {
    too_large();
  } else if (strcmp(what, "last_output") == 0) {
    /* Leaves the output unflushed, while other processes may still be in the barrier. */
    printf("process %d says its last\n", me);
    AMX_SPMDExit(5);
  } else if (strcmp(what, "other_end") == 0) {
    if (me == 1) _exit(3);
    sleep(60);
  } else if (strcmp(what, "everywhere") == 0) {
    everywhere();
  } else if (strcmp(what, "fork") == 0) {
    forked();
  } else if (strcmp(what, "folder") == 0) {
    char at[4096];
    CHECK(getcwd(at, sizeof at) != NULL);
    printf("process %d works in %s\n", me, at);
    fflush(stdout);
  } else if (strcmp(what, "huge") == 0) {
    huge((size_t)80 << 20);
  } else if (strcmp(what, "size") == 0) {
    if (me == 0) printf("%d processes\n", all);
  } else if (strcmp(what, "targets") == 0) {
    const char* targets = getenv("FARCALL_TARGETS");
    if (me == 0) printf("%d processes, and targets %s\n", all, targets == NULL ? "none" : targets);
  } else if (strcmp(what, "returns") == 0) {
    return 0;
  } else if (strcmp(what, "death") == 0) {
    death();
  } else if (strcmp(what, "one_exits") == 0) {
    if (me == all - 1) AMX_SPMDExit(7);
    for (;;)
      OK(AM_Poll(eb));
  } else if (strcmp(what, "handler_exits") == 0) {
    CHECK(0);
  } else if (strcmp(what, "unhandled") == 0) {
    if (me == 1) kill(getpid(), SIGKILL);
    for (;;) {
      OK(AM_SetEventMask(eb, AM_NOTEMPTY));
      OK(AM_WaitSema(eb));
    }
  }
  if (me == 0) {
    printf("all good\n");
    fflush(stdout);
  }
  /* Wait first if a process has died, because an exit ends all processes and barriers fail then. */
  if (strcmp(what, "death") == 0) usleep(me == 0 ? 0 : 200000);
  AMX_SPMDBarrier();
  AMX_SPMDExit(0);
  return 1;
}
