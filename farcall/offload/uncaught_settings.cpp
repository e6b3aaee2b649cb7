// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/offload/uncaught_settings.hpp>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>

namespace farcall::detail {
namespace {

/// Exit status by which commands usually report a wrong argument.
constexpr int wrong_use_status = 2;

std::atomic<std::terminate_handler> handler_before{nullptr};

[[noreturn]] void end_with_text() {
  try {
    if (const std::exception_ptr uncaught = std::current_exception())
      std::rethrow_exception(uncaught);
  } catch (const setting_error& e) {
    (void)std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, e.what());
    (void)std::fflush(nullptr);
    std::_Exit(wrong_use_status);
  } catch (...) {
    // For all other exceptions, the previous terminate handler is called below.
  }
  if (const std::terminate_handler before = handler_before.load()) before();
  std::abort();
}

} // namespace

void tell_uncaught_setting_errors() noexcept {
  if (std::get_terminate() == &end_with_text) return;
  handler_before.store(std::set_terminate(&end_with_text));
}

} // namespace farcall::detail
