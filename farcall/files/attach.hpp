#pragma once

#include <farcall/files/file_calls.hpp>

#include <cstdint>
#include <memory>
#include <string_view>

/// Where a target's files meet the library that it has preloaded. The only global of this layer: a
/// process has one such library, and is a target of one job.
namespace farcall::files {

/// What becomes of a call that concerns a file of the host.
enum class forwarding : std::uint8_t {
  nothing,     ///< it is this machine's
  descriptors, ///< the host opens the file, and passes it where it can; else as `data`
  data,        ///< the host does all
};

/// As FARCALL_IO_FORWARD says, or by itself: nothing where the host `is_here`, on this machine, and
/// files are the same for both; descriptors where they are not. Throws setting_error.
[[nodiscard]] forwarding chosen_forwarding(bool is_here, bool are_same);

/// As job_service_entry::check_target: throws error where the host is elsewhere, and its files
/// would silently be other ones because the library is not loaded.
void check_library(std::string_view scheme);

/// Has the library do what concerns the host's files by `files`, and serves the programs that this
/// process starts, by a child_server that the environment names. Throws error where it is not
/// loaded, so that files of the host would silently be other ones.
void attach(const std::shared_ptr<file_calls>& files);

/// Not any more. What streams hold is written before. Nothing where `files` are not the ones.
void detach(const file_calls& files) noexcept;

} // namespace farcall::files
