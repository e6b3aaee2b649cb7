// SPDX-License-Identifier: Apache-2.0

// expect: a function for devices takes and returns what is trivially copyable
// names: packs_to_devices<int, std::(__cxx11::)?basic_string<char
#include <farcall/gpu/gpu.hpp>

#include <string>

FARCALL_HOST_DEVICE int length(const std::string& text) { return static_cast<int>(text.size()); }

int f(const farcall::node& gpu) {
  return farcall::sync(gpu, farcall::device_fn<length>, std::string{"text"});
}
