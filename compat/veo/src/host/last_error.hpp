#pragma once

#include <string>
#include <string_view>

namespace farcall::veo {

/// Keeps why the calling thread's last call failed, for farcall_veo_last_error().
void set_last_error(std::string text);
[[nodiscard]] const char* last_error() noexcept;

/// The same, and says it on standard error, as NEC's library does, unless FARCALL_VEO_ERRORS=quiet.
/// What would be the same line as the last one is not said again.
void report_error(std::string text);
/// Says it only: of a request that failed while nobody waited for it.
void print_error(const std::string& text) noexcept;

/// What the library says of the helper, which is node 1 of a job of its own, and no node to the
/// program.
[[nodiscard]] std::string in_words_of_veo(std::string_view said);

/// The exception that is being handled, in words.
[[nodiscard]] std::string current_error();

} // namespace farcall::veo
