// SPDX-License-Identifier: Apache-2.0
#include "blocks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// Blocks of shared memory, by which processes of a job pass large bytes to each other. Each process
// allocates blocks in its own shared memory. It keeps free blocks for later use, because new pages
// cost several times as much as copying into them. The head of a block counts the holds of
// processes. The process that drops the last hold tells the owner. The owner also looks from time
// to time, and ignores the holds of processes that have ended.
//
// A message passes a block on by a slot with a ticket. The receiver adopts the block by setting the
// ticket in its head to 0. A process that drops the message also sets the ticket to 0. So exactly
// one process gets the hold that belongs to the message.
//
// The functions of this file need no GIL.

/// A block, as its owner knows it.
typedef struct block {
  struct block* next;
  struct block* previous;
  fcp_block_head* head;
  fc_span memory;
  uint64_t capacity;
  uint64_t freed; ///< time at which it has become free, as a number that grows
  uint32_t kind;  ///< class of sizes
  uint32_t index;
  uint32_t lent_to; ///< node to which a message has passed the block on
  bool is_free;
} block;

typedef struct list {
  block* first;
  block* last;
} list;

enum {
  steps = 8,                    ///< classes of sizes between two powers of two
  smallest_log = 8,             ///< a block has at least 256 bytes
  kinds = 40 * steps,           ///< number of classes
  most_looks = 64,              ///< number of blocks in use that an allocation looks at
  large_copy = 8 * 1024 * 1024, ///< bytes from which on farcall chooses the way of a copy
  tell_from = 256 * 1024,       ///< the owner is told of the end of blocks from this size on
};

/// Most bytes of a block.
static const uint64_t most_bytes = UINT64_C(1) << 46;
/// Bytes of free blocks that a process keeps.
static const uint64_t most_free = UINT64_C(512) << 20;

/// Blocks of this process in a job.
struct fcp_store {
  fcp_store* next;
  fc_job* job;
  uint32_t own;
  pthread_mutex_t mutex; ///< protects all that follows
  block** blocks;        ///< elements are NULL if their blocks were released
  size_t count;
  size_t gap; ///< no element before this one is NULL
  list used[kinds];
  list unused[kinds];
  uint64_t unused_bytes;
  uint64_t used_bytes;
  uint64_t time;
  /// For each of the first 65,536 nodes: 0 if unknown, 1 if it can map blocks, 2 if not.
  unsigned char* shares;
  uint32_t share_count;
};

static fcp_store* stores;
static pthread_mutex_t stores_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t last_ticket;
static bool is_sharing = true;
static fc_function collect_function;
static fc_function allocate_function;
static _Atomic uint32_t forks;

static void add_last(list* to, block* b) {
  b->next = NULL;
  b->previous = to->last;
  if (to->last != NULL) {
    to->last->next = b;
  } else {
    to->first = b;
  }
  to->last = b;
}

static void remove_from(list* from, block* b) {
  if (b->previous != NULL) {
    b->previous->next = b->next;
  } else {
    from->first = b->next;
  }
  if (b->next != NULL) {
    b->next->previous = b->previous;
  } else {
    from->last = b->previous;
  }
}

/// Returns the class of blocks with at least `size` bytes, and sets `*capacity` to their size.
static uint32_t kind_of(uint64_t size, uint64_t* capacity) {
  uint32_t log = smallest_log;
  while (log < 46 && size > UINT64_C(1) << (log + 1))
    ++log;
  const uint64_t step = (UINT64_C(1) << log) / steps;
  const uint64_t base = UINT64_C(1) << log;
  const uint64_t number = size <= base ? 0 : (size - base + step - 1) / step;
  *capacity = base + number * step;
  return (log - smallest_log) * steps + (uint32_t)number;
}

static bool is_alive(const fcp_store* store, uint32_t id) {
  fc_node node;
  return id == store->own || (fc_node_at(store->job, id, &node) == FC_OK && fc_node_alive(node));
}

/// True if no process that is alive can use the block any more.
static bool has_no_holder(const fcp_store* store, const block* b) {
  fcp_block_head* const head = b->head;
  const uint64_t added = head->added;
  const uint32_t others = head->others;
  for (int i = 0; i < FCP_MOST_HOLDERS; ++i) {
    uint64_t known = head->holders[i];
    if (known == 0) continue;
    if (is_alive(store, (uint32_t)(known >> 32))) return false;
    atomic_compare_exchange_strong(&head->holders[i], &known, 0);
  }
  // A hold may have passed from an element that was still to be looked at to one that was not.
  if (fcp_has_holders(head) || head->added != added) return false;
  if (others == 0) return true;
  return others == 1 && head->ticket != 0 && !is_alive(store, b->lent_to);
}

static void make_unused(fcp_store* store, block* b) {
  remove_from(&store->used[b->kind], b);
  b->is_free = true;
  b->freed = ++store->time;
  add_last(&store->unused[b->kind], b);
  store->unused_bytes += b->capacity;
  store->used_bytes -= b->capacity;
}

static void make_used(fcp_store* store, block* b) {
  remove_from(&store->unused[b->kind], b);
  b->is_free = false;
  add_last(&store->used[b->kind], b);
  store->unused_bytes -= b->capacity;
  store->used_bytes += b->capacity;
}

/// Returns the block that has been free for the longest time, or NULL.
static block* oldest_unused(const fcp_store* store) {
  block* oldest = NULL;
  for (int i = 0; i < kinds; ++i) {
    block* const each = store->unused[i].first;
    if (each != NULL && (oldest == NULL || each->freed < oldest->freed)) oldest = each;
  }
  return oldest;
}

/// Gives the block an index. Returns false if there is no memory for it. Call it with the mutex
/// locked.
static bool insert(fcp_store* store, block* b) {
  size_t index = store->gap;
  while (index < store->count && store->blocks[index] != NULL)
    ++index;
  if (index == store->count) {
    const size_t count = 2 * index + 16;
    block** const blocks = realloc(store->blocks, count * sizeof *blocks);
    if (blocks == NULL) return false;
    memset(blocks + index, 0, (count - index) * sizeof *blocks);
    store->blocks = blocks;
    store->count = count;
  }
  b->index = (uint32_t)index;
  store->blocks[index] = b;
  store->gap = index + 1;
  return true;
}

/// Takes the unused block that is the oldest out of the store, if more than `most` bytes are
/// unused.
static block* take_oldest(fcp_store* store, uint64_t most) {
  pthread_mutex_lock(&store->mutex);
  block* const b = store->unused_bytes > most ? oldest_unused(store) : NULL;
  if (b != NULL) {
    remove_from(&store->unused[b->kind], b);
    store->unused_bytes -= b->capacity;
    store->blocks[b->index] = NULL;
    if (b->index < store->gap) store->gap = b->index;
  }
  pthread_mutex_unlock(&store->mutex);
  return b;
}

static void put_back(fcp_store* store, block* b) {
  pthread_mutex_lock(&store->mutex);
  if (insert(store, b)) {
    add_last(&store->unused[b->kind], b);
    store->unused_bytes += b->capacity;
  } else {
    free(b); // the end of the job releases the memory
  }
  pthread_mutex_unlock(&store->mutex);
}

/// Releases the blocks that have been free for the longest time until at most `most` bytes are
/// free.
static void trim(fcp_store* store, uint64_t most) {
  block* b;
  while ((b = take_oldest(store, most)) != NULL) {
    // The timeout of 0 concerns only calls that this thread has made to its own node.
    if (fc_release_within(store->job, b->memory, 0) != FC_OK) {
      put_back(store, b);
      return;
    }
    free(b);
  }
}

/// Makes all blocks unused that no process uses any more.
static void collect_all(fcp_store* store) {
  pthread_mutex_lock(&store->mutex);
  for (size_t i = 0; i < store->count; ++i) {
    block* const b = store->blocks[i];
    if (b != NULL && !b->is_free && has_no_holder(store, b)) make_unused(store, b);
  }
  pthread_mutex_unlock(&store->mutex);
}

/// Makes the block with this address and index unused, if no process uses it any more.
static void collect(fcp_store* store, uint64_t address, uint32_t index) {
  pthread_mutex_lock(&store->mutex);
  block* const b = index < store->count ? store->blocks[index] : NULL;
  if (b != NULL && b->memory.address == address && !b->is_free && has_no_holder(store, b))
    make_unused(store, b);
  pthread_mutex_unlock(&store->mutex);
  trim(store, most_free);
}

/// Returns an unused block of the class, or NULL. Call it with the mutex locked.
static block* find_unused(fcp_store* store, uint32_t kind) {
  list* const used = &store->used[kind];
  for (int i = 0; i < most_looks && store->unused[kind].last == NULL && used->first != NULL; ++i) {
    block* const b = used->first;
    if (has_no_holder(store, b)) {
      make_unused(store, b);
    } else {
      remove_from(used, b);
      add_last(used, b);
    }
  }
  // The block that was used last is most likely in a cache.
  return store->unused[kind].last;
}

/// Allocates memory for a new block.
static fc_status new_memory(fcp_store* store, uint64_t bytes, fc_span* memory) {
  fc_node self;
  fc_status status = fc_node_at(store->job, store->own, &self);
  if (status != FC_OK) return status;
  status = fc_allocate(self, bytes, memory);
  if (status != FC_OUT_OF_MEMORY) return status;
  collect_all(store);
  trim(store, 0);
  return fc_allocate(self, bytes, memory);
}

/// Gives the first hold of a block to a process. Call it with the mutex locked.
static void give(block* b, uint32_t to) {
  b->head->ticket = 0;
  b->head->others = 0;
  b->head->index = b->index;
  for (int i = 1; i < FCP_MOST_HOLDERS; ++i)
    b->head->holders[i] = 0;
  b->head->holders[0] = fcp_holder_of(to, 1);
}

/// Adds a new block, which is used. Returns NULL if there is no memory for its description.
static block* add_block(fcp_store* store, fc_span memory, uint32_t kind, uint64_t capacity,
                        uint32_t holder) {
  block* const b = malloc(sizeof *b);
  if (b == NULL) return NULL;
  *b = (block){.head = (fcp_block_head*)(uintptr_t)memory.address,
               .memory = memory,
               .capacity = capacity,
               .kind = kind};
  pthread_mutex_lock(&store->mutex);
  if (!insert(store, b)) {
    pthread_mutex_unlock(&store->mutex);
    free(b);
    return NULL;
  }
  store->used_bytes += capacity;
  add_last(&store->used[kind], b);
  give(b, holder);
  pthread_mutex_unlock(&store->mutex);
  return b;
}

/// Returns a block that the node holds in `*made`.
static fc_status allocate(fcp_store* store, uint64_t size, uint32_t holder, block** made) {
  uint64_t capacity = 0;
  if (size > most_bytes) return FC_OUT_OF_MEMORY;
  const uint32_t kind = kind_of(size, &capacity);
  pthread_mutex_lock(&store->mutex);
  *made = find_unused(store, kind);
  if (*made != NULL) {
    make_used(store, *made);
    give(*made, holder);
  }
  pthread_mutex_unlock(&store->mutex);
  if (*made != NULL) return FC_OK;
  fc_span memory;
  const fc_status status = new_memory(store, capacity + FCP_HEAD_BYTES, &memory);
  if (status != FC_OK) return status;
  *made = add_block(store, memory, kind, capacity, holder);
  if (*made != NULL) return FC_OK;
  fc_release(store->job, memory);
  return FC_OUT_OF_MEMORY;
}

static fcp_place place_in(const fcp_store* store, const block* b, uint64_t size) {
  return (fcp_place){.at = b->memory.address + FCP_HEAD_BYTES,
                     .size = size,
                     .block = b->memory.address,
                     .whole = b->capacity + FCP_HEAD_BYTES,
                     .node = store->own,
                     .index = b->index};
}

static fc_status allocate_for(fcp_store* store, uint32_t node, uint64_t size, fcp_place* place) {
  block* b = NULL;
  const fc_status status = allocate(store, size, node, &b);
  if (status == FC_OK) *place = place_in(store, b, size);
  return status;
}

/// Maps a block. Fails for blocks of other machines.
static fc_status map(fcp_store* store, const fcp_place* place, void** head) {
  const fc_span block_span = {place->block, place->whole, place->node, 0};
  return fc_map_hold(store->job, block_span, head);
}

static void map_if_possible(fcp_store* store, fcp_hold* hold) {
  const bool may_map = is_sharing || hold->place.node == store->own;
  if (!may_map || map(store, &hold->place, &hold->head) != FC_OK) hold->head = NULL;
}

fc_status fcp_allocate(fcp_store* store, fc_node node, uint64_t size, fcp_hold* hold) {
  *hold = (fcp_hold){.entry = 0};
  fcp_place* const place = &hold->place;
  if (node.id == store->own) {
    const fc_status status = allocate_for(store, store->own, size, place);
    if (status == FC_OK) map_if_possible(store, hold);
    return status;
  }
  size_t replied = 0;
  const fc_status status =
      fc_call(node, allocate_function, &size, sizeof size, place, sizeof *place, &replied);
  if (status != FC_OK) return status;
  if (replied != sizeof *place || place->node != node.id || place->size != size ||
      !fcp_is_valid_place(place))
    return FC_MALFORMED;
  map_if_possible(store, hold);
  return FC_OK;
}

void fcp_borrow(fcp_store* store, const fcp_place* place, fcp_hold* hold) {
  *hold = (fcp_hold){.place = *place, .is_borrowed = true};
  map_if_possible(store, hold);
}

void* fcp_content(const fcp_hold* hold) {
  return (char*)hold->head + (hold->place.at - hold->place.block);
}

/// Tells the owner of a block that no process uses the block any more. If the block is not mapped,
/// the owner also drops the hold of this process.
static void tell_owner(const fcp_store* store, const fcp_hold* hold) {
  fc_node owner;
  if (fc_node_at(store->job, hold->place.node, &owner) != FC_OK) return;
  const fc_bytes part = {hold, sizeof *hold};
  fc_future* future = NULL;
  // If this fails, the owner notices the end of the block in a later allocation.
  if (fc_try_call_async(owner, collect_function, &part, 1, &future) == FC_OK) {
    fc_future_drop(future);
  } else if (hold->head == NULL) {
    fc_post(owner, collect_function, hold, sizeof *hold);
  }
}

void fcp_drop(fcp_store* store, fcp_hold* hold, bool is_owned) {
  fcp_block_head* const head = hold->head;
  const bool is_counted = is_owned && !hold->is_borrowed;
  if (head == NULL) {
    if (is_counted && store->job != NULL) tell_owner(store, hold);
    hold->is_borrowed = true;
    return;
  }
  if (is_counted) {
    const fcp_place* const place = &hold->place;
    fcp_remove_holder(head, hold->entry);
    if (store->job != NULL && head->others == 0 && !fcp_has_holders(head)) {
      if (place->node == store->own) {
        collect(store, place->block, place->index);
      } else if (place->whole >= tell_from) {
        tell_owner(store, hold);
      }
    }
  }
  fc_unmap(head);
  hold->head = NULL;
  hold->is_borrowed = true;
}

/// Passes the hold of a block of this process on to the message with the slot.
static void pass_on(fcp_store* store, block* b, uint32_t to, uint64_t size, fcp_slot* slot) {
  slot->place = place_in(store, b, size);
  slot->ticket = ++last_ticket;
  b->lent_to = to;
  b->head->ticket = slot->ticket;
  b->head->others = 1;
  b->head->holders[0] = 0;
}

fc_status fcp_lend(fcp_store* store, uint32_t to, const void* bytes, size_t size, fcp_slot* slot) {
  block* b = NULL;
  const fc_status status = allocate(store, size, store->own, &b);
  if (status != FC_OK) return status;
  const fc_span content = {b->memory.address + FCP_HEAD_BYTES, size, store->own, 0};
  if (size < large_copy) {
    memcpy((char*)b->head + FCP_HEAD_BYTES, bytes, size);
  } else {
    // Chooses the fastest way for large copies on this machine.
    const fc_status copied = fc_put(store->job, content, bytes, size);
    if (copied != FC_OK) {
      fcp_remove_holder(b->head, 0);
      return copied;
    }
  }
  pass_on(store, b, to, size, slot);
  return FC_OK;
}

fc_status fcp_lend_reference(fcp_store* store, uint32_t to, const fcp_hold* hold, uint64_t at,
                             uint64_t size, fcp_slot* slot) {
  fcp_place part = hold->place;
  part.at = at;
  part.size = size;
  fcp_block_head* const head = hold->head;
  ++head->others;
  ++head->added;
  const fc_status status = fcp_lend(store, to, &part, sizeof part, slot);
  slot->is_reference = 1;
  if (status != FC_OK) --head->others;
  return status;
}

/// Takes the hold of a message over. Returns false if the message was dropped before.
static bool take_over(const fcp_store* store, const fcp_slot* slot, fcp_hold* hold) {
  fcp_block_head* const head = hold->head;
  uint64_t ticket = slot->ticket;
  if (ticket == 0 || !atomic_compare_exchange_strong(&head->ticket, &ticket, 0)) return false;
  hold->entry = fcp_add_holder(head, store->own);
  --head->others;
  return true;
}

/// Replaces the hold of a block that contains the place of another block by the hold of the latter,
/// which comes with it.
static fc_status adopt_referred(fcp_store* store, fcp_hold* hold) {
  fcp_hold lent = *hold;
  const bool is_place = lent.place.size == sizeof hold->place;
  if (is_place) memcpy(&hold->place, fcp_content(&lent), sizeof hold->place);
  fcp_drop(store, &lent, true);
  if (!is_place || !fcp_is_valid_place(&hold->place)) return FC_MALFORMED;
  const fc_status status = map(store, &hold->place, &hold->head);
  if (status != FC_OK) return status;
  hold->entry = fcp_add_holder(hold->head, store->own);
  --((fcp_block_head*)hold->head)->others;
  return FC_OK;
}

fc_status fcp_adopt(fcp_store* store, const fcp_slot* slot, fcp_hold* hold) {
  *hold = (fcp_hold){.place = slot->place};
  if (!fcp_is_valid_place(&hold->place)) return FC_MALFORMED;
  const fc_status status = map(store, &hold->place, &hold->head);
  if (status != FC_OK) return status;
  if (!take_over(store, slot, hold)) {
    fc_unmap(hold->head);
    return FC_CANCELLED;
  }
  return slot->is_reference ? adopt_referred(store, hold) : FC_OK;
}

void fcp_drop_slot(fcp_store* store, const fcp_slot* slot) {
  fcp_hold hold;
  if (slot->place.block == 0 || store->job == NULL) return;
  if (fcp_adopt(store, slot, &hold) == FC_OK) fcp_drop(store, &hold, true);
}

static bool is_on_this_machine(fcp_store* store, uint32_t id) {
  fc_node node;
  fc_node_description* description = NULL;
  if (fc_node_at(store->job, id, &node) != FC_OK || fc_node_describe(node, &description) != FC_OK)
    return false;
  const bool is_shared = strcmp(description->transport, "shm") == 0;
  fc_free(description);
  return is_shared;
}

PyObject* fcp_set_sharing(PyObject* module, PyObject* yes) {
  (void)module;
  is_sharing = PyObject_IsTrue(yes) == 1;
  Py_RETURN_NONE;
}

bool fcp_may_share(fcp_store* store, uint32_t id) {
  if (!is_sharing || store == NULL || store->job == NULL) return false;
  if (id == store->own) return true;
  if (id > UINT16_MAX) return is_on_this_machine(store, id); // it has the place of an ended node
  if (id >= fc_job_size(store->job)) return false;
  pthread_mutex_lock(&store->mutex);
  unsigned char known = id < store->share_count ? store->shares[id] : 0;
  pthread_mutex_unlock(&store->mutex);
  if (known != 0) return known == 1;
  known = is_on_this_machine(store, id) ? 1 : 2;
  pthread_mutex_lock(&store->mutex);
  if (id >= store->share_count) {
    unsigned char* const shares = realloc(store->shares, id + 16);
    if (shares != NULL) {
      memset(shares + store->share_count, 0, id + 16 - store->share_count);
      store->shares = shares;
      store->share_count = id + 16;
    }
  }
  if (id < store->share_count) store->shares[id] = known;
  pthread_mutex_unlock(&store->mutex);
  return known == 1;
}

/// Returns the store of a job, or NULL. Call it with stores_mutex locked.
static fcp_store* find_store(const fc_job* job) {
  fcp_store* store = stores;
  while (store != NULL && store->job != job)
    store = store->next;
  return store;
}

/// Returns the store of the job whose handler is running, or NULL after the end of the job.
static fcp_store* store_of_handler(void) {
  fc_job* const job = fc_current_job();
  pthread_mutex_lock(&stores_mutex);
  fcp_store* const store = find_store(job);
  pthread_mutex_unlock(&stores_mutex);
  fc_node self;
  // A call may come before the worker has opened its store. The host opens the store first.
  if (store == NULL && fc_this_node(job, &self) == FC_OK && self.id != 0)
    return fcp_store_open(job);
  return store;
}

static void allocate_for_caller(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  fcp_store* const store = store_of_handler();
  uint64_t wanted = 0;
  fcp_place place;
  if (size == sizeof wanted) memcpy(&wanted, bytes, size);
  if (wanted > most_bytes) {
    fc_reply_error(reply, "MemoryError", "a block cannot have so many bytes");
    return;
  }
  fc_status status = FC_ERROR;
  if (store != NULL) status = allocate_for(store, fc_reply_caller(reply), wanted, &place);
  if (status == FC_OK) {
    fc_reply_bytes(reply, &place, sizeof place);
  } else {
    fc_reply_error(reply, "MemoryError", store == NULL ? "the node has ended" : fc_error_text());
  }
}

/// Drops the first hold of a block, which the node has got by an allocation.
static void drop_for(fcp_store* store, const fcp_place* place, uint32_t node) {
  pthread_mutex_lock(&store->mutex);
  block* const b = place->index < store->count ? store->blocks[place->index] : NULL;
  if (b != NULL && b->memory.address == place->block && b->head->holders[0] >> 32 == node)
    fcp_remove_holder(b->head, 0);
  pthread_mutex_unlock(&store->mutex);
}

static void collect_for_caller(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  fcp_store* const store = store_of_handler();
  fcp_hold hold;
  if (store == NULL || size != sizeof hold) return;
  memcpy(&hold, bytes, size);
  if (hold.head == NULL) drop_for(store, &hold.place, fc_reply_caller(reply));
  collect(store, hold.place.block, hold.place.index);
}

static void forget_all_in_child(void) {
  static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
  ++forks;
  stores = NULL;
  stores_mutex = unlocked;
}

uint32_t fcp_forks(void) { return forks; }

int fcp_register_blocks(void) {
  static const char allocate_name[] = "farcall.python.allocate";
  static const char collect_name[] = "farcall.python.collect";
  if (fc_register(allocate_name, &allocate_for_caller, NULL) != FC_OK ||
      fc_register(collect_name, &collect_for_caller, NULL) != FC_OK) {
    PyErr_SetString(PyExc_ImportError, fc_error_text());
    return -1;
  }
  allocate_function = fc_named(allocate_name);
  collect_function = fc_named(collect_name);
  pthread_atfork(NULL, NULL, &forget_all_in_child);
  return 0;
}

fcp_store* fcp_store_open(fc_job* job) {
  fc_node self;
  if (fc_this_node(job, &self) != FC_OK) return NULL;
  pthread_mutex_lock(&stores_mutex);
  fcp_store* store = find_store(job);
  if (store == NULL) {
    store = calloc(1, sizeof *store);
    if (store != NULL) {
      store->job = job;
      store->own = self.id;
      pthread_mutex_init(&store->mutex, NULL);
      store->next = stores;
      stores = store;
    }
  }
  pthread_mutex_unlock(&stores_mutex);
  return store;
}

static void remove_store(const fcp_store* store) {
  pthread_mutex_lock(&stores_mutex);
  for (fcp_store** at = &stores; *at != NULL; at = &(*at)->next) {
    if (*at == store) {
      *at = store->next;
      break;
    }
  }
  pthread_mutex_unlock(&stores_mutex);
}

void fcp_store_detach(fcp_store* store) {
  if (store == NULL || store->job == NULL) return;
  remove_store(store);
  store->job = NULL;
}

void fcp_store_end(fcp_store* store) {
  if (store == NULL || store->job == NULL) return;
  remove_store(store);
  // Give pages back that the views of other blocks would keep.
  collect_all(store);
  trim(store, 0);
  store->job = NULL;
}

void fcp_store_free(fcp_store* store) {
  if (store == NULL) return;
  for (size_t i = 0; i < store->count; ++i)
    free(store->blocks[i]);
  free(store->blocks);
  free(store->shares);
  pthread_mutex_destroy(&store->mutex);
  free(store);
}

void fcp_store_collect(fcp_store* store) {
  if (store == NULL || store->job == NULL) return;
  collect_all(store);
  trim(store, most_free);
}

void fcp_store_count(fcp_store* store, uint64_t counts[4]) {
  collect_all(store);
  memset(counts, 0, 4 * sizeof *counts);
  pthread_mutex_lock(&store->mutex);
  for (size_t i = 0; i < store->count; ++i) {
    if (store->blocks[i] != NULL) ++counts[store->blocks[i]->is_free ? 2 : 0];
  }
  counts[1] = store->used_bytes;
  counts[3] = store->unused_bytes;
  pthread_mutex_unlock(&store->mutex);
}
