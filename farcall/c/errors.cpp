// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/version.hpp>
#include <farcall/c/errors.hpp>
#include <farcall/c/library.h>
#include <farcall/c/queue.h>
#include <farcall/c/serving.h>

#include <cstdint>
#include <new>
#include <string>

namespace farcall::c {
namespace {

/// The last failure of the C interface in a thread.
struct last_error {
  fc_status status = FC_OK;
  node_id node = no_node;
  std::string text;
  std::string type;
};

last_error& last() noexcept {
  thread_local last_error of_thread;
  return of_thread;
}

} // namespace

fc_status fail(fc_status status, std::string_view text, node_id node,
               std::string_view type) noexcept {
  last_error& e = last();
  e.status = status;
  e.node = node;
  try {
    e.text = text;
    e.type = type;
  } catch (const std::bad_alloc&) {
    e.text.clear();
    e.type.clear();
  }
  return status;
}

void require(const void* pointer, const char* parameter) {
  if (pointer == nullptr) throw invalid_argument(std::string(parameter) + " must not be NULL");
}

void require_size(std::size_t size) {
  if (size > PTRDIFF_MAX) {
    throw invalid_argument("a size of " + std::to_string(size) +
                           " bytes is more than there can be; is it a negative number?");
  }
}

fc_status fail_with_current() noexcept {
  try {
    throw;
  } catch (const remote_error& e) {
    return fail(FC_REMOTE_ERROR, e.what(), e.node(), e.type_name());
  } catch (const node_failed& e) {
    return fail(FC_NODE_FAILED, e.what(), e.node());
  } catch (const timeout& e) {
    return fail(FC_TIMEOUT, e.what(), e.node());
  } catch (const out_of_memory& e) {
    return fail(FC_OUT_OF_MEMORY, e.what(), e.node());
  } catch (const unknown_function& e) {
    return fail(FC_UNKNOWN_FUNCTION, e.what(), e.node());
  } catch (const wrong_node& e) {
    return fail(FC_WRONG_NODE, e.what(), e.node());
  } catch (const start_failed& e) {
    return fail(FC_START_FAILED, e.what(), e.node());
  } catch (const setting_error& e) {
    return fail(FC_SETTING_ERROR, e.what(), e.node());
  } catch (const malformed_message& e) {
    return fail(FC_MALFORMED, e.what(), e.node());
  } catch (const forked& e) {
    return fail(FC_FORKED, e.what(), e.node());
  } catch (const nested_too_deep& e) {
    return fail(FC_NESTED_TOO_DEEP, e.what(), e.node());
  } catch (const am::interrupted& e) {
    return fail(FC_INTERRUPTED, e.what());
  } catch (const cancelled& e) {
    return fail(FC_CANCELLED, e.what(), e.node());
  } catch (const invalid_argument& e) {
    return fail(FC_INVALID_ARGUMENT, e.what(), e.node());
  } catch (const error& e) {
    return fail(FC_ERROR, e.what(), e.node());
  } catch (const std::bad_alloc&) {
    return fail(FC_OUT_OF_MEMORY, "no memory");
  } catch (const std::exception& e) {
    return fail(FC_ERROR, exception_text(e));
  } catch (...) {
    return fail(FC_ERROR, "an exception whose class is neither farcall's nor std::exception");
  }
}

} // namespace farcall::c

using namespace farcall::c;

#define FARCALL_TEXT_OF(number) #number
#define FARCALL_VERSION_OF(major, minor, patch)                                                    \
  FARCALL_TEXT_OF(major) "." FARCALL_TEXT_OF(minor) "." FARCALL_TEXT_OF(patch)

static_assert((FC_VERSION_MAJOR << 16 | FC_VERSION_MINOR << 8 | FC_VERSION_PATCH) ==
              farcall::this_release);

const char* fc_version(void) {
  return FARCALL_VERSION_OF(FC_VERSION_MAJOR, FC_VERSION_MINOR, FC_VERSION_PATCH);
}

const char* fc_status_name(fc_status status) {
  switch (status) {
  case FC_OK:
    return "FC_OK";
  case FC_ERROR:
    return "FC_ERROR";
  case FC_REMOTE_ERROR:
    return "FC_REMOTE_ERROR";
  case FC_NODE_FAILED:
    return "FC_NODE_FAILED";
  case FC_TIMEOUT:
    return "FC_TIMEOUT";
  case FC_OUT_OF_MEMORY:
    return "FC_OUT_OF_MEMORY";
  case FC_UNKNOWN_FUNCTION:
    return "FC_UNKNOWN_FUNCTION";
  case FC_WRONG_NODE:
    return "FC_WRONG_NODE";
  case FC_START_FAILED:
    return "FC_START_FAILED";
  case FC_SETTING_ERROR:
    return "FC_SETTING_ERROR";
  case FC_MALFORMED:
    return "FC_MALFORMED";
  case FC_INVALID_ARGUMENT:
    return "FC_INVALID_ARGUMENT";
  case FC_FORKED:
    return "FC_FORKED";
  case FC_NESTED_TOO_DEEP:
    return "FC_NESTED_TOO_DEEP";
  case FC_CANCELLED:
    return "FC_CANCELLED";
  case FC_WOULD_BLOCK:
    return "FC_WOULD_BLOCK";
  case FC_INTERRUPTED:
    return "FC_INTERRUPTED";
  case FC_ENDED:
    return "FC_ENDED";
  }
  return "a status of another version";
}

fc_status fc_error_status(void) { return last().status; }
const char* fc_error_text(void) { return last().text.c_str(); }
const char* fc_error_type(void) { return last().type.c_str(); }
uint32_t fc_error_node(void) { return last().node; }

static_assert(FC_NO_NODE == farcall::no_node);

namespace {

using any_c_function = void (*)();

/// Makes a program that uses one function of the C interface contain all of them, because libraries
/// that the program loads later may need the others. From a static library, a linker otherwise
/// takes only the object files that the program needs. Each source file of the C interface uses
/// functions of this file, and this list refers to one function of each of these source files.
[[gnu::used]] const any_c_function whole_interface[] = {
    reinterpret_cast<any_c_function>(&fc_call),
    reinterpret_cast<any_c_function>(&fc_future_get),
    reinterpret_cast<any_c_function>(&fc_job_start),
    reinterpret_cast<any_c_function>(&fc_native_call),
    reinterpret_cast<any_c_function>(&fc_node_add),
    reinterpret_cast<any_c_function>(&fc_put),
    reinterpret_cast<any_c_function>(&fc_queue_open),
    reinterpret_cast<any_c_function>(&fc_register),
    reinterpret_cast<any_c_function>(&fc_take),
    reinterpret_cast<any_c_function>(&fc_wait_any)};

} // namespace
