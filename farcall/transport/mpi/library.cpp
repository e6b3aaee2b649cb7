// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/log.hpp>
#include <farcall/transport/mpi/library.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <vector>

#include <dlfcn.h>
#include <link.h>
#include <mpi.h>
#include <unistd.h>

namespace farcall::mpi {
namespace {

#if defined(OPEN_MPI)
constexpr bool is_for_open_mpi = true;
constexpr const char* built_for = "Open MPI";
#else
constexpr bool is_for_open_mpi = false;
#if defined(MPICH_VERSION)
constexpr const char* built_for = "MPICH " MPICH_VERSION;
#else
constexpr const char* built_for = "an MPI library with MPICH's interface";
#endif
#endif

constexpr const char* another_module =
    "; name the module that was built for that MPI library in FARCALL_TRANSPORT_MODULES";

/// A library of this process that defines MPI's functions.
struct mpi_library {
  std::string file;
  const void* base = nullptr;
  bool is_open_mpi = false;
  bool is_initialized = false;
};

std::string name_of(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

/// Returns the library that defines `function`, which is a function of PMPI. Functions of MPI's own
/// names would not do, because profiling tools also define these.
mpi_library library_with(void* function) {
  mpi_library l;
  Dl_info info{};
  if (::dladdr(function, &info) == 0) return l;
  l.base = info.dli_fbase;
  l.file = info.dli_fname != nullptr ? info.dli_fname : "";
  // If the library cannot be opened by its name, search the whole process for the symbol. This
  // happens in a program that was linked with MPI's static library.
  void* const opened = ::dlopen(l.file.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  // Only Open MPI has this symbol, because only Open MPI's handles are addresses of variables.
  l.is_open_mpi =
      ::dlsym(opened != nullptr ? opened : RTLD_DEFAULT, "ompi_mpi_comm_world") != nullptr;
  if (opened != nullptr) ::dlclose(opened);
  return l;
}

/// Returns all MPI libraries in this process except the library `ours`.
std::vector<mpi_library> others_than(const mpi_library& ours) {
  std::vector<std::string> files;
  (void)::dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* data) -> int {
        if (name_of(object->dlpi_name).starts_with("libmpi"))
          static_cast<std::vector<std::string>*>(data)->emplace_back(object->dlpi_name);
        return 0;
      },
      &files);
  std::vector<mpi_library> found;
  for (const std::string& file : files) {
    void* const opened = ::dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (opened == nullptr) continue;
    if (void* const function = ::dlsym(opened, "PMPI_Initialized")) {
      mpi_library l = library_with(function);
      const bool is_new = std::none_of(found.begin(), found.end(),
                                       [&](const mpi_library& f) { return f.base == l.base; });
      if (l.base != nullptr && l.base != ours.base && is_new) {
        int is_initialized = 0;
        (void)reinterpret_cast<int (*)(int*)>(function)(&is_initialized);
        l.is_initialized = is_initialized != 0;
        found.push_back(std::move(l));
      }
    }
    ::dlclose(opened);
  }
  return found;
}

struct users {
  std::mutex mutex;
  std::vector<user*> all;
  bool is_watching = false; ///< MPI_Finalize will call us
};

/// Never destroy the object, because the module stays loaded until the process ends.
users& known_users() {
  static auto* const all = new users;
  return *all;
}

int on_finalize(MPI_Comm, int, void*, void*) {
  std::vector<user*> all;
  {
    const std::lock_guard guard(known_users().mutex);
    all = known_users().all;
  }
  for (user* const u : all)
    u->before_end();
  return MPI_SUCCESS;
}

pid_t starter = 0;

const char* name_of_level(int level) {
  switch (level) {
  case MPI_THREAD_SINGLE:
    return "MPI_THREAD_SINGLE";
  case MPI_THREAD_FUNNELED:
    return "MPI_THREAD_FUNNELED";
  case MPI_THREAD_SERIALIZED:
    return "MPI_THREAD_SERIALIZED";
  default:
    return "MPI_THREAD_MULTIPLE";
  }
}

int level_now() {
  int level = MPI_THREAD_SINGLE;
  (void)::MPI_Query_thread(&level);
  return level;
}

} // namespace

std::string text_of(int result) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int bytes = 0;
  if (::MPI_Error_string(result, text, &bytes) != MPI_SUCCESS) bytes = 0;
  return {text, static_cast<std::size_t>(bytes)};
}

std::string library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int bytes = 0;
  (void)::MPI_Get_library_version(text, &bytes);
  std::string all(text, static_cast<std::size_t>(std::max(bytes, 0)));
  // Keep the text up to the first comma or line end. In the rest of the text, Open MPI and MPICH
  // say how the library was built.
  all.resize(std::min(all.find_first_of(",\n"), all.size()));
  std::replace(all.begin(), all.end(), '\t', ' ');
  return all;
}

std::string why_unusable() {
  const mpi_library ours = library_with(reinterpret_cast<void*>(&::PMPI_Initialized));
  if (ours.is_open_mpi != is_for_open_mpi) {
    return std::string("this module was built for ") + built_for + ", and this program has " +
           (ours.is_open_mpi ? "Open MPI" : "another MPI library") + " (" + ours.file + ")" +
           another_module;
  }
  for (const mpi_library& other : others_than(ours)) {
    if (!other.is_initialized) continue;
    return "this program uses " + other.file + ", and this module would use " + ours.file +
           another_module;
  }
  return {};
}

phase phase_now() noexcept {
  int is_initialized = 0;
  int is_finalized = 0;
  (void)::MPI_Initialized(&is_initialized);
  (void)::MPI_Finalized(&is_finalized);
  if (is_finalized != 0) return phase::ended;
  return is_initialized != 0 ? phase::running : phase::not_started;
}

void start() {
  // Take a lock, because several threads may make jobs at the same time.
  static std::mutex starting;
  const std::lock_guard guard(starting);
  if (phase_now() != phase::not_started) return;
  int level = MPI_THREAD_SINGLE;
  const int result = ::MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  if (result != MPI_SUCCESS) throw error("MPI_Init_thread failed");
  starter = ::getpid();
  (void)std::atexit(&finalize);
  log::info("MPI was initialised for the transport mpi, with " + std::string(name_of_level(level)));
}

void finalize() noexcept {
  if (starter == 0 || ::getpid() != starter || phase_now() != phase::running) return;
  {
    const std::lock_guard guard(known_users().mutex);
    if (!known_users().all.empty()) return;
  }
  (void)::MPI_Finalize();
}

threads thread_level() {
  const int level = level_now();
  if (level == MPI_THREAD_SINGLE) {
    throw error("MPI was initialised for programs of one thread, which farcall's are not: call "
                "MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) in place of MPI_Init; "
                "MPI_THREAD_FUNNELED will do");
  }
  if (level == MPI_THREAD_MULTIPLE) return threads::all;
  int is_main = 0;
  (void)::MPI_Is_thread_main(&is_main);
  if (level == MPI_THREAD_FUNNELED && is_main == 0) {
    throw error(
        "MPI was initialised with MPI_THREAD_FUNNELED by another thread than this one: make the "
        "job on that thread, or ask MPI_Init_thread for MPI_THREAD_MULTIPLE");
  }
  return threads::one;
}

std::string level_text() { return name_of_level(level_now()); }

void user::join() {
  users& known = known_users();
  const std::lock_guard guard(known.mutex);
  if (!known.is_watching) {
    // Set an attribute of MPI_COMM_SELF. MPI_Finalize deletes such attributes before it does
    // anything else, and then calls on_finalize().
    int keyval = MPI_KEYVAL_INVALID;
    if (::MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &on_finalize, &keyval, nullptr) !=
            MPI_SUCCESS ||
        ::MPI_Comm_set_attr(MPI_COMM_SELF, keyval, &known) != MPI_SUCCESS) {
      throw error("MPI does not tell when it ends");
    }
    known.is_watching = true;
  }
  known.all.push_back(this);
}

void user::leave() noexcept {
  users& known = known_users();
  const std::lock_guard guard(known.mutex);
  std::erase(known.all, this);
}

} // namespace farcall::mpi
