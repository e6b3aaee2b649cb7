#include "last_error.hpp"
#include "debug_log.hpp"

#include <exception>
#include <utility>

namespace farcall::veo {
namespace {

std::string& text_of_thread() {
  thread_local std::string text;
  return text;
}

} // namespace

void set_last_error(std::string text) {
  debug_log("error: " + text);
  text_of_thread() = std::move(text);
}

const char* last_error() noexcept { return text_of_thread().c_str(); }

std::string current_error() {
  try {
    throw;
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception of an unknown type";
  }
}

} // namespace farcall::veo
