// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

/// Files of shared libraries, and why one of them cannot be loaded.
namespace farcall::native {

/// Returns a text about a defect of a library file that the loader would not report, or an empty
/// text. There are two such defects. A file that is shorter than its headers say raises SIGBUS in
/// the loader, and the loader skips a file for another processor as if it did not exist. The text
/// about another processor ends with `advice`.
[[nodiscard]] std::string damage_of_library(const char* file, std::string_view advice);

/// Loads a library by dlopen() with these flags. If that fails, returns null and sets `why` to the
/// reason. The reason is the loader's, except for defects that damage_of_library() finds in the
/// file, or for a name without a folder in a file of LD_LIBRARY_PATH.
[[nodiscard]] void* open_library_file(const char* file, int flags, std::string_view advice,
                                      std::string& why);

/// Returns the text of the loader's last error in this thread.
[[nodiscard]] std::string last_loader_error();

/// Returns the first file named `name` in the folders of `list`, which has the format of PATH, that
/// this process may read. Returns an empty text if there is none, or if `list` is null.
[[nodiscard]] std::string find_in_folders(const char* list, const std::string& name);

} // namespace farcall::native
