// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "call_tree.hpp"
#include "profile.hpp"

#include <string>
#include <vector>

namespace farcall::tool {

/// Checks the name of a profile's file. Throws usage_problem if the ending is no known format, with
/// the list of endings, or if the file cannot be written. Must be called before sampling. Leaves no
/// file behind.
void check_profile_file(const std::string& path);

struct profile_file_options {
  call_tree_options::roots root = call_tree_options::roots::functions; ///< of flame graphs
  std::vector<std::string> notes = {}; ///< sentences for a page, see notes_on()
};

/// Writes a profile in the format that the file's ending names. Throws usage_problem like
/// check_profile_file(), and failed_run if the file cannot be written.
void write_profile(const std::string& path, const profile& p,
                   const profile_file_options& options = {});

} // namespace farcall::tool
