// SPDX-License-Identifier: Apache-2.0
#include "unseen_program.hpp"

#include "text.hpp"

#include <farcall/base/text.hpp>

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include <unistd.h>

namespace farcall::tool {

std::string why_unseen(const std::string& program, const struct stat& file) {
  const std::string name = valid_text(base_name(program));
  const bool is_other_user = (file.st_mode & S_ISUID) != 0 && file.st_uid != ::geteuid();
  const bool is_other_group = (file.st_mode & S_ISGID) != 0 && file.st_gid != ::getegid();
  if (is_other_user || is_other_group) {
    return fmt::format(
        "{} is a set-user-ID or set-group-ID program, whose sampling the kernel ends "
        "when the program begins: sample the running process with --pid, as root",
        name);
  }
  constexpr std::string_view starters[] = {"srun",        "sbatch", "ssh",
                                           "systemd-run", "docker", "podman"};
  if (std::ranges::find(starters, std::string_view(name)) != std::end(starters)) {
    return fmt::format("programs that {0} has other processes start are no children of {0} and not "
                       "sampled: let {0} start farcall prof, as in '{0} ... farcall prof -- ./app'",
                       name);
  }
  return {};
}

} // namespace farcall::tool
