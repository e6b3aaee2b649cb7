// What layers below the jobs add to them. Here the layers come together.

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
