// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/forced_unwind.hpp>
#include <farcall/call/invoke.hpp>

#include <cxxabi.h>

namespace farcall::detail {

void reply_exception(am::request_context& request) noexcept {
  if (stop_forced_unwind()) return request.reply_error("farcall::error", stopped_unwind_text);
  try {
    throw;
  } catch (const std::exception& e) {
    request.reply_error(demangle(typeid(e).name()), exception_text(e));
  } catch (...) {
    const std::type_info* type = abi::__cxa_current_exception_type();
    request.reply_error(type != nullptr ? demangle(type->name()) : "something unknown", "");
  }
}

} // namespace farcall::detail
