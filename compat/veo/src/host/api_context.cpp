// SPDX-License-Identifier: Apache-2.0
#include "debug_log.hpp"
#include "handles.hpp"
#include "processes.hpp"

#include <bit>
#include <memory>

/// Functions of the API for contexts, arguments, calls and their results.
namespace {

using namespace farcall::veo;

static_assert(VEO_COMMAND_OK == static_cast<int>(command_state::ok) &&
              VEO_COMMAND_EXCEPTION == static_cast<int>(command_state::exception) &&
              VEO_COMMAND_ERROR == static_cast<int>(command_state::error) &&
              VEO_COMMAND_UNFINISHED == static_cast<int>(command_state::unfinished));
static_assert(VEO_INTENT_IN == static_cast<int>(intent::in) &&
              VEO_INTENT_INOUT == static_cast<int>(intent::inout) &&
              VEO_INTENT_OUT == static_cast<int>(intent::out));
static_assert(VEO_REQUEST_ID_INVALID == context::invalid_request);

constexpr unsigned float_shift = 32;

int set(veo_args* ca, int argnum, std::uint64_t word, argument_kind kind) {
  return guarded(-1, [&] {
    behind(ca).set(argnum, word, kind);
    return 0;
  });
}

/// Sets an integer argument after extending it to 64 bits, by its sign if the type is signed and by
/// zeros otherwise.
template <class Integer>
int set_integer(veo_args* ca, int argnum, Integer value) {
  if constexpr (std::is_signed_v<Integer>) {
    return set(ca, argnum, static_cast<std::uint64_t>(static_cast<std::int64_t>(value)),
               argument_kind::integer);
  } else {
    return set(ca, argnum, value, argument_kind::integer);
  }
}

int take(const context::taken& t, uint64_t* retp) {
  if (retp != nullptr && t.state != command_state::unfinished) *retp = t.value;
  return static_cast<int>(t.state);
}

/// Checks and returns the address of a function. Throws error if the address is 0, which a failed
/// look-up returns.
std::uint64_t code_at(std::uint64_t address) {
  if (address == 0) [[unlikely]]
    throw invalid_argument(
        "the kernel's address is 0, as veo_get_sym gives it for an unknown name");
  return address;
}

std::uint64_t submit(auto&& f) { return guarded(context::invalid_request, f); }

} // namespace

extern "C" {

// ---- contexts -----------------------------------------------------------------------------------

int veo_num_contexts(veo_proc_handle* proc) {
  return guarded(-1, [&] { return static_cast<int>(behind(proc).contexts()); });
}

veo_thr_ctxt* veo_get_context(veo_proc_handle* proc, int idx) {
  return guarded<veo_thr_ctxt*>(nullptr, [&]() -> veo_thr_ctxt* {
    context* c = behind(proc).context_at(idx);
    if (c == nullptr) throw invalid_argument("there is no context " + std::to_string(idx));
    return handle_of(*c);
  });
}

veo_thr_ctxt* veo_context_open(veo_proc_handle* proc) {
  return guarded<veo_thr_ctxt*>(nullptr, [&] { return handle_of(behind(proc).open({})); });
}

veo_thr_ctxt* veo_context_open_with_attr(veo_proc_handle* proc, veo_thr_ctxt_attr* attr) {
  return guarded<veo_thr_ctxt*>(nullptr,
                                [&] { return handle_of(behind(proc).open(behind(attr))); });
}

int veo_context_close(veo_thr_ctxt* ctx) {
  return guarded(0, [&] {
    context* c = named_by(ctx);
    // Accept a context that no longer exists, because the Python package py-veo closes some
    // contexts at exit after their process has ended.
    if (is_context(c)) {
      c->owner().close(*c);
    } else {
      debug_log("a context that has been closed was closed again");
    }
    return 0;
  });
}

int veo_get_context_state(veo_thr_ctxt* ctx) {
  return guarded(static_cast<int>(VEO_STATE_UNKNOWN), [&] {
    return static_cast<int>(behind(ctx).owner().has_ended() ? VEO_STATE_EXIT : VEO_STATE_RUNNING);
  });
}

void veo_context_sync(veo_thr_ctxt* ctx) {
  (void)guarded(0, [&] {
    (void)behind(ctx).finish();
    return 0;
  });
}

veo_thr_ctxt_attr* veo_alloc_thr_ctxt_attr(void) {
  return guarded<veo_thr_ctxt_attr*>(
      nullptr, [] { return reinterpret_cast<veo_thr_ctxt_attr*>(new context_attributes); });
}

int veo_free_thr_ctxt_attr(veo_thr_ctxt_attr* attr) {
  return guarded(-1, [&] {
    delete &behind(attr);
    return 0;
  });
}

int veo_set_thr_ctxt_stacksize(veo_thr_ctxt_attr* attr, size_t stack_sz) {
  return guarded(-1, [&] {
    context_attributes& a = behind(attr);
    if (stack_sz < context_attributes::min_stack) {
      throw invalid_argument("a stack of " + std::to_string(stack_sz) +
                             " bytes is too small; the " + "least is " +
                             std::to_string(context_attributes::min_stack));
    }
    a.stack_bytes = stack_sz;
    return 0;
  });
}

int veo_get_thr_ctxt_stacksize(veo_thr_ctxt_attr* attr, size_t* stack_sz) {
  return guarded(-1, [&] {
    const context_attributes& a = behind(attr);
    if (stack_sz == nullptr) throw invalid_argument("the pointer to the size is NULL");
    *stack_sz = a.stack_bytes;
    return 0;
  });
}

void veo_req_block_begin(veo_thr_ctxt* ctx) {
  (void)guarded(0, [&] {
    behind(ctx).begin_block();
    return 0;
  });
}

void veo_req_block_end(veo_thr_ctxt* ctx) {
  (void)guarded(0, [&] {
    behind(ctx).end_block();
    return 0;
  });
}

// ---- arguments ----------------------------------------------------------------------------------

veo_args* veo_args_alloc(void) {
  return guarded<veo_args*>(nullptr, [] { return reinterpret_cast<veo_args*>(new arguments); });
}

void veo_args_clear(veo_args* ca) {
  if (ca != nullptr) behind(ca).clear();
}

void veo_args_free(veo_args* ca) { delete reinterpret_cast<arguments*>(ca); }

int veo_args_set_i64(veo_args* ca, int argnum, int64_t val) { return set_integer(ca, argnum, val); }
int veo_args_set_u64(veo_args* ca, int argnum, uint64_t val) {
  return set_integer(ca, argnum, val);
}
int veo_args_set_i32(veo_args* ca, int argnum, int32_t val) { return set_integer(ca, argnum, val); }
int veo_args_set_u32(veo_args* ca, int argnum, uint32_t val) {
  return set_integer(ca, argnum, val);
}
int veo_args_set_i16(veo_args* ca, int argnum, int16_t val) { return set_integer(ca, argnum, val); }
int veo_args_set_u16(veo_args* ca, int argnum, uint16_t val) {
  return set_integer(ca, argnum, val);
}
int veo_args_set_i8(veo_args* ca, int argnum, int8_t val) { return set_integer(ca, argnum, val); }
int veo_args_set_u8(veo_args* ca, int argnum, uint8_t val) { return set_integer(ca, argnum, val); }

int veo_args_set_double(veo_args* ca, int argnum, double val) {
  return set(ca, argnum, std::bit_cast<std::uint64_t>(val), argument_kind::real64);
}

int veo_args_set_float(veo_args* ca, int argnum, float val) {
  return set(ca, argnum, std::uint64_t{std::bit_cast<std::uint32_t>(val)} << float_shift,
             argument_kind::real32);
}

int veo_args_set_stack(veo_args* ca, enum veo_args_intent inout, int argnum, char* buff,
                       size_t len) {
  return guarded(-1, [&] {
    behind(ca).set_frame(argnum, static_cast<intent>(inout), buff, len);
    return 0;
  });
}

int veo_args_set_hmem(veo_args* ca, int argnum, void* addr) {
  // Pass the address with its tag. Kernels that need an address without a tag remove the tag
  // themselves, and others use the tagged address.
  return set(ca, argnum, reinterpret_cast<std::uintptr_t>(addr), argument_kind::integer);
}

// ---- calls --------------------------------------------------------------------------------------

int veo_call_sync(veo_proc_handle* proc, uint64_t addr, veo_args* args, uint64_t* result) {
  return guarded(-1, [&] {
    static const arguments none;
    const std::uint64_t value =
        behind(proc).main().call_and_wait(code_at(addr), args == nullptr ? none : behind(args));
    if (result != nullptr) *result = value;
    return 0;
  });
}

uint64_t veo_call_async(veo_thr_ctxt* ctx, uint64_t addr, veo_args* args) {
  return submit([&] {
    static const arguments none;
    return behind(ctx).call(code_at(addr), args == nullptr ? none : behind(args));
  });
}

uint64_t veo_call_async_by_name(veo_thr_ctxt* ctx, uint64_t libhdl, const char* symname,
                                veo_args* args) {
  return submit([&] {
    context& c = behind(ctx);
    if (symname == nullptr) throw invalid_argument("veo_call_async_by_name: the name is NULL");
    return veo_call_async(ctx, c.owner().symbol(libhdl, symname), args);
  });
}

uint64_t veo_call_async_vh(veo_thr_ctxt* ctx, uint64_t (*func)(void*), void* arg) {
  return submit([&] { return behind(ctx).call_here(func, arg); });
}

int veo_call_peek_result(veo_thr_ctxt* ctx, uint64_t reqid, uint64_t* retp) {
  return guarded(-1, [&] { return take(behind(ctx).peek(reqid), retp); });
}

int veo_call_wait_result(veo_thr_ctxt* ctx, uint64_t reqid, uint64_t* retp) {
  return guarded(-1, [&] { return take(behind(ctx).wait(reqid), retp); });
}
}
