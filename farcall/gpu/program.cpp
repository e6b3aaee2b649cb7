// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/message.hpp>
#include <farcall/base/error.hpp>
#include <farcall/call/key_resolver.hpp>
#include <farcall/gpu/program.hpp>
#include <farcall/gpu/stream_calls.hpp>

#include <cstring>
#include <utility>

namespace farcall {
namespace {

constexpr am::handler_key first_row_key = key_resolver::first_row_key;

/// Throws error if a function with GPU code has a name that CUDA's compiler makes up, as for
/// functions in an unnamed namespace. The host's compiler names such a function differently, so a
/// program built by the other compiler would not find it.
void refuse_unstable_names() {
  const std::vector<bool> code = device_code::existing(device_code::kind::gpu);
  for (std::uint32_t row = 0; row < code.size(); ++row) {
    if (!code[row]) continue;
    const function_registry::row& r = function_registry::instance().rows()[row];
    if (r.name.find("_GLOBAL__N_") == std::string::npos &&
        r.name.find("__nv_") == std::string::npos) {
      continue;
    }
    throw error("the function " + demangle(r.name.c_str()) +
                " cannot be called on GPUs: CUDA's compiler makes up names for what is in an "
                "unnamed namespace and for lambdas; put it into a namespace that has a name");
  }
}

std::vector<std::uint64_t> handlers_of(device_code::kind kind) {
  std::vector<std::uint64_t> by_key(first_row_key);
  by_key[am::fence_key] = static_cast<std::uint64_t>(am::device_code_address::nothing);
  by_key[am::write_memory_key] = static_cast<std::uint64_t>(am::device_code_address::write);
  by_key[am::read_memory_key] = static_cast<std::uint64_t>(am::device_code_address::read);
  for (const std::uint64_t address : device_code::addresses(kind))
    by_key.push_back(address);
  return by_key;
}

/// Launcher of the function in one row of the function registry, and the kind of its launches.
struct row_launch {
  cuda::launcher run = nullptr;
  cuda::launch_kind kind = cuda::launch_kind::kernel;
};

std::vector<row_launch> launches_of(device_code::kind kind) {
  std::vector<row_launch> by_row;
  for (const std::uint64_t address : device_code::addresses(kind))
    by_row.push_back({reinterpret_cast<cuda::launcher>(address)});
  // Add the functions of when() and wait_event(). They launch no kernels, so every kind of device
  // supports them.
  using reached = detail::stream_call<&detail::stream_reached>;
  by_row[reached::far::self.index()] = {&reached::launch::on_threads,
                                        cuda::launch_kind::stream_write};
  using passed = detail::stream_call<&detail::event_passed>;
  by_row[passed::far::self.index()] = {&passed::launch::on_threads, cuda::launch_kind::event_wait};
  return by_row;
}

/// Finds the launcher of the request's function, and fills the request's shape, arguments and
/// handle into `plan`. Returns null if the request is not a launch. `by_row` has a launcher for
/// each row of the function registry.
cuda::launcher find_launcher(const std::vector<row_launch>& by_row, const std::byte* record,
                             std::uint32_t bytes, cuda::launch_plan& plan) {
  const auto* const header = reinterpret_cast<const am::request_header*>(record);
  const std::uint32_t row = header->key - first_row_key;
  if (header->key < first_row_key || row >= by_row.size() || by_row[row].run == nullptr)
    return nullptr;
  plan.arguments = record + am::request_body;
  plan.bytes = bytes - am::request_body;
  std::memcpy(&plan.shape, plan.arguments, sizeof plan.shape);
  plan.kind = by_row[row].kind;
  if (plan.kind != cuda::launch_kind::kernel)
    std::memcpy(&plan.handle, plan.arguments + detail::stream_handle_offset, sizeof plan.handle);
  return by_row[row].run;
}

} // namespace

cuda::device_program device_program_of(device_code::kind handlers, device_code::kind launches) {
  if (handlers == device_code::kind::gpu) refuse_unstable_names();
  cuda::device_program program;
  program.handlers = handlers_of(handlers);
  std::vector<row_launch> by_row = launches_of(launches);
  program.launches.resize(first_row_key);
  for (const row_launch& l : by_row)
    program.launches.push_back(l.run != nullptr);
  program.launch_of = [by_row = std::move(by_row)](const std::byte* record, std::uint32_t bytes,
                                                   cuda::launch_plan& plan) {
    return find_launcher(by_row, record, bytes, plan);
  };
  program.how_to_get_code = "; call a function as fc::device_fn<f> or fc::team_fn<f>";
  if (handlers == device_code::kind::gpu)
    program.how_to_get_code += ", in a file that CUDA's compiler reads";
  return program;
}

} // namespace farcall
