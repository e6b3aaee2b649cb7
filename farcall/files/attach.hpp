// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/files/file_calls.hpp>

#include <memory>

/// Connects the library that a target has preloaded with the target's file_calls. The state is
/// global, because a process has one such library, and is a target of one job. This is the only
/// global state of the folder, and it is in attach.cpp.
namespace farcall::files {

/// Chooses by the setting FARCALL_IO_FORWARD. By default, the result is `nothing` if host and
/// target see the same files (`are_same`). Otherwise the default is `descriptors` if the host is on
/// this machine (`is_here`), and `data` if it is not. The setting `never` means `nothing`, and
/// `always` means `data`. Throws setting_error.
[[nodiscard]] forwarding chosen_forwarding(bool is_here, bool are_same);

/// Implements job_service_entry::check_target. Throws error if the host is on another machine and
/// the library is not preloaded, because the target would silently use the files of its own
/// machine.
void check_library(bool is_near);

/// Has the helper of farcall-mount mount the host's files for this process, if farcall-mount has
/// started it and all operations are performed by the host (`kind` is `data`). Otherwise, makes the
/// preloaded library forward calls that concern the host's files to `files`. Also starts a
/// child_server, for the helper or for the programs that this process starts, which find it in the
/// environment. Throws error if neither is possible, because the target would silently use the
/// files of its own machine.
void attach(const std::shared_ptr<file_calls>& files, forwarding kind);

/// Ends the forwarding. Before that, the library writes the data that streams have buffered. Does
/// nothing if `files` are not attached.
void detach(const file_calls& files) noexcept;

} // namespace farcall::files
