// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace farcall::mount {

/// Moves this process into a mount namespace of its own, from which no mount reaches another one.
/// An ordinary user also gets a user namespace, in which only this user exists. Throws error.
void enter_own_namespace();

/// Makes a folder or an empty file at a path, unless it exists, so that something can be mounted
/// there. The new entries exist in this mount namespace only: a folder in memory takes the place of
/// the deepest folder of the path that exists, and has the same entries, owner and mode. Throws
/// error.
void make_mount_point(const std::string& path, bool is_folder);

/// Takes away the folders in memory that make_mount_point() has made, except the root folder.
void remove_covers() noexcept;

} // namespace farcall::mount
