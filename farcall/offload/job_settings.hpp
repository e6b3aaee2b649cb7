#pragma once

#include <farcall/base/settings_source.hpp>
#include <farcall/offload/job.hpp>

namespace farcall::detail {

/// What the user has given stands above the program's options, and these above defaults. Throws
/// setting_error.
[[nodiscard]] job_options complete(job_options o, const settings_source& given);

} // namespace farcall::detail
