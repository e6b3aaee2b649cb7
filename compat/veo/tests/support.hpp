// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall_veo.h>
#include <tests/support.hpp>
#include <ve_offload.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

/// Common code of the tests of VEO's API. Tests use only the API, so that they can run with other
/// helpers: VEORUN_BIN names another program, FARCALL_VEO_NODES at least two other nodes, and
/// VEO_TEST_KERNELS the folder of the kernels on these nodes.
namespace veo_test {

using farcall::test::eventually;
using farcall::test::scrambled;
using farcall::test::under_sanitizer;

/// Skips a test if helpers are on other machines and the test inspects the helper's process, or
/// needs this machine's files.
#define VEO_TEST_LOCAL_ONLY(why)                                                                   \
  if (!veo_test::helpers_are_local()) GTEST_SKIP() << "local only: " << (why)

[[nodiscard]] bool helpers_are_local();

/// Returns VEORUN_BIN, which main() sets by default.
[[nodiscard]] std::string helper_program();

/// Return the folder of the kernels, and the file of a library: "basic" is .../libveo_basic.so.
[[nodiscard]] std::string kernels_folder();
[[nodiscard]] std::string library_file(std::string_view name);

/// Ends the program with a message if the object lives longer than `limit`: a call that blocks for
/// ever cannot be cancelled.
class bounded {
 public:
  explicit bounded(const char* what, std::chrono::seconds limit = farcall::test::wait_limit);
  bounded(const bounded&) = delete;
  bounded& operator=(const bounded&) = delete;
  ~bounded();

 private:
  std::uint64_t number_;
};

/// Sets an environment variable, or removes it if the value is nullptr; the destructor restores it.
class environment_variable {
 public:
  environment_variable(const char* name, const char* value);
  environment_variable(const environment_variable&) = delete;
  environment_variable& operator=(const environment_variable&) = delete;
  ~environment_variable();

 private:
  std::string name_;
  std::string before_;
  bool was_set_;
};

/// Captures standard output or error of this program and its helpers, from construction to end().
class captured_output {
 public:
  explicit captured_output(int descriptor);
  captured_output(const captured_output&) = delete;
  captured_output& operator=(const captured_output&) = delete;
  ~captured_output();

  /// Ends the capture and returns the text.
  std::string end();

 private:
  int descriptor_;
  int before_;
  std::FILE* file_;
};

// --- results -------------------------------------------------------------------------------------

/// Result of collecting a request.
struct outcome {
  int state = -1;
  std::uint64_t value = 0;
  bool operator==(const outcome&) const = default;
};
std::ostream& operator<<(std::ostream& out, const outcome& o);

[[nodiscard]] constexpr outcome ok(std::uint64_t value) { return {VEO_COMMAND_OK, value}; }
[[nodiscard]] constexpr outcome exception(int signal) {
  return {VEO_COMMAND_EXCEPTION, static_cast<std::uint64_t>(signal)};
}
inline constexpr outcome error{VEO_COMMAND_ERROR, 0};

/// Return the word with the bits of a value, like the card's registers: a float is in the upper
/// half.
[[nodiscard]] std::uint64_t bits_of(double value);
[[nodiscard]] std::uint64_t bits_of(float value);
[[nodiscard]] constexpr std::uint64_t word(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}

/// Call veo_call_wait_result() and veo_call_peek_result().
[[nodiscard]] outcome collect(veo_thr_ctxt* context, std::uint64_t request);
[[nodiscard]] outcome peek(veo_thr_ctxt* context, std::uint64_t request);

// --- arguments -----------------------------------------------------------------------------------

/// Stack argument: the kernel gets a copy on its stack.
struct on_stack {
  veo_args_intent intent;
  void* data;
  std::size_t size;
};
template <class T>
on_stack in(const T* data, std::size_t count) {
  // The library takes all buffers as char*, and does not write to IN buffers.
  return {VEO_INTENT_IN, const_cast<T*>(data), count * sizeof(T)};
}
template <class T>
on_stack out(T* data, std::size_t count) {
  return {VEO_INTENT_OUT, data, count * sizeof(T)};
}
template <class T>
on_stack in_out(T* data, std::size_t count) {
  return {VEO_INTENT_INOUT, data, count * sizeof(T)};
}

/// An address with its tag.
struct tagged {
  void* address;
};

/// A veo_args object, which sets each value with the function for its type.
class arguments {
 public:
  template <class... T>
  explicit arguments(T... values) : arguments() {
    int number = 0;
    (set(number++, values), ...);
  }
  arguments();
  arguments(const arguments&) = delete;
  arguments& operator=(const arguments&) = delete;
  ~arguments();

  [[nodiscard]] veo_args* get() const { return args_; }

  void set(int number, std::int64_t value);
  void set(int number, std::uint64_t value);
  void set(int number, std::int32_t value);
  void set(int number, std::uint32_t value);
  void set(int number, std::int16_t value);
  void set(int number, std::uint16_t value);
  void set(int number, std::int8_t value);
  void set(int number, std::uint8_t value);
  void set(int number, double value);
  void set(int number, float value);
  void set(int number, on_stack value);
  void set(int number, tagged value);

 private:
  veo_args* args_;
};

/// Calls veo_call_async() with these arguments, and frees them.
template <class... T>
[[nodiscard]] std::uint64_t submit(veo_thr_ctxt* context, std::uint64_t function, T... values) {
  const arguments a(values...);
  return veo_call_async(context, function, a.get());
}

/// Submits a call and collects its result.
template <class... T>
[[nodiscard]] outcome call(veo_thr_ctxt* context, std::uint64_t function, T... values) {
  return collect(context, submit(context, function, values...));
}

// --- processes -----------------------------------------------------------------------------------

/// A process of kernels. Functions throw if a call fails whose result the test does not check.
class process {
 public:
  /// Creates the process and loads libveo_basic.so.
  explicit process(int node = 0);
  process(const process&) = delete;
  process& operator=(const process&) = delete;
  ~process();

  [[nodiscard]] veo_proc_handle* get() const { return proc_; }

  /// Destroys the process early; returns the result of veo_proc_destroy().
  int destroy();

  /// Returns the handle of a library by its short name; loads it at the first call.
  std::uint64_t library(const std::string& name);
  /// Returns the address of a function or variable in a library.
  std::uint64_t symbol(const std::string& name, const std::string& library = "basic");

  /// Returns the main context.
  [[nodiscard]] veo_thr_ctxt* main() const;
  /// Opens a new context, never the main one.
  veo_thr_ctxt* open();

  /// Calls a function in libveo_basic.so by veo_call_sync().
  template <class... T>
  std::uint64_t call(const std::string& function, T... values) {
    const arguments a(values...);
    return call_with(symbol(function), a);
  }
  std::uint64_t call_with(std::uint64_t function, const arguments& a);

  [[nodiscard]] std::uint64_t allocate(std::size_t size);
  void free(std::uint64_t address);

  template <class T>
  [[nodiscard]] T read(std::uint64_t from) {
    T value;
    read_bytes(&value, from, sizeof value);
    return value;
  }
  template <class T>
  void write(std::uint64_t to, const T& value) {
    write_bytes(to, &value, sizeof value);
  }
  void read_bytes(void* to, std::uint64_t from, std::size_t size);
  void write_bytes(std::uint64_t to, const void* from, std::size_t size);

 private:
  veo_proc_handle* proc_;
  std::map<std::string, std::uint64_t> libraries_;
};

/// Two words in the process, at which the kernels wait_at and show_stack_at wait for open(). The
/// test accesses them through a context that must not be the kernel's own.
class gate {
 public:
  gate(process& p, veo_thr_ctxt* way);
  /// Uses the main context.
  explicit gate(process& p) : gate(p, p.main()) {}

  /// Returns the argument for the kernel.
  [[nodiscard]] std::uint64_t address() const { return address_; }
  /// Waits until the kernel begins; returns the word that it has written.
  std::uint64_t wait_for_kernel();
  /// Lets the kernel return the value.
  void open(std::uint64_t value = 1);

 private:
  veo_thr_ctxt* way_;
  std::uint64_t address_;
};

/// Returns the text of farcall_veo_last_error().
[[nodiscard]] std::string last_error();

/// Returns `size` bytes that depend on `seed`.
[[nodiscard]] std::vector<unsigned char> content(std::size_t size, std::uint64_t seed);

} // namespace veo_test
