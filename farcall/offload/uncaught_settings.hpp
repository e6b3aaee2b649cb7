#pragma once

namespace farcall::detail {

/// Ends this process with the text and status 2 for each setting_error from now on that no code
/// catches. Other uncaught exceptions reach the terminate handler that was set before.
void tell_uncaught_setting_errors() noexcept;

} // namespace farcall::detail
