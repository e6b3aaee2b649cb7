// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/version.hpp>
#include <farcall/transport/transport_module.hpp>

#include <algorithm>
#include <filesystem>
#include <utility>

#include <dlfcn.h>

namespace farcall {
namespace {

/// Version of module_interface since which modules name their release.
constexpr std::uint32_t first_version_with_release = 4;

/// Loads one module and returns the table row that it provides. Throws setting_error.
transport_entry load(const std::string& file, const std::string& what) {
  // Resolve all symbols now, because a missing symbol must not end the process in the middle of a
  // call.
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    throw setting_error(what + " names \"" + file + "\", which cannot be loaded: " +
                        (why != nullptr ? why : "no reason is known"));
  }
  const auto* const module = static_cast<const transport_module*>(::dlsym(library, module_symbol));
  if (module == nullptr) {
    throw setting_error(what + " names \"" + file +
                        "\", which is no module with a transport: it has no symbol " +
                        module_symbol + " (see FARCALL_TRANSPORT_MODULE)");
  }
  if (module->built_for != this_interface()) {
    const std::string release = module->built_for.version < first_version_with_release
                                    ? ""
                                    : " (" + release_text(module->release) + ")";
    throw setting_error(what + " names \"" + file +
                        "\", which was built for another version of farcall" + release +
                        " or with another standard library than this program (" +
                        release_text(this_release) + "); build it with this program's");
  }
  return module->entry();
}

bool is_scheme(const std::string& name) {
  return std::ranges::all_of(
      name, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
}

/// Returns the file that contains this library's code: the shared library, or the program if the
/// library is linked statically.
std::filesystem::path own_file() {
  ::Dl_info found{};
  if (::dladdr(reinterpret_cast<const void*>(&module_files), &found) == 0) return {};
  std::error_code failed;
  // Fall back to the path of this process's program if canonical() fails: if the code is in the
  // program, dladdr() gives argv[0], which need not be the program's path.
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", failed);
  const std::filesystem::path file = std::filesystem::canonical(found.dli_fname, failed);
  return failed ? own : file;
}

/// Returns the module file to load for a name or path that the user gave.
std::string file_for(const std::string& name, const std::string& what) {
  if (!is_scheme(name)) return name;
  const std::vector<std::string> candidates = module_files(name);
  for (const std::string& file : candidates) {
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored)) return file;
  }
  std::string looked_at;
  for (const std::string& file : candidates)
    looked_at += (looked_at.empty() ? "" : ", ") + file;
  throw setting_error(what + " names the transport \"" + name +
                      "\", whose module is not installed: there is no " + looked_at +
                      "; build farcall beside the library that it needs, or give the path of a "
                      "module");
}

} // namespace

std::vector<std::string> module_files(const std::string& scheme) {
  const std::string file = versioned_folder() + "/libfarcall-" + scheme + ".so";
  std::vector<std::string> all;
  if (const std::filesystem::path own = own_file(); !own.empty()) {
    const std::filesystem::path folder = own.parent_path();
    all.push_back(folder / file);
    // Also search the lib folders beside the program's bin folder.
    for (const char* const beside : {"lib", "lib64"})
      all.push_back(folder.parent_path() / beside / file);
  }
#ifdef FARCALL_LIBRARY_FOLDER
  const std::string installed = FARCALL_LIBRARY_FOLDER "/" + file;
  if (std::ranges::find(all, installed) == all.end()) all.push_back(installed);
#endif
  return all;
}

void add_modules(std::vector<transport_entry>& rows, std::string_view files,
                 const std::string& what) {
  if (files.empty()) return;
  for (const std::string& file : split(files, ',')) {
    if (file.empty()) {
      throw setting_error(what + " has an empty name; give transports, or paths of shared "
                                 "libraries, comma separated");
    }
    transport_entry row = load(file_for(file, what), what);
    if (find_transport(rows, row.scheme) != nullptr) {
      throw setting_error(what + " names \"" + file + "\", whose transport \"" + row.scheme +
                          "\" is there already");
    }
    rows.push_back(std::move(row));
  }
}

void add_module_if_present(std::vector<transport_entry>& rows, const std::string& scheme) {
  try {
    add_modules(rows, scheme, "this machine");
  } catch (const setting_error& e) {
    log::info(e.what());
  }
}

} // namespace farcall
