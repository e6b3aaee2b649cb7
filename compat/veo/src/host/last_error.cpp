// SPDX-License-Identifier: Apache-2.0
#include "last_error.hpp"
#include "debug_log.hpp"
#include "settings.hpp"

#include <farcall/base/error.hpp>
#include <farcall/base/settings_source.hpp>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <mutex>
#include <string_view>
#include <utility>

namespace farcall::veo {
namespace {

void replace(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

std::string& text_of_thread() {
  thread_local std::string text;
  return text;
}

} // namespace

std::string in_words_of_veo(std::string_view said) {
  std::string text(said);
  replace(text, "node 1", "the helper process");
  replace(text, "share fc::lane objects", "close contexts");
  // Some errors about programs that do not join the job end with a hint. Replace the hint, because
  // it names functions of farcall, which programs for VEO do not call.
  for (const char* const end : {" a farcall program that makes a farcall::job, or calls "
                                "farcall::serve_if_target(), early in main()?",
                                " a farcall program that makes a farcall::job early in main()?"}) {
    replace(text, end, " aveorun, or made by mk_veorun_static?");
  }
  replace(text, "job_options::start_timeout", "FARCALL_START_TIMEOUT_MS");
  return text;
}

void set_last_error(std::string text) {
  debug_log("error: " + text);
  text_of_thread() = std::move(text);
}

const char* last_error() noexcept { return text_of_thread().c_str(); }

void print_error(const std::string& text) noexcept {
  static std::mutex mutex;
  const int error_before = errno;
  try {
    // The text is never destroyed, because helper processes that are destroyed at exit may still
    // print errors.
    static auto* const last = new std::string;
    if (settings_source().text(errors_setting) == "quiet") return;
    // Only try to lock: in a child of a fork, a thread of the parent may hold the mutex for ever.
    const std::unique_lock guard(mutex, std::try_to_lock);
    if (guard && text == *last) return;
    if (guard) *last = text;
  } catch (const std::exception&) {
    // Print the error anyway if memory is exhausted or the setting is invalid.
  }
  // Print by a single call, so that the lines of several threads do not mix.
  (void)std::fprintf(stderr, "[VH] ERROR: %s\n", text.c_str());
  errno = error_before;
}

void report_error(std::string text) {
  print_error(text);
  set_last_error(std::move(text));
}

std::string current_error() {
  try {
    throw;
  } catch (const forked&) {
    return "this process was forked after its parent had created the process handle, and can only "
           "destroy the handle and its objects: call from the parent, or create a process in the "
           "child";
  } catch (const error& e) {
    return e.node() == 1 ? in_words_of_veo(e.what()) : e.what();
  } catch (const std::exception& e) {
    return exception_text(e);
  } catch (...) {
    return "an exception of an unknown type";
  }
}

} // namespace farcall::veo
