// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

namespace farcall::test {

/// Sends bytes together with descriptors to a Unix socket. Returns the result of sendmsg().
inline ssize_t send_descriptors(int socket, std::span<const std::byte> bytes,
                                std::span<const int> descriptors) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  // Elements of the vector have the alignment of a cmsghdr.
  std::vector<cmsghdr> control(CMSG_SPACE(descriptors.size_bytes()) / sizeof(cmsghdr) + 1);
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL);
}

} // namespace farcall::test
