// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/call/callable_description.hpp>

#include <array>
#include <cstddef>

namespace farcall {

namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// Returns the change of the nesting depth at position `at`: 1 for an opening bracket, -1 for a
/// closing one. The > of an arrow (->) is not counted as a bracket.
int depth_change(std::string_view text, std::size_t at) {
  const char c = text[at];
  if (c == '(' || c == '<' || c == '{' || c == '[') return 1;
  if (c == '>' && at > 0 && text[at - 1] == '-') return 0;
  return c == ')' || c == '>' || c == '}' || c == ']' ? -1 : 0;
}

/// Returns the position behind the bracket that closes the bracket at position `open` of the text.
/// Returns the text's length if no bracket closes it.
std::size_t end_of_brackets(std::string_view text, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    depth += depth_change(text, i);
    if (depth == 0) return i + 1;
  }
  return text.size();
}

/// Removes ", std::allocator<...>" and similar default arguments from the text of a type.
void drop_argument(std::string& text, std::string_view beginning) {
  for (std::size_t at = text.find(beginning); at != std::string::npos; at = text.find(beginning)) {
    text.erase(at, end_of_brackets(text, at + beginning.size() - 1) - at);
    if (text.substr(at).starts_with(" >")) text.erase(at, 1);
  }
}

std::string readable(std::string text) {
  for (const std::string_view part : {"std::__cxx11::", "std::__1::"})
    replace_all(text, part, "std::");
  replace_all(text, "[abi:cxx11]", "");
  replace_all(text, "std::basic_string<char, std::char_traits<char>, std::allocator<char> >",
              "std::string");
  replace_all(text, "std::basic_string_view<char, std::char_traits<char> >", "std::string_view");
  static constexpr std::array<std::string_view, 5> usual{", std::allocator<", ", std::less<",
                                                         ", std::hash<", ", std::equal_to<",
                                                         ", std::default_delete<"};
  for (const std::string_view beginning : usual)
    drop_argument(text, beginning);
  // Remove the space that the demangler writes between two closing brackets. Leave the text of an
  // operator as it is, because the same characters may be part of the operator's name.
  if (text.find("operator") == std::string::npos) replace_all(text, " >", ">");
  return text;
}

/// Returns the last position of `c` outside brackets, or npos if there is none.
std::size_t find_last_outside(std::string_view text, char c) {
  std::size_t found = std::string_view::npos;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (depth == 0 && text[i] == c) found = i;
    depth += depth_change(text, i);
  }
  return found;
}

/// Returns the name of a function: "f<int>" for "double f<int>(double)".
std::string name_of_function(std::string_view text) {
  if (text.starts_with('(') && end_of_brackets(text, 0) == text.size())
    text = text.substr(1, text.size() - 2);
  // Leave an operator's name as it is, because its brackets are no parameter list, and a < in it
  // opens no bracket.
  if (text.find("operator") != std::string_view::npos) return std::string(text);
  const std::size_t parameters =
      text.ends_with(')') ? find_last_outside(text, '(') : std::string_view::npos;
  text = text.substr(0, parameters);
  const std::size_t type_end = find_last_outside(text, ' ');
  if (type_end != std::string_view::npos) text.remove_prefix(type_end + 1);
  return std::string(text);
}

} // namespace

std::string readable_type(std::string_view mangled) {
  return readable(demangle(std::string(mangled).c_str()));
}

callable_description describe_callable(std::string_view name, std::string_view signature) {
  callable_description made;
  const std::size_t at = name.find('@');
  if (at != std::string_view::npos) made.file = name.substr(at + 1);
  name = name.substr(0, at);
  made.name = readable_type(name);
  static constexpr std::string_view function = "farcall::fn_t<&";
  if (made.name.starts_with(function) && made.name.ends_with('>')) {
    made.kind = "function";
    made.name = name_of_function(std::string_view(made.name).substr(
        function.size(), made.name.size() - function.size() - 1));
  } else if (name.starts_with("PF") || name.starts_with("PDo")) {
    made.kind = "pointer";
  } else {
    const bool is_lambda = made.name.find("{lambda(") != std::string::npos ||
                           made.name.find("'lambda") != std::string::npos ||
                           name.find("$_") != std::string_view::npos;
    made.kind = is_lambda ? "lambda" : "object";
  }
  // All pointers to functions of the same type are one callable. It belongs to the library if the
  // type mentions a type of farcall::detail.
  made.is_library =
      made.name.starts_with("farcall::") ||
      (made.kind == "pointer" && made.name.find("farcall::detail::") != std::string::npos);

  const std::size_t type_end = signature.find('|');
  made.type = readable_type(signature.substr(0, type_end));
  if (type_end == std::string_view::npos) return made;
  std::string_view rest = signature.substr(type_end + 1);
  if (const std::size_t bar = rest.find('|'); bar != std::string_view::npos) {
    made.compiler = rest.substr(bar + 1);
    rest = rest.substr(0, bar);
  }
  if (const std::size_t semicolon = rest.find(';'); semicolon != std::string_view::npos) {
    made.contents = rest.substr(semicolon + 1);
    rest = rest.substr(0, semicolon);
  }
  made.layout = rest;
  return made;
}

} // namespace farcall
