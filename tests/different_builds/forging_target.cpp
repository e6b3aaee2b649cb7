// SPDX-License-Identifier: Apache-2.0

// A target that pretends to be on another kind of machine, for forged_test.cpp.
#include <farcall/transport/card.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/control_socket.hpp>
#include <farcall/transport/shm/shm.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

using namespace farcall;

namespace {

void overwrite(std::vector<std::byte>& bytes, std::size_t at, std::uint32_t value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

/// Changes a field at the beginning of `bytes`, which start with the first 16 bytes of a card.
void forge(std::vector<std::byte>& bytes, std::string_view what) {
  if (what == "byte-order") std::reverse(bytes.begin(), bytes.begin() + 4);
  if (what == "version") overwrite(bytes, 4, 99);
  if (what == "pointers") overwrite(bytes, 8, 4);
  if (what == "something") overwrite(bytes, 0, 0x20544547);
}

} // namespace

int main(int argc, char** argv) {
  const char* const socket = std::getenv("FARCALL_BOOTSTRAP");
  if (socket == nullptr || argc != 3) {
    std::puts("usage, by tests: forging_target first|card byte-order|version|pointers|something");
    return 1;
  }
  const std::string_view where = argv[1];
  const std::string_view what = argv[2];
  control_socket host(unique_fd(std::atoi(socket)));

  std::vector<std::byte> first = encode_format();
  auto kind = control::present;
  if (where == "first") {
    forge(first, what);
    // With the other byte order, the kind of the message is reversed, too.
    if (what == "byte-order") kind = static_cast<control>(std::uint32_t{1} << 24);
  }
  host.send(kind, first);

  card mine;
  mine.workers = 1;
  mine.machine = machine_identity();
  while (std::optional<control_message> message = host.receive(no_deadline)) {
    if (message->kind == control::shut_down) break;
    if (message->kind != control::hello) continue;
    mine.id = messages::hello::decode(message->body).node;
    std::vector<std::byte> bytes = encode(mine);
    if (where == "card") forge(bytes, what);
    host.send(control::joined, bytes);
  }
  return 0;
}
