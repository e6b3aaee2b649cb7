// SPDX-License-Identifier: Apache-2.0
#include <farcall/gpu/transport/find_gpus.hpp>
#include <farcall/gpu/transport/link_speed.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <dlfcn.h>

namespace farcall::cuda {
namespace {

struct library_close {
  void operator()(void* library) const noexcept { ::dlclose(library); }
};
using library = std::unique_ptr<void, library_close>;

/// Result numbers and attribute numbers of the driver's library.
constexpr int success = 0;
constexpr int no_device = 100;
constexpr int processors_attribute = 16;
constexpr int major_attribute = 75;
constexpr int minor_attribute = 76;

struct driver {
  int (*init)(unsigned flags) = nullptr;
  int (*version)(int* version) = nullptr;
  int (*count)(int* count) = nullptr;
  int (*get)(int* device, int ordinal) = nullptr;
  int (*name)(char* name, int length, int device) = nullptr;
  int (*memory)(std::size_t* bytes, int device) = nullptr;
  int (*attribute)(int* value, int which, int device) = nullptr;
  int (*bus)(char* id, int length, int device) = nullptr;
};

template <class Function>
bool find(void* in, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(in, name));
  return function != nullptr;
}

bool load(void* in, driver& d) {
  return find(in, "cuInit", d.init) && find(in, "cuDriverGetVersion", d.version) &&
         find(in, "cuDeviceGetCount", d.count) && find(in, "cuDeviceGet", d.get) &&
         find(in, "cuDeviceGetName", d.name) && find(in, "cuDeviceTotalMem_v2", d.memory) &&
         find(in, "cuDeviceGetAttribute", d.attribute) && find(in, "cuDeviceGetPCIBusId", d.bus);
}

device_description describe(const driver& d, int ordinal, const std::string& version) {
  device_description found;
  int device = 0;
  if (d.get(&device, ordinal) != success) return found;
  std::array<char, 256> text{};
  if (d.name(text.data(), static_cast<int>(text.size()) - 1, device) == success)
    found.name = text.data();
  std::size_t bytes = 0;
  if (d.memory(&bytes, device) == success) found.memory_bytes = bytes;
  int major = 0;
  int minor = 0;
  int processors = 0;
  (void)d.attribute(&major, major_attribute, device);
  (void)d.attribute(&minor, minor_attribute, device);
  (void)d.attribute(&processors, processors_attribute, device);
  found.architecture = "sm_" + std::to_string(major) + std::to_string(minor);
  found.processors = static_cast<std::uint32_t>(processors);
  found.driver = version;
  if (d.bus(text.data(), static_cast<int>(text.size()) - 1, device) == success)
    found.link = link_speed(text.data());
  return found;
}

} // namespace

gpus_found find_gpus() {
  gpus_found found;
  // Never unload the library, because the initialised driver has threads and exit handlers that
  // need the library's code.
  const library cuda(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE));
  if (!cuda) {
    found.why_none = "no NVIDIA driver (libcuda.so.1) on this machine";
    return found;
  }
  driver d;
  if (!load(cuda.get(), d)) {
    found.why_none = "the NVIDIA driver's library is too old";
    return found;
  }
  const int status = d.init(0);
  int count = 0;
  if (status == no_device || (status == success && d.count(&count) == success && count == 0)) {
    found.why_none = "the NVIDIA driver sees no GPU";
    return found;
  }
  if (status != success) {
    found.why_none = "the NVIDIA driver cannot be used: CUDA error " + std::to_string(status) +
                     " (nvidia-smi may say more)";
    return found;
  }
  int version = 0;
  (void)d.version(&version);
  const std::string text = "driver for CUDA " + std::to_string(version / 1000) + "." +
                           std::to_string(version % 1000 / 10);
  for (int i = 0; i < count; ++i)
    found.gpus.push_back(describe(d, i, text));
  return found;
}

} // namespace farcall::cuda
