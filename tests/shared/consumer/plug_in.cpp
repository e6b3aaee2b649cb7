// SPDX-License-Identifier: Apache-2.0

// A user's library that the program loads before its first job, and closes while the job exists.

#include <farcall/farcall.hpp>

#include <optional>
#include <string>

namespace fc = farcall;

namespace {

int thrice(int v) { return 3 * v; }

/// Objects that live until the process ends, since dlclose() does not unload this library.
std::optional<fc::buffer<int>> memory;
std::optional<fc::future<std::string>> text;

} // namespace

extern "C" __attribute__((visibility("default"))) void plug_in_begin(const fc::job& job) {
  memory.emplace(job.targets()[0].allocate<int>(10));
  text.emplace(fc::async(job.targets()[0], [](int v) { return std::to_string(v); }, 42));
}

/// Makes a future whose continuation is code of this library.
extern "C" __attribute__((visibility("default"))) void plug_in_call(const fc::node& where,
                                                                    fc::future<int>& result) {
  result = fc::async(where, fc::fn<&thrice>, 5).then([](fc::future<int> f) { return f.get() + 1; });
}

extern "C" __attribute__((visibility("default"))) int plug_in_text() {
  return std::stoi(text->get());
}
