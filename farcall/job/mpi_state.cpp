// SPDX-License-Identifier: Apache-2.0
#include <farcall/job/mpi_state.hpp>

#include <cstddef>
#include <string_view>

#include <dlfcn.h>
#include <link.h>

namespace farcall {
namespace {

using mpi_question = int (*)(int*);

void* find_in_mpi(const char* name) noexcept {
  if (void* const found = ::dlsym(RTLD_DEFAULT, name)) return found;
  // Search each loaded library whose name contains "libmpi". An interpreter may have loaded MPI for
  // one of its modules only, so that the search in the global scope does not find it.
  struct search {
    const char* name;
    void* found = nullptr;
  } what{name};
  (void)::dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* data) -> int {
        auto& s = *static_cast<search*>(data);
        if (std::string_view(object->dlpi_name).find("libmpi") == std::string_view::npos) return 0;
        if (void* const library = ::dlopen(object->dlpi_name, RTLD_LAZY | RTLD_NOLOAD)) {
          s.found = ::dlsym(library, s.name);
          ::dlclose(library);
        }
        return s.found != nullptr ? 1 : 0;
      },
      &what);
  return what.found;
}

/// Returns true if the library that contains this function is Open MPI. Only Open MPI has a
/// variable with this name, because its handles are addresses of variables. Searches no other
/// library, because a module of farcall may have loaded a second MPI library, which the program
/// does not use.
bool is_of_open_mpi(void* function) noexcept {
  constexpr const char* variable = "ompi_mpi_comm_world";
  Dl_info info{};
  void* library = nullptr;
  if (::dladdr(function, &info) != 0 && info.dli_fname != nullptr)
    library = ::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  // There is no separate library if the program was linked with a static MPI library.
  if (library == nullptr) return ::dlsym(RTLD_DEFAULT, variable) != nullptr;
  const bool is_there = ::dlsym(library, variable) != nullptr;
  ::dlclose(library);
  return is_there;
}

} // namespace

mpi_state state_of_mpi() noexcept {
  const auto initialized = reinterpret_cast<mpi_question>(find_in_mpi("MPI_Initialized"));
  const auto finalized = reinterpret_cast<mpi_question>(find_in_mpi("MPI_Finalized"));
  if (initialized == nullptr || finalized == nullptr ||
      is_of_open_mpi(reinterpret_cast<void*>(initialized)))
    return mpi_state::absent;
  int is_initialized = 0;
  int is_finalized = 0;
  (void)initialized(&is_initialized);
  (void)finalized(&is_finalized);
  if (is_finalized != 0) return mpi_state::ended;
  return is_initialized != 0 ? mpi_state::running : mpi_state::not_started;
}

} // namespace farcall
