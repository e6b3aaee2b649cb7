#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/unique_fd.hpp>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>

namespace farcall::files {

/// Open files that the host passes to this target, which come by another way than the replies to
/// requests. Any thread.
class passed_files {
 public:
  /// Somebody expects one.
  class ticket {
   public:
    explicit ticket(passed_files& from);
    ticket(const ticket&) = delete;
    ticket& operator=(const ticket&) = delete;
    /// What has come is closed.
    ~ticket();

    [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
    /// Waits for it, until `deadline`; empty: it has not come.
    [[nodiscard]] unique_fd wait(time_point deadline);

   private:
    passed_files& from_;
    std::uint64_t number_;
  };

  /// One has come; closed where nobody expects it.
  void put(std::uint64_t number, unique_fd file) noexcept;

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, unique_fd> expected_; ///< empty until they come
};

} // namespace farcall::files
