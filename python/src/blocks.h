// SPDX-License-Identifier: Apache-2.0
#ifndef FARCALL_PYTHON_BLOCKS_H
#define FARCALL_PYTHON_BLOCKS_H

/// Heads of blocks of shared memory, which count the holds of processes.

#include "core.h"

#include <stdatomic.h>

enum { FCP_MOST_HOLDERS = 5 };

/// Beginning of a block, in shared memory. The content follows.
typedef struct fcp_block_head {
  _Atomic uint64_t ticket; ///< number of the message that passes the block on, or 0
  /// Number of holds of messages, and of processes that have found no free element of `holders`.
  _Atomic uint32_t others;
  uint32_t index; ///< index of the block at its owner
  /// Number of holds ever added. A hold that changes its place counts again.
  _Atomic uint64_t added;
  _Atomic uint64_t
      holders[FCP_MOST_HOLDERS]; ///< for each process, its node and the number of its holds
} fcp_block_head;

enum { FCP_HEAD_BYTES = sizeof(fcp_block_head) };

/// Returns the element of `holders` for a node that has `count` holds.
uint64_t fcp_holder_of(uint32_t node, uint32_t count);
/// Adds a hold of the node. Returns its element of `holders`, or -1 if there is no free one.
int fcp_add_holder(fcp_block_head* head, uint32_t node);
/// Removes a hold that fcp_add_holder() has added to the element `entry`.
void fcp_remove_holder(fcp_block_head* head, int entry);
/// True if a process has an element of `holders`.
bool fcp_has_holders(const fcp_block_head* head);

#endif
