#pragma once

#include <farcall/base/node_id.hpp>

#include <cstddef>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

namespace farcall {

/// Base of everything farcall throws. `what()` names the node, the operation and the cause, and
/// says what to do where there is something to do. As of std::runtime_error, threads may share one.
class error : public std::runtime_error {
 public:
  /// `node`: the node that the failure concerns.
  explicit error(const std::string& what, node_id node = no_node)
      : std::runtime_error(what), node_(node) {}

  /// The node that the failure concerns, or `no_node`.
  [[nodiscard]] node_id node() const noexcept { return node_; }

 private:
  node_id node_;
};

/// A handler threw on the node that ran it. Carries the name of the exception's type and its text.
class remote_error : public error {
 public:
  /// What handlers of `node` threw.
  remote_error(node_id node, std::string type_name, const std::string& text);

  /// Demangled name of the type thrown, e.g. "std::out_of_range".
  [[nodiscard]] const std::string& type_name() const noexcept { return type_name_; }
  /// The exception's own what(), or empty for types not derived from std::exception.
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string type_name_;
  std::string text_;
};

/// The node exited, was killed or can no longer be reached; it takes no more calls.
class node_failed : public error {
 public:
  using error::error;
};

/// A deadline passed. The call may still run, or may have run already.
class timeout : public error {
 public:
  using error::error;
};

/// A stop was requested before the result was there. The call was not sent, or else may still run,
/// or may have run already.
class cancelled : public error {
 public:
  using error::error;
};

/// Memory for a buffer, a message or a result could not be had on the node named.
class out_of_memory : public error {
 public:
  using error::error;
};

/// The node's program has no function of that name and signature, or has it twice.
class unknown_function : public error {
 public:
  using error::error;
};

/// Too many handlers, or continuations, of the node wait inside each other's waits; the call was
/// not run.
class nested_too_deep : public error {
 public:
  using error::error;
};

/// Memory of one node was used in place on another.
class wrong_node : public error {
 public:
  using error::error;
};

/// A target could not be started, or did not join the job in time.
class start_failed : public error {
 public:
  using error::error;
};

/// This process is a fork of the one that has the job, and its lanes are the parent's: what was
/// made there can only be destroyed here.
class forked : public error {
 public:
  /// Says so.
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

/// The system's text for an errno. Throws std::bad_alloc.
[[nodiscard]] std::string reason_text(int error_number);

/// Throws `error` with `what`, the text of `error_number` appended.
[[noreturn]] void throw_system_error(const std::string& what, int error_number,
                                     node_id node = no_node);

/// Demangled form of an Itanium ABI name; the name itself if it cannot be demangled, or if the form
/// might be longer than 1 MiB. Throws std::bad_alloc.
[[nodiscard]] std::string demangle(const char* name);

/// Returns what(), and an empty text if that is null.
[[nodiscard]] const char* exception_text(const std::exception& e) noexcept;

/// Describes an exception: "std::out_of_range: text". Either part may be empty. Throws
/// std::bad_alloc.
[[nodiscard]] std::string thrown_text(std::string_view type_name, std::string_view text);

/// Says that a job with so many nodes has none of that number. Throws std::bad_alloc.
[[nodiscard]] std::string missing_node_text(node_id node, std::size_t nodes);

/// "node 3" or "the host (node 0)": how messages speak of a node. Throws std::bad_alloc.
[[nodiscard]] std::string node_text(node_id node);

} // namespace farcall
