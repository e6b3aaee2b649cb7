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

/// One more for each bracket that is open before `at`; an arrow is none.
int depth_change(std::string_view text, std::size_t at) {
  const char c = text[at];
  if (c == '(' || c == '<' || c == '{' || c == '[') return 1;
  if (c == '>' && at > 0 && text[at - 1] == '-') return 0;
  return c == ')' || c == '>' || c == '}' || c == ']' ? -1 : 0;
}

/// Behind the bracket that closes the one at `open`; the end where none does.
std::size_t end_of_brackets(std::string_view text, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    depth += depth_change(text, i);
    if (depth == 0) return i + 1;
  }
  return text.size();
}

/// Takes ", std::allocator<...>" and the like away.
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
  // As the demangler parts them, unless it is an operator's.
  if (text.find("operator") == std::string::npos) replace_all(text, " >", ">");
  return text;
}

/// The last place outside brackets where `c` stands; npos: none.
std::size_t find_last_outside(std::string_view text, char c) {
  std::size_t found = std::string_view::npos;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (depth == 0 && text[i] == c) found = i;
    depth += depth_change(text, i);
  }
  return found;
}

/// "f<int>" of "double f<int>(double)".
std::string name_of_function(std::string_view text) {
  if (text.starts_with('(') && end_of_brackets(text, 0) == text.size())
    text = text.substr(1, text.size() - 2);
  // An operator's own brackets are no parameters, and part a comparison from none.
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
  // Pointers to functions of one type are one callable.
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
