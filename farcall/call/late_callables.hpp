#pragma once

#include <farcall/am/request_context.hpp>

#include <cstdint>
#include <string>
#include <vector>

/// Keys for callables of libraries that were loaded after the function registry was made. Peers ask
/// for each by name. The keys follow those of the registry's rows and are the process's, the same
/// in all of its jobs.
namespace farcall::late_callables {

/// How many there can be in a process.
inline constexpr std::uint32_t most = 512;

/// What a key before it is given out, and for ever, stands for: none.
inline constexpr std::uint32_t none = UINT32_MAX;

/// Number of the callable with that name for peers and signature, from 0; `none` when no library
/// that is loaded by now has brought it, or all numbers are taken. Any thread may ask.
[[nodiscard]] std::uint32_t number_of(const std::string& name, const std::string& signature);

/// One handler for each number; one that is not given out replies that the function is unknown.
[[nodiscard]] std::vector<am::handler> handlers(const void* context);

} // namespace farcall::late_callables
