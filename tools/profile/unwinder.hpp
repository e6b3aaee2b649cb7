#pragma once

#include "modules.hpp"
#include "perf_record.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace farcall::tool {

/// Finds callers in copies of stacks, by what compilers write about frames for exceptions. One
/// thread.
class unwinder {
 public:
  explicit unwinder(const modules& files);
  unwinder(const unwinder&) = delete;
  unwinder& operator=(const unwinder&) = delete;
  ~unwinder();

  /// Replaces the addresses of a sample where its registers and stack tell more.
  void unwind(const address_space& space, sample_record& sample);

 private:
  class session;

  [[maybe_unused]] const modules& files_;
  std::map<unsigned, std::unique_ptr<session>> sessions_; ///< by versions of address spaces
};

/// Whether this program can: with libdw, on an instruction set whose registers it knows.
[[nodiscard]] bool can_unwind();

} // namespace farcall::tool
