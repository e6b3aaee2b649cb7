// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall_am2.h>

#include <cstddef>
#include <cstdint>

namespace farcall::am2 {

/// Calls `f(token, arguments...)` with `count` arguments, even if the function `f` declares more or
/// fewer parameters.
void call_short(amx_handler_fn_t f, void* token, const std::int32_t* arguments, int count) noexcept;
/// Calls the handler `f(token, payload, bytes, arguments...)`. As in call_short(), `f` may declare
/// more or fewer parameters than there are arguments.
void call_with_payload(amx_handler_fn_t f, void* token, void* payload, std::size_t bytes,
                       const std::int32_t* arguments, int count) noexcept;

} // namespace farcall::am2
