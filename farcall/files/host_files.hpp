#pragma once

#include <farcall/am/request_context.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/files/access.hpp>
#include <farcall/files/file_messages.hpp>
#include <farcall/offload/job_service.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace farcall::files {

/// Most files that a target may have open at a time; then opening gives EMFILE.
inline constexpr std::size_t most_open_files = 1024;

/// The host's side: what targets may use, and what each of them has open. A target's files are
/// closed when it ends, and cannot be used by others. Any thread.
///
/// Each operation is the system call of the same name, on the thread that runs the request, and may
/// block as that does. Requests of one lane run one after the other.
class host_files final : public detail::job_service {
 public:
  explicit host_files(access_list allowed);

  /// Does what `what` says and replies to `to`, in that job. Throws out_of_memory and
  /// std::bad_alloc.
  void serve(const detail::job_state& job, am::request_context& to, const request& what);

  [[nodiscard]] std::string for_targets() const override;
  void node_ended(node_id node) noexcept override;

 private:
  /// An open file of a target. Closed once nobody uses it any more, by whoever was the last.
  struct open_file {
    open_file() = default;
    open_file(const open_file&) = delete;
    open_file& operator=(const open_file&) = delete;
    ~open_file();

    unique_fd descriptor;
    /// What closing it gave; 0 until then.
    std::shared_ptr<std::atomic<std::int64_t>> closed =
        std::make_shared<std::atomic<std::int64_t>>(0);
    bool is_writable = false; ///< it lies where targets may write
    /// A read or write in pieces of which one came out short, or failed: those behind it do
    /// nothing.
    std::atomic<std::uint64_t> stopped{0};
  };
  using file_ref = std::shared_ptr<open_file>;

  struct target {
    std::map<std::uint64_t, file_ref> files;
    std::uint64_t last = 0; ///< number that was given to a file
    bool has_ended = false;
  };

  [[nodiscard]] file_ref find(node_id node, std::uint64_t file);
  /// Number, or -errno.
  [[nodiscard]] std::int64_t keep(node_id node, unique_fd opened, bool is_writable);

  [[nodiscard]] std::int64_t open(const detail::job_state& job, node_id node, const request& what,
                                  opened_file& opened);
  [[nodiscard]] std::int64_t close(node_id node, std::uint64_t file);
  [[nodiscard]] std::int64_t write(open_file& file, const request& what);
  [[nodiscard]] std::int64_t on_file(open_file& file, const request& what,
                                     std::vector<std::byte>& bytes);
  [[nodiscard]] std::int64_t on_either(node_id node, const request& what,
                                       std::vector<std::byte>& bytes);
  [[nodiscard]] std::int64_t on_path(const request& what, std::vector<std::byte>& bytes);
  void read(am::request_context& to, open_file& file, const request& what);

  access_list allowed_;
  std::mutex mutex_;
  std::map<node_id, target> targets_;
};

/// As job_service_entry::on_host.
[[nodiscard]] std::shared_ptr<detail::job_service> make_host_files(const job_options& options);

} // namespace farcall::files
