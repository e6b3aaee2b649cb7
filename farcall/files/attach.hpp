#pragma once

#include <farcall/files/file_calls.hpp>

#include <memory>

/// Where a target's files meet the library that it has preloaded. The only global of this layer: a
/// process has one such library, and is a target of one job.
namespace farcall::files {

/// Has the library, if it is loaded, do what concerns the host's files by `files`; not where the
/// host `is_here`, on this machine, so that files are the same anyway, unless FARCALL_IO_FORWARD
/// says otherwise. Throws error where files of the host would silently be other ones, because there
/// is no library; setting_error for what FARCALL_IO_FORWARD does not take.
void attach(const std::shared_ptr<file_calls>& files, bool is_here);

/// Not any more. What streams hold is written before. Nothing where `files` are not the ones.
void detach(const file_calls& files) noexcept;

} // namespace farcall::files
