// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rivals.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace farcall::tool {

/// Returns the path of a program beside this one. It exists if its library was found when the build
/// was configured.
[[nodiscard]] std::filesystem::path program_beside(const char* name);

/// Returns why a program is missing, or an empty text. `package` names the missing library for the
/// reader.
[[nodiscard]] std::string why_missing(const std::filesystem::path& program, const char* package);

/// Returns the words that each helper program takes: the two processors, the batches, the batches
/// of the warm-up, and the round trips per batch.
[[nodiscard]] std::vector<std::string> words_of(const rival_settings& settings, std::size_t calls);

/// Runs a command whose output is a line about the library, and then a line with nanoseconds per
/// round trip for each batch. The remark of the result is the first line.
[[nodiscard]] measured run_helper(const std::vector<std::string>& words,
                                  const rival_settings& settings);

[[nodiscard]] std::string first_line(const std::string& text);

} // namespace farcall::tool
