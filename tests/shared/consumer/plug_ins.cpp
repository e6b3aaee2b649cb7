// SPDX-License-Identifier: Apache-2.0

// Libraries that make calls stay loaded when the program closes them: peers and futures may still
// run their code. Arguments: the files of plug_in and early_plug_in.

#include "check.hpp"

#include <farcall/farcall.hpp>

#include <dlfcn.h>

namespace fc = farcall;

namespace {

template <class F>
F* function_of(void* library, const char* name) {
  auto* const found = reinterpret_cast<F*>(::dlsym(library, name));
  CHECK(found != nullptr);
  return found;
}

void* load(const char* file) {
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) std::fprintf(stderr, "%s\n", ::dlerror());
  CHECK(library != nullptr);
  return library;
}

} // namespace

int main(int argc, char** argv) {
  CHECK(argc == 3);
  for (int i = 0; i < 3; ++i)
    CHECK(::dlclose(load(argv[2])) == 0);
  CHECK(::dlopen(argv[2], RTLD_NOW | RTLD_NOLOAD) != nullptr);
  void* const library = load(argv[1]);
  auto* const begin = function_of<void(const fc::job&)>(library, "plug_in_begin");
  auto* const call = function_of<void(const fc::node&, fc::future<int>&)>(library, "plug_in_call");
  auto* const text = function_of<int()>(library, "plug_in_text");

  // Static, like the plug-in's objects, which hold memory and a result of this job.
  static const fc::job job(fc::job_options{.targets = "shm"});
  const fc::node target = job.targets()[0];
  begin(job);
  fc::future<int> result;
  call(target, result);
  CHECK(::dlclose(library) == 0);
  CHECK(result.get() == 16);
  call(target, result);
  CHECK(result.get() == 16);
  CHECK(text() == 42);
  CHECK(fc::sync(target, [](int v) { return v + 1; }, 1) == 2);

  void* const again = load(argv[2]);
  CHECK(function_of<int(const fc::node&)>(again, "early_call")(target) == -3);
  return 0;
}
