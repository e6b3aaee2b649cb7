// SPDX-License-Identifier: Apache-2.0

// Extensions of jobs that layers above them make: the access to files of the host, and calls of
// functions of shared libraries. They are named in this file, which belongs to no layer, because
// the layer of jobs must not include later layers.

#include <farcall/files/attach.hpp>
#include <farcall/files/file_calls.hpp>
#include <farcall/files/host_files.hpp>
#include <farcall/native/native_call.hpp>
#include <farcall/offload/job_service.hpp>

namespace farcall {
namespace {

/// Makes each program with a job contain the entry of native calls. From a static library, a linker
/// otherwise takes only the object files that the program itself needs.
[[gnu::used]] const entry* const native_calls = &native::native_entry;

} // namespace

const detail::job_service_entry& detail::service_entry() noexcept {
  static constexpr job_service_entry files{&files::make_host_files, &files::check_library,
                                           &files::join_files};
  return files;
}

} // namespace farcall
