#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/transport/transport_module.hpp>

#include <utility>

#include <dlfcn.h>

namespace farcall {
namespace {

/// One module's row. Throws setting_error.
transport_entry load(const std::string& file, const std::string& what) {
  // All of its symbols now: what is missing shall not end the process in the middle of a call.
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
    throw setting_error(what + " names \"" + file +
                        "\", which was built for another version of farcall or with another "
                        "standard library; build it with this program's");
  }
  return module->entry();
}

} // namespace

void add_modules(std::vector<transport_entry>& rows, std::string_view files,
                 const std::string& what) {
  if (files.empty()) return;
  for (const std::string& file : split(files, ',')) {
    if (file.empty()) {
      throw setting_error(what + " has an empty name; give paths of shared libraries, comma "
                                 "separated");
    }
    transport_entry row = load(file, what);
    if (find_transport(rows, row.scheme) != nullptr) {
      throw setting_error(what + " names \"" + file + "\", whose transport \"" + row.scheme +
                          "\" is there already");
    }
    rows.push_back(std::move(row));
  }
}

} // namespace farcall
