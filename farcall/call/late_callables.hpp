// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/request_context.hpp>

#include <cstdint>
#include <string>
#include <vector>

/// Keys for callables of libraries that were loaded after the function registry was made. A peer
/// asks for each key by the callable's name. The keys follow the keys of the registry's rows, and
/// are the same in all jobs of the process.
namespace farcall::late_callables {

/// Maximum number of such callables in a process.
inline constexpr std::uint32_t most = 512;

/// Value that stands for the number of a callable that is not available.
inline constexpr std::uint32_t none = UINT32_MAX;

/// Returns the number, counted from 0, of the callable with this name_for_peers() and signature.
/// Returns `none` if no loaded library has such a callable, or if all numbers are taken. Any thread
/// may call it.
[[nodiscard]] std::uint32_t number_of(const std::string& name, const std::string& signature);

/// Returns a handler for each number. A handler replies "unknown function" until its number is
/// assigned.
[[nodiscard]] std::vector<am::handler_function> handlers();

} // namespace farcall::late_callables
