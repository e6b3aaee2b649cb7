// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>

#include <cstddef>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

namespace farcall {

/// Base of all exceptions of farcall. `what()` names the node, the operation and the cause, and the
/// remedy if there is one. Like std::runtime_error, an object may be shared by threads.
class error : public std::runtime_error {
 public:
  /// `node` is the node that the failure concerns.
  explicit error(const std::string& what, node_id node = no_node)
      : std::runtime_error(what), node_(node) {}

  /// Returns the node that the failure concerns, or `no_node`.
  [[nodiscard]] node_id node() const noexcept { return node_; }

 private:
  node_id node_;
};

/// A handler threw an exception on the node that ran it. Carries the name of the exception's type
/// and its text.
class remote_error : public error {
 public:
  /// Describes an exception that a handler of `node` has thrown.
  remote_error(node_id node, std::string type_name, const std::string& text);

  /// Returns the demangled name of the exception's type, e.g. "std::out_of_range".
  [[nodiscard]] const std::string& type_name() const noexcept { return type_name_; }
  /// Returns the exception's own what(), or an empty text for types not derived from
  /// std::exception.
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string type_name_;
  std::string text_;
};

/// The node exited, was killed or can no longer be reached, so it takes no more calls.
class node_failed : public error {
 public:
  using error::error;
};

/// A deadline passed. The call may still run, or may already have run.
class timeout : public error {
 public:
  using error::error;
};

/// A stop was requested before the result arrived. The call was either not sent, or it may still
/// run or may already have run.
class cancelled : public error {
 public:
  using error::error;
};

/// Memory for a buffer, a message or a result could not be allocated on the named node.
class out_of_memory : public error {
 public:
  using error::error;
};

/// The node's program has no function of that name and signature, or has more than one.
class unknown_function : public error {
 public:
  using error::error;
};

/// Too many handlers or continuations of the node wait inside each other, so the call was not run.
class nested_too_deep : public error {
 public:
  using error::error;
};

/// Memory of one node was used in place on another node, or in another job.
class wrong_node : public error {
 public:
  using error::error;
};

/// A target could not be started, or did not join the job in time.
class start_failed : public error {
 public:
  using error::error;
};

/// A function was called in the child of a fork for a job of the parent. The lanes belong to the
/// parent, so the child can do nothing with the parent's objects except destroy them.
class forked : public error {
 public:
  /// Describes the error.
  forked();
};

/// A setting (command line, environment or job_options) does not make sense.
class setting_error : public error {
 public:
  using error::error;
};

/// A peer sent bytes that are not a message.
class malformed_message : public error {
 public:
  using error::error;
};

/// Returns the system's text for the errno value. Throws std::bad_alloc.
[[nodiscard]] std::string reason_text(int error_number);

/// Throws `error` with the text `what`, followed by the text of `error_number`.
[[noreturn]] void throw_system_error(const std::string& what, int error_number,
                                     node_id node = no_node);

/// Demangles an Itanium ABI name. Returns the name itself if it cannot be demangled, or if the
/// result might be longer than 1 MiB. Throws std::bad_alloc.
[[nodiscard]] std::string demangle(const char* name);

/// Returns the text of what(); empty if what() returns null.
[[nodiscard]] const char* exception_text(const std::exception& e) noexcept;

/// Describes an exception: "std::out_of_range: text". Either part may be empty. Throws
/// std::bad_alloc.
[[nodiscard]] std::string thrown_text(std::string_view type_name, std::string_view text);

/// Returns the text of the error that a node number does not exist in a job of `nodes` nodes.
/// Throws std::bad_alloc.
[[nodiscard]] std::string missing_node_text(node_id node, std::size_t nodes);

/// Returns the name of a node for messages: "node 3" or "the host (node 0)". Throws std::bad_alloc.
[[nodiscard]] std::string node_text(node_id node);

} // namespace farcall
