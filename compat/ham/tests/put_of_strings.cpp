// Must not compile: the characters of a string are not among its bytes.

#include <ham/offload.hpp>

void send(std::string* texts, const ham::offload::buffer_ptr<std::string>& memory) {
  ham::offload::put(texts, memory, 1);
}
