// SPDX-License-Identifier: Apache-2.0
#include "helper.hpp"

#include <tools/common/outcome.hpp>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <farcall_veo.h>
#include <fmt/format.h>
#include <ve_offload.h>

namespace farcall::tool {
namespace {

struct arguments_end {
  void operator()(veo_args* a) const noexcept { veo_args_free(a); }
};
using veo_arguments = std::unique_ptr<veo_args, arguments_end>;

[[noreturn]] void fail(const char* what) {
  throw failed_run(fmt::format("{}: {}", what, farcall_veo_last_error()));
}

} // namespace

struct veo_helper::state {
  state() = default;
  state(const state&) = delete;
  state& operator=(const state&) = delete;
  ~state() {
    if (process != nullptr) veo_proc_destroy(process);
  }

  veo_proc_handle* process = nullptr;
  veo_thr_ctxt* context = nullptr;
  std::uint64_t successor = 0;
  std::uint64_t nothing = 0;
  int pid = 0;
  veo_arguments arguments{veo_args_alloc()};
  std::vector<std::uint64_t> requests;

  std::uint64_t submit(std::uint64_t value) const {
    veo_args_set_u64(arguments.get(), 0, value);
    const std::uint64_t id = veo_call_async(context, successor, arguments.get());
    if (id == VEO_REQUEST_ID_INVALID) fail("veo_call_async");
    return id;
  }
  std::uint64_t wait(std::uint64_t id) const {
    std::uint64_t value = 0;
    if (veo_call_wait_result(context, id, &value) != VEO_COMMAND_OK) fail("veo_call_wait_result");
    return value;
  }
  std::uint64_t call(std::uint64_t value) const {
    veo_args_set_u64(arguments.get(), 0, value);
    std::uint64_t result = 0;
    if (veo_call_sync(process, successor, arguments.get(), &result) != 0) fail("veo_call_sync");
    return result;
  }
};

veo_helper::veo_helper(int cpu, std::size_t calls) : state_(std::make_unique<state>()) {
  // setenv() is safe: the command still has one thread.
  ::setenv("VE_CORE_NUMBER", std::to_string(cpu).c_str(), 1);
  state_->process = veo_proc_create(0);
  if (state_->process == nullptr) fail("veo_proc_create");
  state_->context = veo_context_open(state_->process);
  state_->successor = veo_get_sym(state_->process, 0, "farcall_veo_successor");
  state_->nothing = veo_get_sym(state_->process, 0, "farcall_veo_nothing");
  void* tagged = nullptr;
  if (veo_alloc_hmem(state_->process, &tagged, 1) == 0) {
    state_->pid = veo_get_pid_from_hmem(tagged);
    veo_free_hmem(tagged);
  }
  if (state_->context == nullptr || state_->successor == 0 || state_->nothing == 0) {
    fail("a helper without farcall's own kernels");
  }
  state_->requests.resize(calls);
}

veo_helper::~veo_helper() = default;

int veo_helper::pid() const { return state_->pid; }

call_tests veo_helper::tests() {
  state& s = *state_;
  return {[&s](std::size_t n) {
            for (std::size_t i = 0; i < n; ++i)
              s.requests[i] = s.submit(i);
            std::uint64_t last = 0;
            for (std::size_t i = 0; i < n; ++i)
              last = s.wait(s.requests[i]);
            check_last(last, n);
          },
          [&s](std::size_t n) {
            std::uint64_t last = 0;
            for (std::size_t i = 0; i < n; ++i)
              last = s.wait(s.submit(last));
            check_last(last, n);
          },
          [&s](std::size_t n) {
            std::uint64_t request = 0;
            for (std::size_t i = 0; i < n; ++i)
              request = s.submit(i);
            check_last(s.wait(request), n);
          },
          [&s](std::size_t n) {
            std::uint64_t last = 0;
            for (std::size_t i = 0; i < n; ++i)
              last = s.call(last);
            check_last(last, n);
          }};
}

void veo_helper::call_sync() {
  std::uint64_t result = 0;
  if (veo_call_sync(state_->process, state_->nothing, nullptr, &result) != 0) fail("veo_call_sync");
}

void veo_helper::call_and_wait() {
  const std::uint64_t id = veo_call_async(state_->context, state_->nothing, nullptr);
  if (id == VEO_REQUEST_ID_INVALID) fail("veo_call_async");
  (void)state_->wait(id);
}

std::uint64_t veo_helper::allocate(std::size_t bytes) {
  std::uint64_t address = 0;
  if (veo_alloc_mem(state_->process, &address, bytes) != 0) fail("veo_alloc_mem");
  return address;
}

void veo_helper::release(std::uint64_t address) {
  if (veo_free_mem(state_->process, address) != 0) fail("veo_free_mem");
}

void veo_helper::write(std::uint64_t to, const void* from, std::size_t bytes) {
  if (veo_write_mem(state_->process, to, from, bytes) != 0) fail("veo_write_mem");
}

void veo_helper::read(void* to, std::uint64_t from, std::size_t bytes) {
  if (veo_read_mem(state_->process, to, from, bytes) != 0) fail("veo_read_mem");
}

} // namespace farcall::tool
