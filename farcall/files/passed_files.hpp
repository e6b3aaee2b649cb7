// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/unique_fd.hpp>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>

namespace farcall::files {

/// Open files that the host has passed to this target as descriptors. A descriptor arrives
/// separately from the reply to the open. Any thread may call the functions.
class passed_files {
 public:
  /// A number under which the owner of the ticket expects one open file.
  class ticket {
   public:
    explicit ticket(passed_files& from);
    ticket(const ticket&) = delete;
    ticket& operator=(const ticket&) = delete;
    /// Closes the file if it has arrived and the caller has not taken it.
    ~ticket();

    [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
    /// Waits until the file arrives, at most until `deadline`. Returns an empty descriptor if the
    /// file has not arrived by then.
    [[nodiscard]] unique_fd wait(time_point deadline);

   private:
    passed_files& from_;
    std::uint64_t number_;
  };

  /// Stores a file that has arrived, for the ticket with this number. Closes the file if there is
  /// no such ticket.
  void put(std::uint64_t number, unique_fd file) noexcept;

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::uint64_t last_ = 0;
  /// Expected files by their numbers; a descriptor is empty until its file arrives.
  std::map<std::uint64_t, unique_fd> expected_;
};

} // namespace farcall::files
