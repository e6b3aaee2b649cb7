// Extensions of jobs that layers above them make. The only one is the access to files of the host.
// It is named in this file, which belongs to no layer, because the layer of jobs must not include
// the layer of files.

#include <farcall/files/attach.hpp>
#include <farcall/files/file_calls.hpp>
#include <farcall/files/host_files.hpp>
#include <farcall/offload/job_service.hpp>

namespace farcall {

const detail::job_service_entry& detail::service_entry() noexcept {
  static constexpr job_service_entry files{&files::make_host_files, &files::check_library,
                                           &files::join_files};
  return files;
}

} // namespace farcall
