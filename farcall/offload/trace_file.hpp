// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/trace/archive_module.h>
#include <farcall/trace/timeline.hpp>
#include <farcall/trace/timeline_view.hpp>

#include <functional>
#include <string>

namespace farcall::detail {

/// Throws setting_error with a text that names the file, the setting and the reason `why`.
[[noreturn]] void refuse_trace(const std::string& path, const std::string& why);

/// Destination of a timeline. Usually this is a file in the trace event format, which browsers can
/// show. If the name of the file ends with ".otf2", it is an archive in the Open Trace Format 2:
/// this file, a second file, and a folder, whose names differ only in their endings. The module
/// libfarcall-otf2.so writes archives.
class trace_file {
 public:
  trace_file() = default;
  /// Checks that the timeline can be written, and leaves no new file behind. An existing file keeps
  /// its content until the timeline is written. An existing archive is refused. Throws
  /// setting_error.
  explicit trace_file(std::string path);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Writes the timeline to its destination. Throws error.
  void write(const trace::timeline& from, const trace::host_clock& clock,
             const std::function<std::string(node_id)>& name_of_node);

 private:
  void try_file();
  void try_archive();
  void write_archive(const trace::timeline& from, const trace::host_clock& clock,
                     const std::function<std::string(node_id)>& name_of_node) const;

  std::string path_;
  unique_fd file_; ///< descriptor of a pipe or terminal, kept open; empty for a regular file
  farcall_archive_writer* write_archive_ = nullptr;
};

} // namespace farcall::detail
