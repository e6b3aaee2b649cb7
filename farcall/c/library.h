// SPDX-License-Identifier: Apache-2.0
#ifndef FARCALL_C_LIBRARY_H
#define FARCALL_C_LIBRARY_H

/// Calls of plain functions of shared libraries on other nodes, for C and for languages that can
/// call C. A node loads a library, a function is looked up by its name and its signature, and is
/// then called with values and buffers. The library needs no code for farcall.
///
///     fc_library math;
///     fc_native power;
///     fc_library_load(target, "libm.so.6", &math);
///     fc_symbol(math, "pow", "d(dd)", &power);
///     fc_native_call(target, power, (fc_value[]){{.d = 2}, {.d = 10}}, &result); // result.d ==
///     1024
///
/// The rules of farcall.h hold: any thread may use any function, and functions that fail return a
/// status, with a text in fc_error_text(). All functions that get a node or a library block, except
/// fc_native_call_async(), which blocks only while a lane is full.
///
/// Only call functions of libraries that you trust: the node runs them as its own code, with the
/// arguments that the signature describes. A signature that differs from the function's has
/// undefined behaviour, as a wrong declaration in C.

#include <farcall/farcall.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A shared library that a node has loaded. A plain value, which can be copied within the process.
typedef struct fc_library {
  /// The node. fc_symbol() and fc_library_unload() use its deadline; fc_library_load() sets none.
  fc_node node;
  uint64_t id; ///< number of the library on the node
} fc_library;

/// Loads a shared library on the node `where`, by dlopen() with RTLD_NOW and RTLD_LOCAL. The node
/// looks for the file: a relative path with a folder begins in the current folder of the node's
/// process, and a name without a folder is searched as dlopen() does. An empty path stands for the
/// program that the node runs, with the libraries that it is linked with. Returns FC_ERROR with the
/// text of the node's loader if that fails.
///
/// The library stays loaded until fc_library_unload(), or the end of the node's process. Each
/// fc_library_load() needs an fc_library_unload() of its own, as with dlopen().
FC_API fc_status fc_library_load(fc_node where, const char* path, fc_library* library);
/// Unloads a library. Calls of its functions that have begun end first, without being waited for;
/// later calls return FC_UNKNOWN_FUNCTION. Returns FC_UNKNOWN_FUNCTION if the library was unloaded
/// before.
FC_API fc_status fc_library_unload(fc_library library);

/// A function of a library on a node. A plain value, which can be copied within the process. It is
/// valid until its library is unloaded; calls then fail. The members are for farcall.
typedef struct fc_native {
  uint64_t library;  ///< number of the library on the node
  const void* type;  ///< the signature
  uint32_t number;   ///< number of the function in the library
  uint32_t node;     ///< number of the node
  uint32_t name;     ///< hash of the name
  uint32_t reserved; ///< 0
} fc_native;

/// Looks the function `name` up in a library, and sets `*function` to it. `signature` has the
/// letter of the result's type, and the letters of the parameters' types in parentheses, such as
/// "d(dpl)" for double f(double, void*, long). Spaces have no meaning. There are at most 127
/// parameters.
///
/// | letter      | type in C                                                           |
/// |-------------|---------------------------------------------------------------------|
/// | b B         | signed char, unsigned char                                          |
/// | h H         | short, unsigned short                                               |
/// | i I         | int, unsigned int                                                   |
/// | l L, q Q    | long, unsigned long; long long, unsigned long long                  |
/// | n N         | ptrdiff_t (ssize_t), size_t                                         |
/// | f d         | float, double                                                       |
/// | ?           | bool                                                                |
/// | p           | pointer: an address on the node, for instance of an fc_span         |
/// | v           | void; only for the result                                           |
/// | s           | pointer to bytes that the function reads                            |
/// | o           | pointer to bytes that the function writes                           |
/// | x           | pointer to bytes that the function reads and writes                 |
///
/// The letters of values are taken from Python's module struct, except p. The last three are only
/// for parameters: farcall copies the caller's bytes to the node before the function, and the bytes
/// of o and x back after it. The bytes are aligned to 16. Bytes of o are 0 before the function. A
/// zero follows the bytes of s, so that a text can be passed without its last zero. Functions with
/// a variable number of arguments, such as printf, and structures by value cannot be called.
///
/// Keep the function: each call of fc_symbol() asks the node. Returns FC_INVALID_ARGUMENT for a
/// wrong signature, and FC_UNKNOWN_FUNCTION if the node does not have the library, or the library
/// does not have the symbol.
FC_API fc_status fc_symbol(fc_library library, const char* name, const char* signature,
                           fc_native* function);

/// Bytes for a parameter s.
typedef struct fc_in_bytes {
  const void* bytes; ///< if NULL, the function gets NULL
  size_t size;
} fc_in_bytes;
/// Bytes for a parameter o or x.
typedef struct fc_out_bytes {
  void* bytes; ///< if NULL, the function gets NULL
  size_t size;
} fc_out_bytes;

/// An argument, or a result. Set or read the member that is named as the letter in the signature.
typedef union fc_value {
  signed char b;
  unsigned char B;
  short h;
  unsigned short H;
  int i;
  unsigned int I;
  long l;
  unsigned long L;
  long long q;
  unsigned long long Q;
  ptrdiff_t n;
  size_t N;
  float f;
  double d;
  bool t; ///< for the letter ?
  uint64_t p;
  fc_in_bytes s;
  fc_out_bytes o;
  fc_out_bytes x;
} fc_value;

/// Calls the function on its node, waits until it has returned, and sets `*result` to its result,
/// unless `result` is NULL. `arguments` has a value for each parameter of the signature, and may be
/// NULL if there is none. `where` is the function's node, or a lane to it, and can have a deadline.
///
/// On the node, the function runs as a handler does: on a thread of the library, with a stack of
/// the size of a new thread's. It may call any function that handlers may call. If it throws a C++
/// exception, returns FC_REMOTE_ERROR. If it ends the node's process, for instance by an invalid
/// access, returns FC_NODE_FAILED. Returns FC_UNKNOWN_FUNCTION if the library was unloaded, and
/// FC_INVALID_ARGUMENT if `where` is another node. Buffers are written only for FC_OK.
FC_API fc_status fc_native_call(fc_node where, fc_native function, const fc_value* arguments,
                                fc_value* result);

/// Calls the function on its node without waiting, and sets `*future` to a future of the call,
/// which the caller owns. The values, and the bytes for s and x, may be changed as soon as
/// fc_native_call_async() has returned. The call can be stopped if `where` comes from
/// fc_stoppable(). fc_native_get() returns its result; fc_future_get() of such a future returns
/// bytes of a format of farcall's own.
FC_API fc_status fc_native_call_async(fc_node where, fc_native function, const fc_value* arguments,
                                      fc_future** future);
/// Waits for a call of fc_native_call_async() like fc_future_get(), and returns what
/// fc_native_call() returns. Pass the `function` and the `arguments` of the call. The function
/// uses only the buffers for o and x of the arguments, into which it copies the bytes. May be
/// called again. The
/// caller must still drop the future.
FC_API fc_status fc_native_get(fc_future* future, fc_native function, const fc_value* arguments,
                               fc_value* result);

/// Returns the value of errno after the function whose result this thread has received last by
/// fc_native_call() or fc_native_get(). It is 0 if the function did not set errno.
FC_API int fc_native_errno(void);

#ifdef __cplusplus
}
#endif

#endif
