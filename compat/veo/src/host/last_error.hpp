#pragma once

#include <string>

namespace farcall::veo {

/// Keeps why the calling thread's last call failed, for farcall_veo_last_error().
void set_last_error(std::string text);
[[nodiscard]] const char* last_error() noexcept;

/// The exception that is being handled, in words.
[[nodiscard]] std::string current_error();

} // namespace farcall::veo
