#pragma once

#include <farcall/offload/buffer.hpp>
#include <farcall/offload/future.hpp>

/// A call, for files that cannot name callables themselves.
[[nodiscard]] farcall::future<double> sum_on(const farcall::node& where,
                                             farcall::remote_span<const double> all);
