// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "process.hpp"

#include <string>

/// All helper processes of this program. This list is the only global state of libveo.
namespace farcall::veo {

/// Number of process identifiers that fit into the tag of an address.
inline constexpr int max_tagged_processes = 16;

/// Starts a helper on the node that choose_node() returns, with the lowest free identifier. Throws
/// error.
[[nodiscard]] process& create_process(int node, const std::string& program);

/// Ends a helper process. Throws error if the process does not exist or has been destroyed already.
void destroy_process(process* p);

/// Returns the identifier of a process; -1 if it does not exist.
[[nodiscard]] int identifier_of(const process* p) noexcept;

/// True if `c` is a context of a process that exists. The check is needed because programs close
/// contexts after the end of their process.
[[nodiscard]] bool is_context(const context* c) noexcept;

/// Throw error if the process or context does not exist, and forked if the parent process may have
/// created it before a fork. A process exists until its destructor has returned, because its host
/// functions still use it.
void require_existing(const process* p);
void require_existing(const context* c);

/// Returns the process with this identifier; null if there is none.
[[nodiscard]] process* process_with(int identifier) noexcept;

} // namespace farcall::veo
