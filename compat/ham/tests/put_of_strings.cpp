// SPDX-License-Identifier: Apache-2.0

// Must not compile: put() copies an object's bytes, which do not contain a string's characters.

#include <ham/offload.hpp>

void send(std::string* texts, const ham::offload::buffer_ptr<std::string>& memory) {
  ham::offload::put(texts, memory, 1);
}
