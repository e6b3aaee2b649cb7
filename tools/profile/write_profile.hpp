#pragma once

#include "call_tree.hpp"
#include "profile.hpp"

#include <string>

namespace farcall::tool {

/// Throws usage_problem when the file's ending stands for no format, naming the endings that there
/// are, and when the file cannot be written. Before anything is sampled; leaves no file behind.
void check_profile_file(const std::string& path);

/// Writes a profile in the format that the file's ending stands for; `root` is for flame graphs.
/// Throws usage_problem as above, and failed_run when the file cannot be written.
void write_profile(const std::string& path, const profile& p,
                   call_tree_options::roots root = call_tree_options::roots::functions);

} // namespace farcall::tool
