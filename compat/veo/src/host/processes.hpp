#pragma once

#include "process.hpp"

#include <string>

/// All helper processes of this program: the one place of the library that has global state.
namespace farcall::veo {

/// Identifiers that fit the tag of an address.
inline constexpr int most_tagged_processes = 16;

/// Starts a helper on a node, see choose_node(), with the lowest free identifier. Throws error.
[[nodiscard]] process& create_process(int node, const std::string& program);

/// Ends one; throws error when there is no such process (any more).
void destroy_process(process* p);

/// Its identifier, or -1 for one that does not exist.
[[nodiscard]] int identifier_of(const process* p) noexcept;

/// Whether it is a context of one of them: programs close contexts whose process has ended.
[[nodiscard]] bool is_context(const context* c) noexcept;

/// Null when none has this identifier.
[[nodiscard]] process* process_with(int identifier) noexcept;

} // namespace farcall::veo
