/* SPDX-License-Identifier: Apache-2.0 */

/* Each thread counts calls in a separate table without locks. The tables are added up when the
 * result is written. When a thread ends, the next new thread continues to use its table. */
#include "ftrace_runtime.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <ftrace.h>

#include "ftrace_symbols.h"

#define UNTRACED __attribute__((no_instrument_function))

/* Counts of a function or a region in one thread. Only that thread writes them; other threads may
 * read them. */
struct entry {
  /* Address of the function. For a region, the address of `name`, which is never the address of a
   * function. */
  uintptr_t key;
  char* name;
  uint64_t calls;
  uint64_t exclusive;
  uint64_t inclusive;
  /* Number of calls that have not returned. With recursion, only the outermost call adds to the
   * inclusive time. */
  unsigned open;
  struct entry* next;
};

struct frame {
  struct entry* entry;
  uint64_t start;
  uint64_t inside;
};

#define BUCKETS 1024

struct thread_table {
  struct entry* buckets[BUCKETS];
  struct frame* frames;
  size_t depth;
  size_t capacity;
  /* Set while the tracing code runs in this thread, because it may call functions that are also
   * instrumented. */
  int busy;
  struct thread_table* next;
  struct thread_table* next_unused;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct thread_table* tables;
static struct thread_table* unused_tables;
static unsigned long threads;
static pid_t owner;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t end_of_thread;
static __thread struct thread_table* mine;

UNTRACED static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000U + (uint64_t)time.tv_nsec;
}

/* Read and write a counter atomically but without read-modify-write: only the table's thread writes
 * it, and write_table() may read it in another thread. */
UNTRACED static uint64_t get(const uint64_t* word) {
  return __atomic_load_n(word, __ATOMIC_RELAXED);
}

UNTRACED static void add(uint64_t* word, uint64_t more) {
  __atomic_store_n(word, get(word) + more, __ATOMIC_RELAXED);
}

UNTRACED static struct entry** bucket_of(struct thread_table* table, uintptr_t key) {
  return &table->buckets[(key ^ key >> 10 ^ key >> 20) / 4 % BUCKETS];
}

/* Adds an entry and takes ownership of `name`. Returns NULL if `name` is NULL or there is no
 * memory. */
UNTRACED static struct entry* add_entry(struct entry** bucket, uintptr_t key, char* name) {
  struct entry* entry = name == NULL ? NULL : calloc(1, sizeof *entry);
  if (entry == NULL) {
    free(name);
    return NULL;
  }
  entry->key = key;
  entry->name = name;
  entry->next = *bucket;
  /* Release pairs with the acquire load in add_table(), so that add_table() sees a complete entry.
   */
  __atomic_store_n(bucket, entry, __ATOMIC_RELEASE);
  return entry;
}

UNTRACED static struct entry* function_entry(struct thread_table* table, uintptr_t function,
                                             int make) {
  struct entry** bucket = bucket_of(table, function);
  for (struct entry* entry = *bucket; entry != NULL; entry = entry->next) {
    if (entry->key == function) {
      return entry;
    }
  }
  /* Look up the name now, because the library may be unloaded before the table is written. */
  return make ? add_entry(bucket, function, farcall_veo_name_of(function)) : NULL;
}

UNTRACED static int is_region(const struct entry* entry) {
  return entry->key == (uintptr_t)entry->name;
}

/* Finds a region by its name. All regions are in one bucket, because there are only few. */
UNTRACED static struct entry* region_entry(struct thread_table* table, const char* name, int make) {
  struct entry** bucket = bucket_of(table, 0);
  for (struct entry* entry = *bucket; entry != NULL; entry = entry->next) {
    if (is_region(entry) && strcmp(entry->name, name) == 0) {
      return entry;
    }
  }
  char* copy = make ? strdup(name) : NULL;
  return add_entry(bucket, (uintptr_t)copy, copy);
}

UNTRACED static int enter(struct thread_table* table, struct entry* entry) {
  if (entry == NULL) {
    return -1;
  }
  if (table->depth == table->capacity) {
    const size_t capacity = table->capacity == 0 ? 64 : 2 * table->capacity;
    struct frame* frames = realloc(table->frames, capacity * sizeof *frames);
    if (frames == NULL) {
      return -1;
    }
    table->frames = frames;
    table->capacity = capacity;
  }
  add(&entry->calls, 1);
  ++entry->open;
  const struct frame frame = {entry, now(), 0};
  table->frames[table->depth++] = frame;
  return 0;
}

UNTRACED static void close_top(struct thread_table* table, uint64_t time) {
  const struct frame frame = table->frames[--table->depth];
  const uint64_t total = time - frame.start;
  add(&frame.entry->exclusive, total - frame.inside);
  if (--frame.entry->open == 0) {
    add(&frame.entry->inclusive, total);
  }
  if (table->depth > 0) {
    table->frames[table->depth - 1].inside += total;
  }
}

/* Closes the call of `entry`. First closes all calls that were made inside that call and are still
 * open. Such calls exist if a longjmp() has left functions without calling their exit hooks. */
UNTRACED static int leave(struct thread_table* table, const struct entry* entry) {
  const uint64_t time = now();
  if (entry == NULL || entry->open == 0) {
    return -1;
  }
  while (table->frames[table->depth - 1].entry != entry) {
    close_top(table, time);
  }
  close_top(table, time);
  return 0;
}

/* Closes all open calls of a thread, because functions that call exit() or end their thread do not
 * return. */
UNTRACED static void close_all(struct thread_table* table) {
  const uint64_t time = now();
  while (table->depth > 0) {
    close_top(table, time);
  }
}

UNTRACED static void give_back(void* of_thread) {
  struct thread_table* table = of_thread;
  mine = NULL;
  close_all(table);
  pthread_mutex_lock(&mutex);
  table->next_unused = unused_tables;
  unused_tables = table;
  pthread_mutex_unlock(&mutex);
}

UNTRACED static void make_key(void) { (void)pthread_key_create(&end_of_thread, give_back); }

/* Returns a table for the calling thread, or NULL if there is no memory. The caller holds the
 * mutex. */
UNTRACED static struct thread_table* unused_or_new_table(void) {
  struct thread_table* table = unused_tables;
  if (table != NULL) {
    unused_tables = table->next_unused;
    return table;
  }
  table = calloc(1, sizeof *table);
  if (table != NULL) {
    table->next = tables;
    tables = table;
  }
  return table;
}

UNTRACED static struct thread_table* my_table(void) {
  if (mine != NULL) {
    return mine;
  }
  pthread_once(&once, make_key);
  pthread_mutex_lock(&mutex);
  owner = getpid();
  ++threads;
  mine = unused_or_new_table();
  pthread_mutex_unlock(&mutex);
  if (mine != NULL) {
    (void)pthread_setspecific(end_of_thread, mine);
  }
  return mine;
}

UNTRACED void farcall_veo_ftrace_enter(void* function) {
  const int saved = errno;
  struct thread_table* table = my_table();
  if (table != NULL && !table->busy) {
    table->busy = 1;
    (void)enter(table, function_entry(table, (uintptr_t)function, 1));
    table->busy = 0;
  }
  errno = saved;
}

UNTRACED void farcall_veo_ftrace_exit(void* function) {
  struct thread_table* table = mine;
  if (table != NULL && !table->busy) {
    table->busy = 1;
    (void)leave(table, function_entry(table, (uintptr_t)function, 0));
    table->busy = 0;
  }
}

UNTRACED static int region(const char* name, int begins) {
  struct thread_table* table = name == NULL ? NULL : my_table();
  if (table == NULL || table->busy) {
    return -1;
  }
  table->busy = 1;
  struct entry* entry = region_entry(table, name, begins);
  const int result = begins ? enter(table, entry) : leave(table, entry);
  table->busy = 0;
  return result;
}

UNTRACED int ftrace_region_begin(const char* name) { return region(name, 1); }
UNTRACED int ftrace_region_end(const char* name) { return region(name, 0); }

/* --- output --- */

struct line {
  const char* name;
  int region;
  uint64_t calls;
  uint64_t exclusive;
  uint64_t inclusive;
};

struct lines {
  struct line* data;
  size_t count;
  size_t capacity;
};

/* Adds the counts of an entry to the output line with the same name, so that a function has one
 * line for all threads. */
UNTRACED static int add_line(struct lines* lines, const struct entry* entry) {
  for (size_t i = 0; i < lines->count; ++i) {
    if (lines->data[i].region == is_region(entry) &&
        strcmp(lines->data[i].name, entry->name) == 0) {
      lines->data[i].calls += get(&entry->calls);
      lines->data[i].exclusive += get(&entry->exclusive);
      lines->data[i].inclusive += get(&entry->inclusive);
      return 0;
    }
  }
  if (lines->count == lines->capacity) {
    const size_t capacity = lines->capacity == 0 ? 64 : 2 * lines->capacity;
    struct line* data = realloc(lines->data, capacity * sizeof *data);
    if (data == NULL) {
      return -1;
    }
    lines->data = data;
    lines->capacity = capacity;
  }
  const struct line line = {entry->name, is_region(entry), get(&entry->calls),
                            get(&entry->exclusive), get(&entry->inclusive)};
  lines->data[lines->count++] = line;
  return 0;
}

UNTRACED static int add_table(struct lines* lines, struct thread_table* table) {
  for (size_t i = 0; i < BUCKETS; ++i) {
    const struct entry* entry = __atomic_load_n(&table->buckets[i], __ATOMIC_ACQUIRE);
    for (; entry != NULL; entry = entry->next) {
      if (add_line(lines, entry) != 0) {
        return -1;
      }
    }
  }
  return 0;
}

UNTRACED static int slower_first(const void* left, const void* right) {
  const struct line* a = left;
  const struct line* b = right;
  if (a->exclusive != b->exclusive) {
    return a->exclusive > b->exclusive ? -1 : 1;
  }
  return strcmp(a->name, b->name);
}

UNTRACED static void make_file_name(char* text, size_t size) {
  const char* base = getenv("VE_FTRACE_OUT_NAME");
  const char* universe = getenv("MPIUNIVERSE");
  const char* rank = getenv("MPIRANK");
  const char* node = getenv("VE_NODE_NUMBER");
  const int mpi = universe != NULL && rank != NULL;
  char process[64] = "";
  if (node != NULL) {
    (void)snprintf(process, sizeof process, ".veo.%.32s.%ld", node, (long)getpid());
  }
  (void)snprintf(text, size, "%s%s%s%s%s%s", base == NULL || *base == 0 ? "ftrace.out" : base,
                 mpi ? "." : "", mpi ? universe : "", mpi ? "." : "", mpi ? rank : "", process);
}

/* The symbol is null in programs without C++, which have no names to demangle. */
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the C++ library's name.
extern char* __cxa_demangle(const char* name, char* buffer, size_t* length, int* status)
    __attribute__((weak));
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

/* Requires the prefix _Z, because some names of C functions are valid mangled names of types. */
UNTRACED static int is_mangled(const char* name) {
  return __cxa_demangle != NULL && strncmp(name, "_Z", 2) == 0;
}

UNTRACED static void print(FILE* file, const struct lines* lines) {
  uint64_t total = 0;
  for (size_t i = 0; i < lines->count; ++i) {
    total += lines->data[i].exclusive;
  }
  (void)fprintf(file, "# functions of process %ld, in %lu threads; times in seconds\n",
                (long)getpid(), threads);
  (void)fprintf(file, "# frequency    exclusive       %%    inclusive  each exclusive  function\n");
  for (size_t i = 0; i < lines->count; ++i) {
    const struct line* line = &lines->data[i];
    char* plain = is_mangled(line->name) ? __cxa_demangle(line->name, NULL, NULL, NULL) : NULL;
    const double exclusive = (double)line->exclusive * 1e-9;
    (void)fprintf(file, "%11llu %12.6f %6.1f %12.6f %15.9f  %s\n", (unsigned long long)line->calls,
                  exclusive, total == 0 ? 0.0 : 1e11 * exclusive / (double)total,
                  (double)line->inclusive * 1e-9,
                  line->calls == 0 ? 0.0 : exclusive / (double)line->calls,
                  plain == NULL ? line->name : plain);
    free(plain);
  }
}

UNTRACED static int write_lines(struct lines* lines) {
  char name[PATH_MAX];
  make_file_name(name, sizeof name);
  FILE* file = fopen(name, "we");
  if (file == NULL) {
    (void)fprintf(stderr, "ftrace: cannot write %s: %s; VE_FTRACE_OUT_NAME names another file\n",
                  name, strerror(errno));
    return -1;
  }
  qsort(lines->data, lines->count, sizeof *lines->data, slower_first);
  print(file, lines);
  return fclose(file) == 0 ? 0 : -1;
}

UNTRACED static int write_table(void) {
  struct lines lines = {NULL, 0, 0};
  int result = 0;
  /* Write no table in a forked child, because the counts belong to its parent. */
  if (owner != getpid()) {
    return 0;
  }
  struct thread_table* own = mine;
  if (own != NULL) {
    own->busy = 1;
    close_all(own);
  }
  pthread_mutex_lock(&mutex);
  for (struct thread_table* table = tables; table != NULL && result == 0; table = table->next) {
    result = add_table(&lines, table);
  }
  pthread_mutex_unlock(&mutex);
  if (result == 0 && lines.count > 0) {
    result = write_lines(&lines);
  }
  free(lines.data);
  if (own != NULL) {
    own->busy = 0;
  }
  return result;
}

UNTRACED int farcall_veo_ftrace_write(void) { return write_table(); }

/* Writes the table at the end of the program. Several libraries may contain a copy of this code,
 * and the destructor of each copy runs, but only one copy has counted calls and writes a table. The
 * destructor calls the static function of its own copy, because the exported name may refer to
 * another copy. */
__attribute__((destructor)) UNTRACED static void at_end(void) { (void)write_table(); }
