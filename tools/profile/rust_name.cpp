// SPDX-License-Identifier: Apache-2.0
#include "rust_name.hpp"

#include "demangle_apart.hpp"

#include <tools/common/elf_file.hpp>

#include <farcall/base/symbol_name.hpp>

#include <cstdint>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

/// Thrown to end the decoding of a symbol that is no valid Rust name.
struct no_rust_name {};

/// Decodes a symbol by the grammar of RFC 2603. Each rule of the grammar has a function, and the
/// functions read the symbol from left to right. The output is limited, because back references can
/// make its length exponential in the length of the input.
class rust_decoder {
 public:
  rust_decoder(std::string_view symbol, std::size_t longest) : in_(symbol), longest_(longest) {}

  std::string decode() {
    path(true);
    // A generic function has a second path, which is the crate that has instantiated the function.
    // Decode this path silently, because it is not displayed.
    if (at_ < in_.size()) {
      is_silent_ = true;
      path(false);
    }
    if (at_ != in_.size()) throw no_rust_name();
    return std::move(out_);
  }

 private:
  static constexpr unsigned deepest = 200;

  /// Counts a level of nesting during the lifetime of this object. Ends the decoding if there are
  /// too many levels.
  class level {
   public:
    explicit level(rust_decoder& of) : of_(of) {
      if (++of_.depth_ > deepest) throw no_rust_name();
    }
    level(const level&) = delete;
    level& operator=(const level&) = delete;
    ~level() { --of_.depth_; }

   private:
    rust_decoder& of_;
  };

  struct identifier {
    std::string_view text;
    bool is_encoded = false;
  };

  [[nodiscard]] char peek() const { return at_ < in_.size() ? in_[at_] : '\0'; }
  char next() {
    if (at_ >= in_.size()) throw no_rust_name();
    return in_[at_++];
  }
  bool eat(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void print(std::string_view text) {
    if (is_silent_) return;
    if (text.size() > longest_ - out_.size()) throw no_rust_name();
    out_ += text;
  }

  /// Appends a digit to a number of this base. Throws no_rust_name on overflow.
  static std::uint64_t with_digit(std::uint64_t value, std::uint64_t base, std::uint64_t digit) {
    if (value > (std::numeric_limits<std::uint64_t>::max() - digit) / base) throw no_rust_name();
    return value * base + digit;
  }

  /// Parses "_" as 0, "0_" as 1, "Z_" as 62.
  std::uint64_t base_62() {
    if (eat('_')) return 0;
    std::uint64_t value = 0;
    while (!eat('_')) {
      const char c = next();
      std::uint64_t digit = 0;
      if (c >= '0' && c <= '9') {
        digit = static_cast<std::uint64_t>(c - '0');
      } else if (c >= 'a' && c <= 'z') {
        digit = static_cast<std::uint64_t>(c - 'a') + 10;
      } else if (c >= 'A' && c <= 'Z') {
        digit = static_cast<std::uint64_t>(c - 'A') + 36;
      } else {
        throw no_rust_name();
      }
      value = with_digit(value, 62, digit);
    }
    return with_digit(value, 1, 1);
  }
  /// If the symbol has `tag` at the present position, reads the number after the tag and returns
  /// that number plus one. Otherwise returns 0.
  std::uint64_t base_62_behind(char tag) { return eat(tag) ? with_digit(base_62(), 1, 1) : 0; }
  std::uint64_t disambiguator() { return base_62_behind('s'); }

  identifier plain_identifier() {
    identifier name;
    name.is_encoded = eat('u');
    if (peek() < '0' || peek() > '9') throw no_rust_name();
    std::uint64_t length = 0;
    if (!eat('0')) {
      while (peek() >= '0' && peek() <= '9')
        length = with_digit(length, 10, static_cast<std::uint64_t>(next() - '0'));
    }
    eat('_');
    if (length > in_.size() - at_) throw no_rust_name();
    name.text = in_.substr(at_, length);
    at_ += length;
    return name;
  }

  void print(const identifier& name) {
    if (!name.is_encoded) return print(name.text);
    // Punycode has the ASCII letters first, and after "_" the other letters with their positions.
    const std::size_t last = name.text.rfind('_');
    const bool has_ascii = last != std::string_view::npos;
    print("punycode{");
    if (has_ascii) {
      print(name.text.substr(0, last));
      print("-");
    }
    print(has_ascii ? name.text.substr(last + 1) : name.text);
    print("}");
  }

  /// Reads the position of an earlier part of the symbol, and decodes that part by `rule`. Then
  /// goes back to the present position.
  template <class Rule>
  void back_reference(const Rule& rule) {
    const std::size_t tag = at_ - 1;
    const std::uint64_t to = base_62();
    if (to >= tag) throw no_rust_name();
    // Don't follow a back reference in silent decoding. Back references could make it take
    // exponential time, because the limit of the output, which bounds the time otherwise, has no
    // effect without output.
    if (is_silent_) return;
    const std::size_t behind = std::exchange(at_, static_cast<std::size_t>(to));
    rule();
    at_ = behind;
  }

  void path(bool is_value) {
    const level here(*this);
    switch (const char tag = next()) {
    case 'C':
      (void)disambiguator();
      return print(plain_identifier());
    case 'N':
      return nested_path(is_value);
    case 'M':
    case 'X':
    case 'Y':
      if (tag != 'Y') skip_path_of_implementation();
      print("<");
      type();
      if (tag != 'M') {
        print(" as ");
        path(false);
      }
      return print(">");
    case 'I':
      path(is_value);
      if (is_value) print("::");
      print("<");
      generic_arguments();
      return print(">");
    case 'B':
      return back_reference([&] { path(is_value); });
    default:
      throw no_rust_name();
    }
  }

  void nested_path(bool is_value) {
    const char space = next();
    path(is_value);
    const std::uint64_t number = disambiguator();
    const identifier name = plain_identifier();
    if (space >= 'A' && space <= 'Z') {
      print("::{");
      print(space == 'C' ? "closure" : space == 'S' ? "shim" : std::string_view(&space, 1));
      if (!name.text.empty()) {
        print(":");
        print(name);
      }
      print(fmt::format("#{}}}", number));
    } else if (space >= 'a' && space <= 'z') {
      if (name.text.empty()) return;
      print("::");
      print(name);
    } else {
      throw no_rust_name();
    }
  }

  void skip_path_of_implementation() {
    (void)disambiguator();
    const bool was_silent = std::exchange(is_silent_, true);
    path(false);
    is_silent_ = was_silent;
  }

  /// Decodes elements up to "E".
  template <class Rule>
  std::size_t list(std::string_view between, const Rule& rule) {
    std::size_t count = 0;
    for (; !eat('E'); ++count) {
      if (count != 0) print(between);
      rule();
    }
    return count;
  }

  void generic_arguments() {
    list(", ", [&] {
      if (eat('L')) return lifetime(base_62());
      if (eat('K')) return constant();
      type();
    });
  }

  void lifetime(std::uint64_t index) {
    if (index == 0) return print("'_");
    if (index > bound_) throw no_rust_name();
    const std::uint64_t number = bound_ - index;
    if (number < 26) return print(fmt::format("'{}", static_cast<char>('a' + number)));
    print(fmt::format("'_{}", number));
  }

  template <class Rule>
  void with_bound_lifetimes(const Rule& rule) {
    const std::uint64_t count = base_62_behind('G');
    if (count > longest_) throw no_rust_name();
    if (count != 0) print("for<");
    for (std::uint64_t i = 0; i < count; ++i) {
      if (i != 0) print(", ");
      ++bound_;
      lifetime(1);
    }
    if (count != 0) print("> ");
    rule();
    bound_ -= count;
  }

  static std::string_view basic_type(char tag) {
    switch (tag) {
    case 'a':
      return "i8";
    case 'b':
      return "bool";
    case 'c':
      return "char";
    case 'd':
      return "f64";
    case 'e':
      return "str";
    case 'f':
      return "f32";
    case 'h':
      return "u8";
    case 'i':
      return "isize";
    case 'j':
      return "usize";
    case 'l':
      return "i32";
    case 'm':
      return "u32";
    case 'n':
      return "i128";
    case 'o':
      return "u128";
    case 'p':
      return "_";
    case 's':
      return "i16";
    case 't':
      return "u16";
    case 'u':
      return "()";
    case 'v':
      return "...";
    case 'x':
      return "i64";
    case 'y':
      return "u64";
    case 'z':
      return "!";
    default:
      return {};
    }
  }

  void type() {
    const level here(*this);
    const char tag = next();
    if (const std::string_view name = basic_type(tag); !name.empty()) return print(name);
    switch (tag) {
    case 'A':
    case 'S':
      print("[");
      type();
      if (tag == 'A') {
        print("; ");
        constant();
      }
      return print("]");
    case 'T': {
      print("(");
      if (list(", ", [&] { type(); }) == 1) print(",");
      return print(")");
    }
    case 'R':
    case 'Q':
      print("&");
      if (eat('L')) {
        if (const std::uint64_t index = base_62(); index != 0) {
          lifetime(index);
          print(" ");
        }
      }
      if (tag == 'Q') print("mut ");
      return type();
    case 'P':
      print("*const ");
      return type();
    case 'O':
      print("*mut ");
      return type();
    case 'F':
      return with_bound_lifetimes([&] { function_type(); });
    case 'D':
      print("dyn ");
      with_bound_lifetimes([&] { list(" + ", [&] { dynamic_trait(); }); });
      if (!eat('L')) throw no_rust_name();
      if (const std::uint64_t index = base_62(); index != 0) {
        print(" + ");
        lifetime(index);
      }
      return;
    case 'B':
      return back_reference([&] { type(); });
    default:
      --at_;
      path(false);
    }
  }

  void function_type() {
    if (eat('U')) print("unsafe ");
    if (eat('K')) {
      print("extern \"");
      if (eat('C')) {
        print("C");
      } else {
        std::string name(plain_identifier().text);
        for (char& c : name) {
          if (c == '_') c = '-';
        }
        print(name);
      }
      print("\" ");
    }
    print("fn(");
    list(", ", [&] { type(); });
    print(")");
    if (eat('u')) return; // "u": the function returns void
    print(" -> ");
    type();
  }

  /// Prints a path. If the path has generic arguments, leaves out the closing bracket, so that the
  /// caller can print further arguments. Returns true in this case.
  bool open_path() {
    const level here(*this);
    if (eat('B')) {
      bool is_open = false;
      back_reference([&] { is_open = open_path(); });
      return is_open;
    }
    if (!eat('I')) {
      path(false);
      return false;
    }
    path(false);
    print("<");
    generic_arguments();
    return true;
  }

  void dynamic_trait() {
    bool is_open = open_path();
    while (eat('p')) {
      print(is_open ? ", " : "<");
      is_open = true;
      print(plain_identifier());
      print(" = ");
      type();
    }
    if (is_open) print(">");
  }

  void constant() {
    const level here(*this);
    if (eat('B')) return back_reference([&] { constant(); });
    const char tag = next();
    if (tag == 'p') return print("_");
    const bool is_signed = std::string_view("aslxni").find(tag) != std::string_view::npos;
    if (!is_signed && std::string_view("htmyojbc").find(tag) == std::string_view::npos)
      throw no_rust_name();
    if (is_signed && eat('n')) print("-");
    const std::size_t begin = at_;
    std::uint64_t value = 0;
    while (!eat('_')) {
      const char c = next();
      const bool is_digit = c >= '0' && c <= '9';
      if (!is_digit && (c < 'a' || c > 'f')) throw no_rust_name();
      value = value << 4 | static_cast<std::uint64_t>(is_digit ? c - '0' : c - 'a' + 10);
    }
    const std::string_view digits = in_.substr(begin, at_ - 1 - begin);
    if (tag == 'b' && value > 1) throw no_rust_name();
    if (tag == 'b') return print(value == 1 ? "true" : "false");
    if (tag == 'c' && value >= ' ' && value <= '~')
      return print(fmt::format("'{}'", static_cast<char>(value)));
    if (tag == 'c') return print(fmt::format("'\\u{{{:x}}}'", value));
    if (digits.size() > 16) return print(fmt::format("0x{}", digits));
    print(fmt::format("{}", value));
  }

  std::string_view in_;
  std::size_t at_ = 0;
  std::size_t longest_;
  std::string out_;
  unsigned depth_ = 0;
  /// Number of lifetimes that are bound by the binders around the present position.
  std::uint64_t bound_ = 0;
  bool is_silent_ = false;
};

} // namespace

std::optional<std::string> rust_name(std::string_view symbol, std::size_t longest) {
  if (!symbol.starts_with("_R")) return {};
  // Remove the suffix that the compiler or the linker has added.
  symbol = symbol.substr(2, symbol.find_first_of(".$") - 2);
  // Refuse a symbol that begins with a number, because it belongs to a later version of the scheme.
  if (symbol.empty() || symbol.front() < 'A' || symbol.front() > 'Z') return {};
  try {
    return rust_decoder(symbol, longest).decode();
  } catch (const no_rust_name&) {
    return {};
  }
}

std::string readable_function(std::string_view symbol) {
  if (auto name = rust_name(symbol, elf_file::max_name)) return *std::move(name);
  const std::string mangled(symbol);
  std::string name = demangle_symbol(mangled);
  // The upper bound of demangle_symbol() is far too high for many functions of templates.
  if (name != mangled || !symbol.starts_with("_Z")) return name;
  name = demangle_apart(mangled);
  return name == mangled ? first_names(mangled) : name;
}

} // namespace farcall::tool
