// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/files/access.hpp>

#include <span>
#include <string>

namespace farcall::files {

/// The ways to use files of a host on another machine, by the setting host-files-by.
enum class way_of_files : unsigned char { automatic, mount, preload };

/// Returns the value of the setting. Throws setting_error.
[[nodiscard]] way_of_files chosen_way();

/// True if farcall-mount has started this process, with or without success.
[[nodiscard]] bool has_mount_helper() noexcept;

/// Asks the helper that farcall-mount has started to mount the host's prefixes for this process and
/// its children. `address` is the value of FARCALL_IO_SOCKET. Returns an empty text, or the reason
/// why nothing is mounted. On success, enters the working folder again, which may be below a mount.
/// May be called once. Throws setting_error.
[[nodiscard]] std::string mount_by_helper(const std::string& address);

/// Tells the helper that nothing is to be mounted. Does nothing if there is no helper.
void leave_mount_helper() noexcept;

/// Writes the changes of this process's shared mappings of files below the prefixes to the host.
void sync_mappings(std::span<const prefix> prefixes) noexcept;

} // namespace farcall::files
