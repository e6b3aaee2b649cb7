#pragma once

#include <farcall_am2.h>

#include <cstddef>
#include <cstdint>

namespace farcall::am2 {

/// Calls `f(token, arguments...)`. The number of arguments is the message's, whatever `f` declares.
void call_short(amx_handler_fn_t f, void* token, const std::int32_t* arguments, int count) noexcept;
/// Calls `f(token, payload, bytes, arguments...)`.
void call_with_payload(amx_handler_fn_t f, void* token, void* payload, std::size_t bytes,
                       const std::int32_t* arguments, int count) noexcept;

} // namespace farcall::am2
