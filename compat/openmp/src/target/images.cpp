// SPDX-License-Identifier: Apache-2.0
#include "images.hpp"

#include <farcall/base/error.hpp>

#include <cerrno>

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace farcall::openmp {

namespace {

constexpr const char* usual_runtime = "libomp.so.5";

/// File in memory, which is closed at the end of its block unless it is kept.
class memory_file {
 public:
  explicit memory_file(const char* name) : fd_(::memfd_create(name, MFD_CLOEXEC)) {
    if (fd_ < 0)
      throw_system_error("cannot make a memory file for an image of target regions", errno);
  }
  memory_file(const memory_file&) = delete;
  memory_file& operator=(const memory_file&) = delete;
  ~memory_file() {
    if (!is_kept_) ::close(fd_);
  }

  [[nodiscard]] int fd() const noexcept { return fd_; }
  void keep() noexcept { is_kept_ = true; }

 private:
  int fd_;
  bool is_kept_ = false;
};

void write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw_system_error("cannot write an image of target regions to memory", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

} // namespace

std::vector<std::uint64_t> load_library(std::span<const std::byte> image,
                                        const std::vector<std::string>& names) {
  memory_file file("openmp-image");
  write_all(file.fd(), image);
  const std::string path = "/proc/self/fd/" + std::to_string(file.fd());
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror(); // NOLINT(concurrency-mt-unsafe): one state a thread
    throw error("cannot load an image of target regions: " +
                std::string(why == nullptr ? "unknown error" : why));
  }
  // The loader takes libraries of the same path for one library. The file stays open, so that the
  // path of each image has a number of its own.
  file.keep();
  std::vector<std::uint64_t> addresses;
  addresses.reserve(names.size());
  for (const std::string& name : names)
    addresses.push_back(reinterpret_cast<std::uintptr_t>(::dlsym(library, name.c_str())));
  return addresses;
}

bool load_runtime(const std::string& path) {
  for (const std::string& file : {path, std::string(usual_runtime)}) {
    // RTLD_GLOBAL, because images use the runtime of their program without naming it.
    if (!file.empty() && ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return true;
  }
  return false;
}

} // namespace farcall::openmp
