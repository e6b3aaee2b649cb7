// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/job/memory_files.hpp>
#include <farcall/memory/segment.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <cerrno>

#include <fcntl.h>

namespace farcall {
namespace {

memory_files sizes_of(const node_memory& memory) {
  memory_files all;
  all.receive_segment_bytes = memory.receive_segment.size();
  for (const segment& window : memory.windows)
    all.window_bytes.push_back(window.size());
  return all;
}

} // namespace

memory_files memory_files::take(node_memory& memory) {
  memory_files all = sizes_of(memory);
  all.files.push_back(memory.receive_segment.take_file());
  for (segment& window : memory.windows)
    all.files.push_back(window.take_file());
  return all;
}

memory_files memory_files::copy(const node_memory& memory) {
  memory_files all = sizes_of(memory);
  const auto copy = [&all](const segment& s) {
    all.files.emplace_back(::fcntl(s.fd(), F_DUPFD_CLOEXEC, 0));
    if (!all.files.back()) throw_system_error("keeping the descriptors of memory", errno);
  };
  copy(memory.receive_segment);
  for (const segment& window : memory.windows)
    copy(window);
  return all;
}

messages::memory memory_files::message(node_id node) const {
  return {node, receive_segment_bytes, window_bytes};
}

std::vector<int> memory_files::descriptors() const {
  std::vector<int> all;
  for (const unique_fd& file : files)
    all.push_back(file.get());
  return all;
}

} // namespace farcall
