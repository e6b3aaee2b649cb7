// SPDX-License-Identifier: Apache-2.0
#include <farcall/native/signature.hpp>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace farcall::native {
namespace {

/// Returns the parameter that a letter stands for; none for other letters.
std::optional<parameter> parameter_of(char letter) noexcept {
  switch (letter) {
  case 'b':
    return parameter{value_class::sint8};
  case 'B':
    return parameter{value_class::uint8};
  case '?':
    return parameter{value_class::boolean};
  case 'h':
    return parameter{value_class::sint16};
  case 'H':
    return parameter{value_class::uint16};
  case 'i':
    return parameter{value_class::sint32};
  case 'I':
    return parameter{value_class::uint32};
  case 'l':
  case 'L':
  case 'q':
  case 'Q':
  case 'n':
  case 'N':
  case 'p':
    return parameter{value_class::integer64};
  case 'f':
    return parameter{value_class::real32};
  case 'd':
    return parameter{value_class::real64};
  case 's':
    return parameter{value_class::integer64, passing::in};
  case 'o':
    return parameter{value_class::integer64, passing::out};
  case 'x':
    return parameter{value_class::integer64, passing::in_out};
  default:
    return std::nullopt;
  }
}

/// Reads the letters of a signature from left to right, and skips spaces.
class letters {
 public:
  explicit letters(std::string_view text) : text_(text) { skip(); }

  [[nodiscard]] bool at_end() const noexcept { return at_ == text_.size(); }
  [[nodiscard]] char now() const noexcept { return at_end() ? '\0' : text_[at_]; }
  void next() noexcept {
    ++at_;
    skip();
  }

  /// Throws signature_error. The text of the error contains the current letter and its position,
  /// and says what is wrong.
  [[noreturn]] void refuse(const std::string& what) const {
    const std::string place =
        at_end() ? "at its end" : "at letter " + std::to_string(at_ + 1) + ", '" + text_[at_] + "'";
    throw signature_error("the signature '" + std::string(text_) + "' is wrong " + place + ": " +
                          what);
  }

  void expect(char letter) {
    if (now() != letter) refuse(std::string("expected is '") + letter + "', as in \"d(dpl)\"");
    next();
  }

 private:
  void skip() noexcept {
    while (!at_end() && text_[at_] == ' ')
      ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

constexpr const char* value_letters = "one of bBhHiIlLqQnN (integers), f, d, ? and p";

} // namespace

signature signature::read(std::string_view text) {
  signature made;
  made.text = text;
  letters l(text);
  if (l.now() != 'v') {
    const std::optional<parameter> result = parameter_of(l.now());
    if (!result || result->way != passing::value)
      l.refuse(std::string("the type of a result is v or ") + value_letters);
    made.result = result->kind;
  }
  l.next();
  l.expect('(');
  while (l.now() != ')') {
    if (made.parameters.size() == signature::max_parameters)
      l.refuse("there are more than " + std::to_string(signature::max_parameters) + " parameters");
    const std::optional<parameter> p = parameter_of(l.now());
    if (!p) {
      l.refuse(std::string("the type of a parameter is ") + value_letters +
               ", or one of sox (buffers); ')' is at the end");
    }
    made.has_buffers |= p->way != passing::value;
    made.parameters.push_back(*p);
    l.next();
  }
  l.next();
  if (!l.at_end()) l.refuse("the signature ends after ')'");
  return made;
}

const signature& signature::of(std::string_view text) {
  // The objects are never destroyed, because threads may still make calls while the program ends.
  static auto& mutex = *new std::mutex;
  static auto& known = *new std::map<std::string, std::unique_ptr<const signature>, std::less<>>;
  const std::lock_guard guard(mutex);
  const auto found = known.find(text);
  if (found != known.end()) return *found->second;
  auto made = std::make_unique<const signature>(read(text));
  return *known.emplace(std::string(text), std::move(made)).first->second;
}

} // namespace farcall::native
