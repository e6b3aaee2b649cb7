#pragma once

#include <farcall/base/settings_source.hpp>
#include <farcall/offload/job.hpp>
#include <farcall/transport/target_url.hpp>

#include <string>
#include <vector>

namespace farcall::detail {

/// What the user has given stands above the program's options, and these above defaults. Throws
/// setting_error.
[[nodiscard]] job_options complete(job_options o, const settings_source& given);

/// The targets that a job of equals is to have. Throws setting_error.
[[nodiscard]] std::vector<target_url> parse_equals(const std::string& targets);

/// Throws start_failed where the user has asked for a job of equals.
void refuse_plain_jobs(const settings_source& given);

} // namespace farcall::detail
