// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace farcall::tool {

/// The plugin by which LLVM's libomptarget runs target regions on the targets of a job, and the
/// program that these targets run. Both were built or installed with this command.
struct openmp_files {
  std::string folder; ///< folder of the plugin, for the loader's path
  std::string target; ///< path of farcall-openmp-target
};

/// Finds the plugin. Throws failed_run if this farcall was built without it.
[[nodiscard]] openmp_files find_openmp_plugin();

/// Returns the paths of the libraries libomptarget, of the versions that have a plugin, in the
/// folders of Debian's packages.
[[nodiscard]] std::vector<std::string> find_omptargets();

/// Returns the names of the shared libraries that an ELF file for this machine's processor needs,
/// in the order of the file. Returns an empty list for other files, such as scripts. Throws
/// failed_run for a damaged file.
[[nodiscard]] std::vector<std::string> needed_libraries(const std::string& file);

/// Returns the version of LLVM whose libomptarget is among the libraries, such as "16". Returns an
/// empty text if there is none. Throws usage_problem, which names the program, for a version that
/// the plugin does not support.
[[nodiscard]] std::string omptarget_version(const std::string& program,
                                            const std::vector<std::string>& libraries);

/// Adds a folder to the beginning of a path, a list with colons between its folders.
[[nodiscard]] std::string path_with(std::string_view folder, std::string_view path);

} // namespace farcall::tool
