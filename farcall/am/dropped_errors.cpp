// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/dropped_errors.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>

#include <atomic>
#include <string>

namespace farcall::am {
namespace {

std::atomic<std::uint64_t> count{0};
/// Number of dropped errors that log lines have reported so far.
std::atomic<std::uint64_t> logged{0};

/// Returns the text of an error that counts if its future is dropped. Returns an empty string for
/// errors that do not count: failed nodes, expired deadlines, stopped calls and forks.
std::string text_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const node_failed&) {
    return "";
  } catch (const timeout&) {
    return "";
  } catch (const cancelled&) {
    return "";
  } catch (const forked&) {
    return "";
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

} // namespace

void note_dropped_error(const std::exception_ptr& failure) noexcept {
  if (!failure) return;
  try {
    const std::string text = text_of(failure);
    if (text.empty() || count.fetch_add(1) != 0) return;
    logged.fetch_add(1);
    log::warning("a future was dropped with an error that get() would have thrown: " + text +
                 "; more such errors are counted, and their number is logged when the job ends");
  } catch (const std::exception&) {
    // If there is no memory for the log line, the error is not logged.
  }
}

std::uint64_t dropped_errors() noexcept { return count.load(); }

void log_dropped_errors() noexcept {
  const std::uint64_t all = count.load();
  const std::uint64_t before = logged.exchange(all);
  if (all == before) return;
  try {
    log::warning(std::to_string(all - before) + " more futures were dropped with an error");
  } catch (const std::exception&) {
    // If there is no memory for the log line, the number is not logged.
  }
}

} // namespace farcall::am
