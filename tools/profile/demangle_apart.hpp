// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace farcall::tool {

/// Demangles a C++ name in a forked process with little memory and time. A short name may expand to
/// gigabytes, and the length is known only afterwards. Returns the name itself if it cannot be
/// demangled, or if the result is longer than elf_file::max_name.
[[nodiscard]] std::string demangle_apart(const std::string& name);

/// Returns the beginning of a C++ name, without template arguments: "farcall::detail::call<…>".
/// Meant for names that the C++ library cannot demangle, for instance some with lambdas. Returns
/// the name itself if it begins in another way.
[[nodiscard]] std::string first_names(std::string_view mangled);

} // namespace farcall::tool
