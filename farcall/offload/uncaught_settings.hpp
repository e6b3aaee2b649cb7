// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace farcall::detail {

/// Installs a terminate handler. If the program does not catch a setting_error, the handler prints
/// the text of the exception, and ends the process with the status 2. For other exceptions, it
/// calls the previous terminate handler.
void tell_uncaught_setting_errors() noexcept;

} // namespace farcall::detail
