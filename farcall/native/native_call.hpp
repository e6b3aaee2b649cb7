// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/call.hpp>
#include <farcall/call/entry.hpp>
#include <farcall/native/call_layout.hpp>
#include <farcall/native/signature.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

/// Calls of functions of shared libraries on other nodes.
namespace farcall::native {

/// Prefix of the message that calls a function. call_layout.hpp describes the payload and the
/// reply.
struct native_call {
  std::uint64_t library;  ///< id of the library on the node
  std::uint32_t function; ///< number of the function in the library
  std::uint32_t arguments;
};

/// An argument as the caller passes it: 16 bytes with a value at their beginning, or with the
/// address and the size of a buffer.
class argument {
 public:
  /// Returns the value, in the low bits of a word. Other bits may have any value.
  [[nodiscard]] std::uint64_t word() const noexcept { return read(0); }
  [[nodiscard]] std::byte* address() const noexcept {
    return reinterpret_cast<std::byte*>(read(0));
  }
  [[nodiscard]] std::uint64_t size() const noexcept { return read(8); }

 private:
  [[nodiscard]] std::uint64_t read(std::size_t at) const noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes_ + at, sizeof word);
    return word;
  }

  alignas(8) std::byte bytes_[16];
};
static_assert(sizeof(std::byte*) == sizeof(std::uint64_t));

/// A function of a library of another node, as callers know it.
struct remote_function {
  std::uint64_t library = 0; ///< id of the library on the node
  std::uint32_t number = 0;  ///< number of the function in the library
  std::uint32_t name = 0;    ///< number by which timelines and counters find the name
  const signature* type = nullptr;
};

/// Loads a library on a node, and returns its id there. An empty path stands for the node's
/// program. Throws error with the text of the node's loader, and what sync() throws.
[[nodiscard]] std::uint64_t load(const timed_node& where, const std::string& path);
/// Unloads a library after the last of its calls that have begun. Throws unknown_function if the
/// node does not have the library, error, and what sync() throws.
void unload(const timed_node& where, std::uint64_t library);
/// Looks a function up. Throws unknown_function if the node has no such library or function,
/// signature_error, and what sync() throws.
[[nodiscard]] remote_function find(const timed_node& where, std::uint64_t library,
                                   const std::string& symbol, std::string_view signature_text);

/// Sends a call with one argument for each parameter. The result is a message_reply, which
/// take_reply() reads. The bytes of buffers may be changed as soon as this function has returned.
/// Waits and throws like async().
[[nodiscard]] am::pending_call* send(const farcall::detail::call_place& to,
                                     const remote_function& f, const argument* arguments,
                                     bool is_stoppable);

/// Copies bytes of the reply to the caller's buffers, and returns the rest. Throws
/// malformed_message if the reply is none to a call of this type with these arguments.
reply_head take_reply(std::span<const std::byte> reply, const signature& type,
                      const argument* arguments);

/// Must be called in a catch block with the exception that a call has thrown. Throws
/// unknown_function if the node did not have the library or the function; else throws `e` again.
[[noreturn]] void rethrow(const remote_error& e);

/// The entry through which calls arrive. Each program with a job has it.
extern entry native_entry;

} // namespace farcall::native
