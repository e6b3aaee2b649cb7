// SPDX-License-Identifier: Apache-2.0
#include <tools/common/version_text.hpp>

#include <farcall/base/version.hpp>
#include <farcall/transport/card.hpp>
#include <farcall/transport/transport_module.hpp>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <commit.hpp>
#include <fmt/format.h>

namespace farcall::tool {

namespace {

bool is_installed(const std::string& module) {
  const auto exists = [](const std::string& file) {
    std::error_code ignored;
    return std::filesystem::exists(file, ignored);
  };
  return std::ranges::any_of(module_files(module), exists);
}

} // namespace

std::string version_text() {
  std::string text = fmt::format("farcall {}\n", release_text(this_release));
  text += fmt::format("commit: {}\n", FARCALL_TOOL_COMMIT);
  text += fmt::format("wire format: {}\n", wire_version);
  text += "transports: shm, tcp, cuda\n";
#if FARCALL_TOOL_HAS_TLS
  text += "encryption: tls\n";
#else
  text += "encryption: none, built without OpenSSL\n";
#endif
  std::string modules;
  for (const char* const module : {"ucx", "mpi", "otf2"}) {
    if (is_installed(module)) modules += (modules.empty() ? "" : ", ") + std::string(module);
  }
  return text + "modules: " + (modules.empty() ? "none" : modules);
}

} // namespace farcall::tool
