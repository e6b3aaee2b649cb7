// SPDX-License-Identifier: Apache-2.0
#include "blocks.h"

#include <stdalign.h>

// Holds of blocks. All processes of a job can change the head of a block at the same time, and a
// process that is broken can store anything there.

uint64_t fcp_holder_of(uint32_t node, uint32_t count) { return (uint64_t)node << 32 | count; }

int fcp_add_holder(fcp_block_head* head, uint32_t node) {
  for (int i = 0; i < FCP_MOST_HOLDERS; ++i) {
    uint64_t known = head->holders[i];
    while (known == 0 || known >> 32 == node) {
      const uint32_t count = (uint32_t)known + 1;
      if (atomic_compare_exchange_weak(&head->holders[i], &known, fcp_holder_of(node, count))) {
        ++head->added;
        return i;
      }
    }
  }
  ++head->others;
  ++head->added;
  return -1;
}

void fcp_remove_holder(fcp_block_head* head, int entry) {
  if (entry < 0) {
    --head->others;
    return;
  }
  uint64_t known = head->holders[entry];
  while (!atomic_compare_exchange_weak(&head->holders[entry], &known,
                                       (uint32_t)known <= 1 ? 0 : known - 1)) {
  }
}

bool fcp_has_holders(const fcp_block_head* head) {
  for (int i = 0; i < FCP_MOST_HOLDERS; ++i) {
    if (head->holders[i] != 0) return true;
  }
  return false;
}

bool fcp_is_valid_place(const fcp_place* place) {
  const uint64_t offset = place->at - place->block;
  return place->block != 0 && place->block % alignof(fcp_block_head) == 0 &&
         place->whole <= PTRDIFF_MAX && offset >= FCP_HEAD_BYTES && offset <= place->whole &&
         place->size <= place->whole - offset;
}
