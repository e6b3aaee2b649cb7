// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/error.hpp>

#include <string>
#include <string_view>

namespace farcall::veo {

/// Exception for an invalid argument, which sets errno to EINVAL.
class invalid_argument : public error {
 public:
  using error::error;
};

/// Stores the reason why the calling thread's last call failed. farcall_veo_last_error() returns
/// it.
void set_last_error(std::string text);
[[nodiscard]] const char* last_error() noexcept;

/// Stores the error by set_last_error(), and prints it by print_error().
void report_error(std::string text);
/// Prints the error on standard error, like NEC's library. Prints nothing if FARCALL_VEO_ERRORS is
/// "quiet" or if the previous error had the same text. Does not store the error, so that this
/// function alone is called for a failed request for which no caller waits.
void print_error(const std::string& text) noexcept;

/// Returns an error message of farcall in the terms of this API. For example, "node 1" of the job
/// becomes "the helper process", because the API numbers nodes differently.
[[nodiscard]] std::string in_words_of_veo(std::string_view said);

/// Returns the text of the exception that is being handled.
[[nodiscard]] std::string current_error();

} // namespace farcall::veo
