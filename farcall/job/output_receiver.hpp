// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/transport/output_sink.hpp>

#include <string_view>

namespace farcall {

/// Receives the lines that the targets of a job print (job_options::output). One thread of farcall
/// calls it, for one line at a time.
class output_receiver {
 public:
  output_receiver() = default;
  output_receiver(const output_receiver&) = delete;
  output_receiver& operator=(const output_receiver&) = delete;
  virtual ~output_receiver() = default;

  /// Takes a line, without its line end, that the target `node` has printed to its standard output
  /// or standard error. Lines of one stream come in their order. The last line of a target may have
  /// had no line end. A line of more than 64 KiB comes in parts. `line` is valid only during the
  /// call. While the function runs, targets that print may have to wait. Therefore it must not wait
  /// for a target, and must not end the job. An exception that it throws is written to the log.
  virtual void take_line(node_id node, output_stream stream, std::string_view line) = 0;
};

} // namespace farcall
