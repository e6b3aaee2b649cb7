#include <farcall/base/error.hpp>
#include <farcall/base/symbol_name.hpp>

namespace farcall {

std::string demangle_symbol(const std::string& name) {
  return name.starts_with("_Z") ? demangle(name.c_str()) : name;
}

} // namespace farcall
