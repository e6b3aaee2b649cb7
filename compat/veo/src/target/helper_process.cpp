// SPDX-License-Identifier: Apache-2.0
#include "helper_process.hpp"
#include "fault.hpp"
#include "kernel_stack.hpp"
#include "leaving.hpp"
#include "result_history.hpp"
#include "signature.hpp"
#include "source_lines.hpp"
#include "vhcall_forward.hpp"

#include "../kernel/memory_copy.h"

#include <farcall/base/bytes.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/library_thread.hpp>
#include <farcall/base/log.hpp>
#include <farcall/call/register_callables.hpp>
#include <farcall/copy/buffer.hpp>
#include <farcall/native/library_file.hpp>
#include <farcall/offload/job_state.hpp>

#include <algorithm>
#include <cerrno>
#include <cfenv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/shm.h>
#include <unistd.h>

namespace farcall::veo {
namespace {

/// Minimum number of bytes of stack that must be left for a kernel below its frame, the memory of
/// its stack arguments. If fewer would be left, the frame is allocated on the heap.
constexpr std::size_t min_stack_below_frame = std::size_t{1} << 20;
constexpr std::size_t frame_alignment = 64;

/// Time for sending the replies that report the end of a kernel, before the process ends.
constexpr std::chrono::milliseconds last_replies{100};
constexpr int signal_status = 128;

constexpr std::size_t max_thread_name = 15;

/// State of the worker thread that runs the requests of a context.
struct context_worker {
  context_worker() = default;
  context_worker(const context_worker&) = delete;
  context_worker& operator=(const context_worker&) = delete;
  /// Keeps the memory of the stack if this destructor runs because a kernel has called exit(): the
  /// thread still runs on that stack.
  ~context_worker() {
    if (!is_in_kernel) return;
    [[maybe_unused]] const kernel_stack* const used = stack.release();
    [[maybe_unused]] const std::byte* const frame = large_frame.release();
  }

  std::unique_ptr<kernel_stack> stack;
  result_history results;
  std::unique_ptr<std::byte[]> large_frame;
  std::size_t large_frame_bytes = 0;
  bool is_in_kernel = false;
};

/// Marks a worker thread as inside a kernel while this object exists.
class kernel_run {
 public:
  explicit kernel_run(context_worker& w) noexcept : worker_(w) { w.is_in_kernel = true; }
  ~kernel_run() { worker_.is_in_kernel = false; }
  kernel_run(const kernel_run&) = delete;
  kernel_run& operator=(const kernel_run&) = delete;

 private:
  context_worker& worker_;
};

context_worker& this_worker() {
  thread_local context_worker w;
  return w;
}

// Semaphore that the thread of the first failed kernel posts. That thread can do nothing else
// safely, so another thread waits for the semaphore and ends the process.
sem_t kernel_failed; // NOLINT(cppcoreguidelines-interfaces-global-init): made in the constructor
std::atomic<int> fatal_signal{0};

std::atomic<bool> is_serving{false};

/// Exit handler for kernels that call exit(). It writes buffered output and ends the process
/// without a return to exit(). Otherwise exit() would destroy objects of this program, which other
/// threads still use.
void leave_at_once(int status, void* /*argument*/) {
  if (!is_serving.load()) return;
  leave_with_exit_reason(status);
}

void end_when_failed() {
  while (::sem_wait(&kernel_failed) != 0) {
  }
  std::this_thread::sleep_for(last_replies);
  leave_after_crash(signal_status + fatal_signal.load());
}

/// Copies memory between addresses that the host has sent and that may be invalid. Returns false if
/// an address is invalid.
bool copy_carefully(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  return farcall_veo_memory_copy(to, from, bytes) == 0;
}

/// True if the range is inside the shared memory of this node. Such a range needs no further check,
/// because all of this memory is mapped.
bool is_shared(std::uint64_t address, std::uint64_t bytes) {
  static const auto windows = detail::current_job().engine->heap().windows();
  return std::any_of(windows.begin(), windows.end(), [&](const auto& w) {
    const std::uint64_t offset = address - w.first;
    return offset <= w.second && bytes <= w.second - offset;
  });
}

void pin(const context_settings& s) {
  if (s.first_core < 0) return;
  const long cores = ::sysconf(_SC_NPROCESSORS_CONF);
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < s.cores; ++i) {
    CPU_SET(static_cast<std::size_t>((s.first_core + i) % cores), &set);
  }
  if (::pthread_setaffinity_np(::pthread_self(), sizeof set, &set) != 0) {
    log::warning("a context cannot be pinned to core " + std::to_string(s.first_core) +
                 "; VE_CORE_NUMBER names a core that this process may not use");
  }
}

/// Returns the floating-point exceptions that are to end a kernel, as named by NEC's environment
/// variable VE_FPE_ENABLE.
int trapped_exceptions() {
  constexpr std::pair<std::string_view, int> known[] = {{"DIV", FE_DIVBYZERO},
                                                        {"FOF", FE_OVERFLOW},
                                                        {"FUF", FE_UNDERFLOW},
                                                        {"INV", FE_INVALID},
                                                        {"INE", FE_INEXACT}};
  const char* text = std::getenv("VE_FPE_ENABLE");
  std::istringstream words(text == nullptr ? "" : text);
  int trapped = 0;
  for (std::string word; std::getline(words, word, ',');) {
    const auto* found = std::find_if(std::begin(known), std::end(known),
                                     [&](const auto& k) { return k.first == word; });
    if (found == std::end(known)) {
      log::warning("VE_FPE_ENABLE: '" + word + "' is none of DIV, FOF, FUF, INV, INE; ignored");
    } else {
      trapped |= found->second;
    }
  }
  return trapped;
}

/// Makes floating-point exceptions raise SIGFPE in the calling thread and in threads that it
/// creates.
void trap_exceptions(int which) {
  if (which == 0) return;
  // Clear exceptions that are already pending, because they would raise SIGFPE as soon as they are
  // enabled.
  std::feclearexcept(FE_ALL_EXCEPT);
  if (::feenableexcept(which) == -1) {
    log::warning("VE_FPE_ENABLE: this processor does not trap floating-point exceptions");
  }
}

/// Registers the messages that hosts send. An explicit registration is needed: messages are
/// otherwise registered where they are sent, and this program sends none of them.
void register_messages() {
  register_callables<start_helper, open_context, run_kernel, run_kernel_with_frame, load_library,
                     unload_library, find_symbol, allocate_memory, release_memory, write_memory,
                     read_memory, copy_memory, find_segment, attach_segment, detach_segment>();
}

/// Makes waiting threads of OpenMP sleep instead of spin on machines with at most 4 CPUs. Spinning
/// threads would take the CPUs from the kernel's other threads, and from the program, which spins
/// while it waits for results.
void let_openmp_sleep_where_processors_are_few() {
  constexpr int few = 4;
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) > few) return;
  ::setenv("OMP_WAIT_POLICY", "passive", 1);
}

void do_nothing(int /*signal*/) {}

/// Installs empty handlers for SIGINT and SIGQUIT, which a terminal sends to the whole process
/// group. The helper does not end by these signals, because the program decides whether to end, and
/// the helper ends with it. SIG_IGN would be inherited by programs that a kernel starts; a handler
/// is not.
void leave_interrupts_to_the_program() {
  for (const int signal : {SIGINT, SIGQUIT}) {
    struct sigaction action{};
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    action.sa_handler = &do_nothing;
    action.sa_flags = SA_RESTART;
    (void)::sigaction(signal, &action, nullptr);
  }
}

/// Runtime libraries with which NEC's helper program is linked, so that kernel libraries need not
/// be linked with them. Each library has the functions whose names begin with its prefix.
constexpr std::pair<std::string_view, const char*> compiler_libraries[] = {
    {"GOMP_", "libgomp.so.1"},
    {"omp_", "libgomp.so.1"},
    {"__kmpc_", "libomp.so.5"},
    {"_gfortran_", "libgfortran.so.5"},
    {"_ZGV", "libmvec.so.1"}};

/// Loads the runtime library that defines the symbol which `loader_error` reports as undefined.
/// Returns false if no such library could be loaded, or if all of them are loaded already.
bool load_what_is_missing(std::string_view loader_error) {
  constexpr std::string_view words = "undefined symbol: ";
  const std::size_t at = loader_error.find(words);
  if (at == std::string_view::npos) return false;
  const std::string_view symbol = loader_error.substr(at + words.size());
  for (const auto& [beginning, file] : compiler_libraries) {
    if (!symbol.starts_with(beginning)) continue;
    // Skip a library that is already loaded globally, because it cannot define the missing symbol.
    if (void* loaded = ::dlopen(file, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL)) {
      ::dlclose(loaded);
      continue;
    }
    if (::dlopen(file, RTLD_NOW | RTLD_GLOBAL) != nullptr) return true;
  }
  return false;
}

/// Loads a library by dlopen(). Returns null and sets `why` to the reason if that fails.
void* open_file(const char* file, std::string& why) {
  constexpr std::string_view advice = ", and kernels run on this machine's processor: compile it "
                                      "with farcall's ncc, nc++ or nfort";
  for (;;) {
    void* const library = native::open_library_file(file, RTLD_NOW | RTLD_GLOBAL, advice, why);
    if (library != nullptr || !load_what_is_missing(why)) return library;
  }
}

/// Loads a library. A name without a folder is searched in VE_LD_LIBRARY_PATH first, and in the
/// loader's search path after that.
void* open_library(const std::string& name, std::string& why) {
  std::string file;
  if (name.find('/') == std::string::npos)
    file = native::find_in_folders(std::getenv("VE_LD_LIBRARY_PATH"), name);
  return open_file(file.empty() ? name.c_str() : file.c_str(), why);
}

} // namespace

helper_process::helper_process() {
  ::sem_init(&kernel_failed, 0, 0);
  install_fault_handlers();
  explain_traces_by(&write_source_lines);
  register_messages();
  instance = this;
}

helper_process::~helper_process() {
  is_serving.store(false);
  instance = nullptr;
}

helper_description helper_process::start(const helper_settings& settings) {
  for (const std::string& variable : settings.environment) {
    const auto equals = variable.find('=');
    ::setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1);
  }
  strip_tags_of(settings.identifier);
  if (settings.serves_vhcall) forward_vhcall(settings.identifier);
  let_openmp_sleep_where_processors_are_few();
  leave_interrupts_to_the_program();
  prepare_leaving();
  library_thread("farcall-service", &end_when_failed).release();
  is_serving.store(true);
  ::on_exit(&leave_at_once, nullptr);
  helper_description d;
  d.pid = static_cast<std::uint64_t>(::getpid());
#if !FARCALL_VEO_HAS_DWARF
  d.remark = "built without libdw: kernels are called as their arguments were set";
#endif
  return d;
}

void helper_process::open_context(const context_settings& settings) {
  // If start() has stored true, this load makes everything that start() has set before visible to
  // the rest of this function.
  if (!is_serving.load()) throw error("a context cannot be opened before the helper is started");
  // Name the thread for debuggers. Threads that kernels create inherit the name.
  const std::string name = "veo-context-" + std::to_string(contexts_made_.fetch_add(1));
  (void)::pthread_setname_np(::pthread_self(), name.substr(0, max_thread_name).c_str());
  this_worker().stack = std::make_unique<kernel_stack>(settings.stack_bytes);
  pin(settings);
  trap_exceptions(trapped_exceptions());
}

// ---- kernels ------------------------------------------------------------------------------------

void helper_process::end_soon(int signal) noexcept {
  is_ending_.store(true, std::memory_order_release);
  int none = 0;
  if (fatal_signal.compare_exchange_strong(none, signal)) ::sem_post(&kernel_failed);
}

bool helper_process::is_ending(outcome& o) const noexcept {
  if (!is_ending_.load(std::memory_order_acquire)) [[likely]]
    return false;
  o.signal = outcome::refused;
  return true;
}

bool helper_process::is_ending(found& f) const {
  if (!is_ending_.load(std::memory_order_acquire)) return false;
  f.why = "a kernel has failed, and the process is ending";
  f.is_refused = true;
  return true;
}

outcome helper_process::finish(const kernel::result& r) noexcept {
  if (r.fault_signal != 0) [[unlikely]] {
    end_soon(r.fault_signal);
    return {0, r.fault_signal};
  }
  this_worker().results.push(r.value);
  return {r.value, 0};
}

outcome helper_process::run_with(const kernel_call& call, std::span<const std::uint64_t> words,
                                 void* stack_top) {
  context_worker& w = this_worker();
  const kernel& k = kernels_.at(call.address);
  if (!k.is_callable()) {
    w.results.push(0);
    return {0, outcome::not_callable};
  }
  const kernel_run runs(w);
  return finish(k.call(words, call.kinds, stack_top));
}

outcome helper_process::run(const kernel_call& call) {
  outcome o;
  if (is_ending(o)) return o;
  context_worker& w = this_worker();
  if (!w.stack) throw error("this is no context: kernels run in lanes that were opened for them");
  w.results.push_zeros(call.done_by_host);
  return run_with(call, call.words, w.stack->top());
}

outcome_with_bytes helper_process::run_with_frame(const kernel_call& call) {
  outcome_with_bytes o;
  if (is_ending(o.what)) return o;
  context_worker& w = this_worker();
  if (!w.stack) throw error("this is no context: kernels run in lanes that were opened for them");
  w.results.push_zeros(call.done_by_host);

  std::byte* top = static_cast<std::byte*>(w.stack->top());
  std::byte* frame = nullptr;
  if (call.frame_bytes + min_stack_below_frame <= w.stack->bytes()) {
    const auto address = reinterpret_cast<std::uintptr_t>(top - call.frame_bytes);
    top = frame = reinterpret_cast<std::byte*>(address & ~(frame_alignment - 1));
  } else {
    if (w.large_frame_bytes < call.frame_bytes) {
      w.large_frame.reset();
      w.large_frame = std::make_unique_for_overwrite<std::byte[]>(call.frame_bytes);
      w.large_frame_bytes = call.frame_bytes;
    }
    frame = w.large_frame.get();
  }
  if (!call.sent.empty()) std::memcpy(frame, call.sent.data(), call.sent.size());

  std::vector<std::uint64_t> words(call.words.begin(), call.words.end());
  for (std::size_t i = 0; i < words.size() && i < call.kinds.size(); ++i) {
    if (call.kinds[i] != argument_kind::frame) continue;
    if (words[i] > call.frame_bytes)
      throw malformed_message("a stack argument is outside its frame");
    words[i] += reinterpret_cast<std::uintptr_t>(frame);
  }
  o.what = run_with(call, words, top);
  if (o.what.signal == 0) o.sent = {frame + call.out_from, call.frame_bytes - call.out_from};
  return o;
}

// ---- libraries ----------------------------------------------------------------------------------

found helper_process::load(const std::string& path) {
  found f;
  if (is_ending(f)) return f;
  // Refuse an empty name, because dlopen() would return a handle of this program for it.
  void* library = path.empty() ? nullptr : open_library(path, f.why);
  if (path.empty()) {
    f.why = "its name is empty";
  } else if (library != nullptr) {
    f.why.clear();
    look_for_table_writer();
    open_debug_information();
    f.value = reinterpret_cast<std::uintptr_t>(library);
    const std::lock_guard guard(libraries_mutex_);
    libraries_.insert(f.value);
  }
  this_worker().results.push(f.value);
  return f;
}

found helper_process::unload(std::uint64_t library) {
  found ending;
  if (is_ending(ending)) return ending;
  const auto refuse = [](std::string why) { return found{0, std::move(why), false}; };
  {
    const std::lock_guard guard(libraries_mutex_);
    const auto it = libraries_.find(library);
    if (it == libraries_.end()) return refuse("there is no library with this handle");
    libraries_.erase(it);
  }
  const int failed = ::dlclose(reinterpret_cast<void*>(library));
  kernels_.forget();
  this_worker().results.push(static_cast<std::uint64_t>(failed));
  return failed != 0 ? refuse(native::last_loader_error()) : found{1, "", false};
}

found helper_process::symbol(std::uint64_t library, const std::string& name) {
  found f;
  if (is_ending(f)) return f;
  if (library != 0) {
    const std::lock_guard guard(libraries_mutex_);
    if (!libraries_.contains(library)) f.why = "there is no library with this handle";
  }
  if (f.why.empty()) {
    void* address =
        ::dlsym(library == 0 ? RTLD_DEFAULT : reinterpret_cast<void*>(library), name.c_str());
    if (address == nullptr) f.why = native::last_loader_error();
    Dl_info found_in{};
    Dl_info program{};
    // Library handle 0 stands for this program, into which kernels may be linked. Refuse symbols of
    // other libraries, which dlsym() also finds by RTLD_DEFAULT.
    if (address != nullptr && library == 0 &&
        (::dladdr(address, &found_in) == 0 ||
         ::dladdr(reinterpret_cast<void*>(&farcall_veo_previous_result), &program) == 0 ||
         found_in.dli_fbase != program.dli_fbase)) {
      address = nullptr;
      f.why = "this helper was not linked with a kernel of this name";
    }
    f.value = reinterpret_cast<std::uintptr_t>(address);
  }
  this_worker().results.push(f.value);
  return f;
}

// ---- memory -------------------------------------------------------------------------------------

found helper_process::allocate(std::uint64_t bytes) {
  found f;
  // Do not allocate after a kernel has failed, because the failed kernel may hold locks that the
  // allocation needs.
  if (is_ending(f)) return f;
  try {
    std::byte* block =
        detail::current_job().engine->heap().allocate(std::max<std::uint64_t>(bytes, 1));
    f.value = reinterpret_cast<std::uintptr_t>(block);
  } catch (const out_of_memory& e) {
    f.why = e.what();
  }
  this_worker().results.push(f.value);
  return f;
}

outcome helper_process::release(std::uint64_t address) {
  outcome o;
  if (is_ending(o)) return o;
  if (address != 0 &&
      !detail::current_job().engine->heap().release(reinterpret_cast<std::byte*>(address))) {
    log::warning("memory was freed that veo_alloc_mem did not make, or twice");
  }
  this_worker().results.push(0);
  return {};
}

outcome helper_process::write(std::uint64_t address, std::span<const std::byte> bytes) {
  outcome o;
  if (is_ending(o)) return o;
  this_worker().results.push(0);
  if (is_shared(address, bytes.size())) {
    std::memcpy(reinterpret_cast<void*>(address), bytes.data(), bytes.size());
    return {};
  }
  if (copy_carefully(address, reinterpret_cast<std::uintptr_t>(bytes.data()), bytes.size()))
    return {};
  return {0, outcome::no_memory};
}

outcome_with_bytes helper_process::read(std::uint64_t address, std::uint64_t bytes) {
  outcome_with_bytes o;
  if (is_ending(o.what)) return o;
  this_worker().results.push(0);
  if (is_shared(address, bytes)) {
    return {{}, {reinterpret_cast<const std::byte*>(address), bytes}, {}};
  }
  o.received.resize(bytes);
  if (copy_carefully(reinterpret_cast<std::uintptr_t>(o.received.data()), address, bytes)) {
    o.sent = o.received;
  } else {
    o.what.signal = outcome::no_memory;
  }
  return o;
}

outcome helper_process::copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  outcome o;
  if (is_ending(o)) return o;
  this_worker().results.push(0);
  if (is_shared(to, bytes) && is_shared(from, bytes)) {
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    return {};
  }
  return copy_carefully(to, from, bytes) ? outcome{} : outcome{0, outcome::no_memory};
}

// ---- System V segments --------------------------------------------------------------------------

system_result helper_process::ended(std::int64_t value) noexcept {
  const std::int32_t error = value == -1 ? errno : 0;
  this_worker().results.push(static_cast<std::uint64_t>(value));
  return {value, error};
}

system_result helper_process::find_segment(std::int64_t key, std::uint64_t bytes,
                                           std::int32_t flags) {
  if (is_ending_.load(std::memory_order_acquire)) return {-1, EBUSY};
  // Refuse all flags except SHM_HUGETLB. That flag is ignored, because it only matters when a
  // segment is created, and this function only finds existing segments.
  if ((flags & ~SHM_HUGETLB) != 0) return {-1, EINVAL};
  return ended(::shmget(static_cast<key_t>(key), bytes, 0));
}

system_result helper_process::attach_segment(std::int32_t id, std::int32_t flags) {
  if (is_ending_.load(std::memory_order_acquire)) return {-1, EBUSY};
  if ((flags & ~SHM_RDONLY) != 0) return {-1, EINVAL};
  return ended(reinterpret_cast<std::int64_t>(::shmat(id, nullptr, flags)));
}

system_result helper_process::detach_segment(std::uint64_t address) {
  if (is_ending_.load(std::memory_order_acquire)) return {-1, EBUSY};
  return ended(::shmdt(reinterpret_cast<const void*>(address)));
}

} // namespace farcall::veo

int farcall_veo_previous_result(int offset, std::uint64_t* result) {
  const auto value = farcall::veo::this_worker().results.before(offset);
  if (!value || result == nullptr) return -1;
  *result = *value;
  return 0;
}
