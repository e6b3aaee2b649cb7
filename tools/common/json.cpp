// SPDX-License-Identifier: Apache-2.0
#include "json.hpp"

#include <farcall/base/text.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <utility>

namespace farcall::tool {

namespace {

std::string escaped(char c) {
  switch (c) {
  case '"':
    return "\\\"";
  case '\\':
    return "\\\\";
  case '\n':
    return "\\n";
  case '\r':
    return "\\r";
  case '\t':
    return "\\t";
  default:
    break;
  }
  if (static_cast<unsigned char>(c) >= 0x20) return {c};
  std::array<char, 8> text{};
  (void)std::snprintf(text.data(), text.size(), "\\u%04x", static_cast<unsigned>(c));
  return text.data();
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    if (bytes == 0) {
      result += replacement_character;
    } else if (bytes == 1) {
      result += escaped(text.front());
    } else {
      result += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return result + '"';
}

std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  const double size = std::abs(value);
  const bool is_plain = size == 0 || (size >= 1e-4 && size < 1e15);
  std::array<char, 32> text{};
  const auto [end, status] =
      std::to_chars(text.data(), text.data() + text.size(), value,
                    is_plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string result(text.data(), end);
  // Add ".0" to whole numbers. Some readers distinguish integers from other numbers, and should see
  // the same type for each value of a field.
  if (result.find_first_of(".e") == std::string::npos) result += ".0";
  return result;
}

} // namespace

json::json(double value) : text_(number(value)) {}

json::json(std::string_view value) : text_(quoted(value)) {}

json::json(std::initializer_list<json> items) {
  const bool is_object =
      std::all_of(items.begin(), items.end(), [](const json& item) { return item.is_member(); });
  kind_ = is_object ? kind::object : kind::array;
  for (const json& item : items) {
    if (is_object) {
      keys_.push_back(item.items_.front().text_);
      items_.push_back(item.items_.back());
    } else {
      items_.push_back(item);
    }
  }
}

json json::array() {
  json made;
  made.kind_ = kind::array;
  return made;
}

json json::from_text(std::string text) {
  json made;
  made.text_ = std::move(text);
  return made;
}

bool json::is_member() const {
  return kind_ == kind::array && items_.size() == 2 && items_.front().kind_ == kind::scalar &&
         items_.front().text_.starts_with('"');
}

std::size_t json::index_of(const std::string& key) const {
  return static_cast<std::size_t>(std::find(keys_.begin(), keys_.end(), key) - keys_.begin());
}

json& json::operator[](std::string_view key) {
  std::string written = quoted(key);
  const std::size_t at = index_of(written);
  if (at < items_.size()) return items_[at];
  kind_ = kind::object;
  keys_.push_back(std::move(written));
  return items_.emplace_back();
}

const json& json::at(std::string_view key) const {
  const std::size_t at = index_of(quoted(key));
  if (at >= keys_.size()) throw std::out_of_range("no member " + quoted(key));
  return items_[at];
}

void json::erase(std::string_view key) {
  const std::size_t at = index_of(quoted(key));
  if (at >= keys_.size()) return;
  keys_.erase(keys_.begin() + static_cast<std::ptrdiff_t>(at));
  items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(at));
}

void json::push_back(json item) {
  kind_ = kind::array;
  items_.push_back(std::move(item));
}

std::string json::dump(int indent) const {
  std::string out;
  append(out, indent, 0);
  return out;
}

void json::append(std::string& out, int indent, int depth) const {
  if (kind_ == kind::scalar) {
    out += text_;
    return;
  }
  const bool is_object = kind_ == kind::object;
  const auto begin_line = [&](int level) {
    if (indent < 0) return;
    out += '\n';
    out.append(static_cast<std::size_t>(indent) * static_cast<std::size_t>(level), ' ');
  };
  out += is_object ? '{' : '[';
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (i > 0) out += ',';
    begin_line(depth + 1);
    if (is_object) out += keys_[i] + (indent < 0 ? ":" : ": ");
    items_[i].append(out, indent, depth + 1);
  }
  if (!items_.empty()) begin_line(depth);
  out += is_object ? '}' : ']';
}

} // namespace farcall::tool
