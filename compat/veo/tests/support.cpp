// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <thread>

#include <unistd.h>

namespace veo_test {
namespace {

/// Ends the program if a `bounded` object lives too long.
class watchdog {
 public:
  static watchdog& instance() {
    // Never destroyed, because its thread may run until the program ends.
    static auto* const dog = new watchdog;
    return *dog;
  }

  std::uint64_t add(const char* what, std::chrono::seconds limit) {
    const std::lock_guard lock(mutex_);
    entries_.emplace(++last_, entry{what, std::chrono::steady_clock::now() + limit});
    return last_;
  }

  void remove(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    entries_.erase(number);
  }

 private:
  struct entry {
    const char* what;
    std::chrono::steady_clock::time_point end;
  };

  watchdog() {
    std::thread([this] { watch(); }).detach();
  }

  [[noreturn]] void watch() {
    for (;; std::this_thread::sleep_for(std::chrono::milliseconds(200))) {
      const std::lock_guard lock(mutex_);
      for (const auto& [number, e] : entries_) {
        if (std::chrono::steady_clock::now() < e.end) continue;
        std::fprintf(stderr, "test program: gives up, because this does not return: %s\n", e.what);
        ::_exit(1);
      }
    }
  }

  std::mutex mutex_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, entry> entries_;
};

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + last_error());
}

veo_proc_handle* create(int node) {
  const bounded b("veo_proc_create");
  veo_proc_handle* const proc = veo_proc_create(node);
  if (proc == nullptr) fail("veo_proc_create(" + std::to_string(node) + ")");
  return proc;
}

void check(int result, const char* what) {
  if (result != 0) fail(what + (": returned " + std::to_string(result)));
}

} // namespace

bool helpers_are_local() {
  const char* const nodes = std::getenv("FARCALL_VEO_NODES");
  return nodes == nullptr || std::string_view(nodes).find("://") == std::string_view::npos;
}

std::string helper_program() {
  const char* const program = std::getenv("VEORUN_BIN");
  if (program == nullptr) throw std::runtime_error("VEORUN_BIN is not set");
  return program;
}

std::string kernels_folder() {
  const char* const folder = std::getenv("VEO_TEST_KERNELS");
  return folder != nullptr ? folder : VEO_TEST_KERNELS;
}

std::string library_file(std::string_view name) {
  return kernels_folder() + "/libveo_" + std::string(name) + ".so";
}

std::string last_error() { return farcall_veo_last_error(); }

std::vector<unsigned char> content(std::size_t size, std::uint64_t seed) {
  std::vector<unsigned char> bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<unsigned char>(farcall::test::content(seed << 32, i));
  return bytes;
}

bounded::bounded(const char* what, std::chrono::seconds limit)
    : number_(watchdog::instance().add(what, limit)) {}
bounded::~bounded() { watchdog::instance().remove(number_); }

environment_variable::environment_variable(const char* name, const char* value)
    : name_(name), was_set_(std::getenv(name) != nullptr) {
  if (was_set_) before_ = std::getenv(name);
  if (value != nullptr) {
    ::setenv(name, value, 1);
  } else {
    ::unsetenv(name);
  }
}
environment_variable::~environment_variable() {
  if (was_set_) {
    ::setenv(name_.c_str(), before_.c_str(), 1);
  } else {
    ::unsetenv(name_.c_str());
  }
}

captured_output::captured_output(int descriptor)
    : descriptor_(descriptor), before_(::dup(descriptor)), file_(std::tmpfile()) {
  if (before_ < 0 || file_ == nullptr) throw std::runtime_error("no file for captured output");
  std::fflush(nullptr);
  ::dup2(::fileno(file_), descriptor_);
}

captured_output::~captured_output() {
  (void)end();
  std::fclose(file_);
}

std::string captured_output::end() {
  if (before_ >= 0) {
    std::fflush(nullptr);
    ::dup2(before_, descriptor_);
    ::close(before_);
    before_ = -1;
  }
  std::string text(1 << 20, '\0');
  const ssize_t size = ::pread(::fileno(file_), text.data(), text.size(), 0);
  text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return text;
}

// --- results -------------------------------------------------------------------------------------

std::ostream& operator<<(std::ostream& out, const outcome& o) {
  switch (o.state) {
  case VEO_COMMAND_OK:
    out << "OK";
    break;
  case VEO_COMMAND_EXCEPTION:
    out << "EXCEPTION";
    break;
  case VEO_COMMAND_ERROR:
    out << "ERROR";
    break;
  case VEO_COMMAND_UNFINISHED:
    out << "UNFINISHED";
    break;
  default:
    out << "state " << o.state;
  }
  return out << " with " << o.value << " (" << static_cast<std::int64_t>(o.value) << ")";
}

std::uint64_t bits_of(double value) { return std::bit_cast<std::uint64_t>(value); }
std::uint64_t bits_of(float value) {
  return static_cast<std::uint64_t>(std::bit_cast<std::uint32_t>(value)) << 32;
}

outcome collect(veo_thr_ctxt* context, std::uint64_t request) {
  const bounded b("veo_call_wait_result");
  outcome o;
  o.state = veo_call_wait_result(context, request, &o.value);
  return o;
}

outcome peek(veo_thr_ctxt* context, std::uint64_t request) {
  outcome o;
  o.state = veo_call_peek_result(context, request, &o.value);
  return o;
}

// --- arguments -----------------------------------------------------------------------------------

arguments::arguments() : args_(veo_args_alloc()) {
  if (args_ == nullptr) fail("veo_args_alloc");
}
arguments::~arguments() { veo_args_free(args_); }

void arguments::set(int number, std::int64_t value) {
  check(veo_args_set_i64(args_, number, value), "veo_args_set_i64");
}
void arguments::set(int number, std::uint64_t value) {
  check(veo_args_set_u64(args_, number, value), "veo_args_set_u64");
}
void arguments::set(int number, std::int32_t value) {
  check(veo_args_set_i32(args_, number, value), "veo_args_set_i32");
}
void arguments::set(int number, std::uint32_t value) {
  check(veo_args_set_u32(args_, number, value), "veo_args_set_u32");
}
void arguments::set(int number, std::int16_t value) {
  check(veo_args_set_i16(args_, number, value), "veo_args_set_i16");
}
void arguments::set(int number, std::uint16_t value) {
  check(veo_args_set_u16(args_, number, value), "veo_args_set_u16");
}
void arguments::set(int number, std::int8_t value) {
  check(veo_args_set_i8(args_, number, value), "veo_args_set_i8");
}
void arguments::set(int number, std::uint8_t value) {
  check(veo_args_set_u8(args_, number, value), "veo_args_set_u8");
}
void arguments::set(int number, double value) {
  check(veo_args_set_double(args_, number, value), "veo_args_set_double");
}
void arguments::set(int number, float value) {
  check(veo_args_set_float(args_, number, value), "veo_args_set_float");
}
void arguments::set(int number, on_stack value) {
  check(veo_args_set_stack(args_, value.intent, number, static_cast<char*>(value.data), value.size),
        "veo_args_set_stack");
}
void arguments::set(int number, tagged value) {
  check(veo_args_set_hmem(args_, number, value.address), "veo_args_set_hmem");
}

// --- processes -----------------------------------------------------------------------------------

process::process(int node) : proc_(create(node)) { (void)library("basic"); }

process::~process() {
  if (proc_ != nullptr) destroy();
}

int process::destroy() {
  const bounded b("veo_proc_destroy");
  const int result = veo_proc_destroy(proc_);
  proc_ = nullptr;
  return result;
}

std::uint64_t process::library(const std::string& name) {
  const bounded b("veo_load_library");
  auto [at, is_new] = libraries_.try_emplace(name, 0);
  if (is_new) at->second = veo_load_library(proc_, library_file(name).c_str());
  if (at->second == 0) fail("veo_load_library " + library_file(name));
  return at->second;
}

std::uint64_t process::symbol(const std::string& name, const std::string& library) {
  const std::uint64_t handle = this->library(library);
  const bounded b("veo_get_sym");
  const std::uint64_t address = veo_get_sym(proc_, handle, name.c_str());
  if (address == 0) fail("veo_get_sym " + name);
  return address;
}

veo_thr_ctxt* process::main() const {
  veo_thr_ctxt* const context = veo_get_context(proc_, 0);
  if (context == nullptr) fail("veo_get_context 0");
  return context;
}

veo_thr_ctxt* process::open() {
  const bounded b("veo_context_open");
  veo_thr_ctxt* context = veo_context_open(proc_);
  // The first call returns the main context.
  if (context != nullptr && context == main()) context = veo_context_open(proc_);
  if (context == nullptr) fail("veo_context_open");
  return context;
}

std::uint64_t process::call_with(std::uint64_t function, const arguments& a) {
  const bounded b("veo_call_sync");
  std::uint64_t result = 0;
  check(veo_call_sync(proc_, function, a.get(), &result), "veo_call_sync");
  return result;
}

std::uint64_t process::allocate(std::size_t size) {
  const bounded b("veo_alloc_mem");
  std::uint64_t address = 0;
  check(veo_alloc_mem(proc_, &address, size), "veo_alloc_mem");
  if (address == 0) fail("veo_alloc_mem gave 0");
  return address;
}

void process::free(std::uint64_t address) {
  const bounded b("veo_free_mem");
  check(veo_free_mem(proc_, address), "veo_free_mem");
}

void process::read_bytes(void* to, std::uint64_t from, std::size_t size) {
  const bounded b("veo_read_mem");
  check(veo_read_mem(proc_, to, from, size), "veo_read_mem");
}

void process::write_bytes(std::uint64_t to, const void* from, std::size_t size) {
  const bounded b("veo_write_mem");
  check(veo_write_mem(proc_, to, from, size), "veo_write_mem");
}

// --- gates ---------------------------------------------------------------------------------------

gate::gate(process& p, veo_thr_ctxt* way)
    : way_(way), address_(p.allocate(2 * sizeof(std::uint64_t))) {
  p.write(address_, std::uint64_t{0});
  p.write(address_ + 8, std::uint64_t{0});
}

std::uint64_t gate::wait_for_kernel() {
  std::uint64_t begun = 0;
  const bool has_begun = eventually([&] {
    const outcome o = collect(way_, veo_async_read_mem(way_, &begun, address_, sizeof begun));
    if (o != ok(0)) fail("veo_async_read_mem, to see whether a kernel has begun");
    return begun != 0;
  });
  if (!has_begun) throw std::runtime_error("a kernel does not begin");
  return begun;
}

void gate::open(std::uint64_t value) {
  // Ignore the result: the kernel may have ended its process already.
  (void)collect(way_, veo_async_write_mem(way_, address_ + 8, &value, sizeof value));
}

} // namespace veo_test
