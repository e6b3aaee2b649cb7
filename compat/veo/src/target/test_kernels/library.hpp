// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace farcall::veo::test {

/// A library of kernels, which the destructor closes.
class library {
 public:
  explicit library(const std::string& path)
      : handle_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) ADD_FAILURE() << ::dlerror();
  }
  ~library() { ::dlclose(handle_); }
  library(const library&) = delete;
  library& operator=(const library&) = delete;

  const void* operator[](const char* name) const {
    const void* address = ::dlsym(handle_, name);
    if (address == nullptr) ADD_FAILURE() << ::dlerror();
    return address;
  }

  template <class Type>
  Type& variable(const char* name) const {
    return *static_cast<Type*>(::dlsym(handle_, name));
  }

 private:
  void* handle_;
};

} // namespace farcall::veo::test
