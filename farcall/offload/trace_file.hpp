#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/trace/archive_module.h>
#include <farcall/trace/timeline.hpp>
#include <farcall/trace/timeline_view.hpp>

#include <functional>
#include <string>

namespace farcall::detail {

/// Throws setting_error that names the file and the setting.
[[noreturn]] void refuse_trace(const std::string& path, const std::string& why);

/// Where a timeline is to be written: a file in the trace event format that browsers show, or,
/// where its name ends with ".otf2", an archive in the Open Trace Format: that file, and beside it
/// a folder and a file whose names differ in the ending. The latter by a module,
/// libfarcall-otf2.so.
class trace_file {
 public:
  trace_file() = default;
  /// Tries whether it can be written: of what is not there yet nothing is left. What is there is
  /// emptied once there is something to write; an archive must not be there. Throws setting_error.
  explicit trace_file(std::string path);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Throws error.
  void write(const trace::timeline& from, const trace::host_clock& clock,
             const std::function<std::string(node_id)>& name_of_node);

 private:
  void try_file();
  void try_archive();
  void write_archive(const trace::timeline& from, const trace::host_clock& clock,
                     const std::function<std::string(node_id)>& name_of_node) const;

  std::string path_;
  unique_fd file_; ///< where there was one
  farcall_archive_writer* write_archive_ = nullptr;
};

} // namespace farcall::detail
