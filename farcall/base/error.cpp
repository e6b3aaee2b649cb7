// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/symbol_name.hpp>

#include <cxxabi.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

namespace farcall {
namespace {

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

} // namespace

remote_error::remote_error(node_id node, std::string type_name, const std::string& text)
    : error(node_text(node) + " threw " + thrown_text(type_name, text), node),
      type_name_(std::move(type_name)), text_(text) {}

forked::forked()
    : error("this process is a fork of the job's process, and can only destroy objects of the job; "
            "call from the parent, or make a job of its own in the child") {}

std::string reason_text(int error_number) { return std::generic_category().message(error_number); }

void throw_system_error(const std::string& what, int error_number, node_id node) {
  throw error(what + ": " + reason_text(error_number), node);
}

std::string demangle(const char* name) {
  // Limit the length of the demangled name. Mangled names may come from other processes and files,
  // and a short one may expand to gigabytes.
  constexpr std::uint64_t max_text = std::uint64_t{1} << 20;
  return max_demangled_bytes(name) > max_text ? name : demangle_unlimited(name);
}

std::string demangle_unlimited(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  if (status != 0 || !text) return name;
  std::string readable = text.get();
  // Remove parts that only the standard library needs, so that names look as in source code.
  replace_all(readable, "__cxx11::", "");
  replace_all(readable, "[abi:cxx11]", "");
  replace_all(readable, "std::__1::", "std::");
  replace_all(readable, "std::basic_string<char, std::char_traits<char>, std::allocator<char> >",
              "std::string");
  return readable;
}

const char* exception_text(const std::exception& e) noexcept {
  const char* const text = e.what();
  return text != nullptr ? text : "";
}

std::string thrown_text(std::string_view type_name, std::string_view text) {
  std::string what(type_name.empty() ? "an error without a type" : type_name);
  if (text.empty()) return what + (type_name.empty() ? " or a text" : "");
  what += ": ";
  what += text;
  return what;
}

std::string missing_node_text(node_id node, std::size_t nodes) {
  if (node == no_node) {
    return "there is no node here: an empty buffer, span or node handle belongs to none";
  }
  return "there is no node " + std::to_string(node) + ": the job has " + std::to_string(nodes) +
         " nodes";
}

std::string node_text(node_id node) {
  if (node == no_node) return "no node";
  if (node == host_id) return "the host (node 0)";
  return "node " + std::to_string(node);
}

} // namespace farcall
