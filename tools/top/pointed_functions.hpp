// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "node_rates.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace farcall::tool {

/// Names of functions that are called by plain function pointers. The counters of a process have
/// only the types of such functions; the names are in the file of the running program.
class pointed_functions {
 public:
  /// Adds the names of the functions that were found running to the counts of the process. A name
  /// is missing if the program was stripped, or if its file cannot be read.
  void add_names(job_sample::process& p);

 private:
  /// By the inode of the counters' file, and the function handle.
  std::map<std::pair<ino_t, std::uint32_t>, std::string> known_;
};

} // namespace farcall::tool
