// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/base/unique_fd.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

namespace farcall {

/// Standard output and standard error of a process.
enum class output_stream : std::uint8_t { output = 1, error = 2 };

/// Forwards the output of targets to the host's output. Any thread may call any member. The calls
/// do not wait for the program that reads the host's output.
class output_sink {
 public:
  output_sink() = default;
  output_sink(const output_sink&) = delete;
  output_sink& operator=(const output_sink&) = delete;
  virtual ~output_sink() = default;

  /// Writes output that a target has printed on another machine. Later a thread of the sink calls
  /// `written` with the number of bytes that were written, or that cannot be written. A caller can
  /// thereby limit its unwritten bytes, and so the sink's memory. One call of `written` may also
  /// count bytes of later calls of take() for the same stream. A sink that has ended drops the
  /// bytes and calls nothing.
  virtual void take(node_id node, output_stream stream, std::string_view bytes,
                    std::function<void(std::size_t bytes)> written) = 0;

  /// Begins to read the pipe to which a target of this machine prints. Throws error.
  virtual void read(node_id node, output_stream stream, unique_fd from) = 0;

  /// Called when the target has ended, so that its pipes hold its last output.
  virtual void end(node_id node) noexcept = 0;
};

} // namespace farcall
