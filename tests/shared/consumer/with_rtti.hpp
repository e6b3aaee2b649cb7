// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/future.hpp>
#include <farcall/copy/buffer.hpp>

/// Calls a function on `where` for files without RTTI, which cannot name callables.
[[nodiscard]] farcall::future<double> sum_on(const farcall::node& where,
                                             farcall::remote_span<const double> all);
