#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/base/unique_fd.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

namespace farcall {

/// What a process prints to.
enum class output_stream : std::uint8_t { output = 1, error = 2 };

/// Takes what targets print, from whoever starts them, to where the host prints. Any thread. No
/// member waits for whoever reads it there.
class output_sink {
 public:
  output_sink() = default;
  output_sink(const output_sink&) = delete;
  output_sink& operator=(const output_sink&) = delete;
  virtual ~output_sink() = default;

  /// What a target has printed elsewhere. Copies it. `written` is called on a thread of the sink's
  /// once it was written, or cannot be, with the number of bytes: of one stream those of several
  /// calls may be told together, by the first one's. Whoever keeps no more than so much under way
  /// bounds the sink's memory. A sink that has ended its work drops it, and tells nobody.
  virtual void take(node_id node, output_stream stream, std::string_view bytes,
                    std::function<void(std::size_t bytes)> written) = 0;

  /// The end of a pipe to which a target of this machine prints. Throws error.
  virtual void read(node_id node, output_stream stream, unique_fd from) = 0;

  /// The target has ended: what lies in its pipes is its last.
  virtual void end(node_id node) noexcept = 0;
};

} // namespace farcall
