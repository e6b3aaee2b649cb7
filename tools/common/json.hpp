// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::tool {

/// A JSON document. It is a scalar, an array, or an object whose members keep their order.
///
///     json document{{"bytes", 8}, {"env", {{"cpu", name}}}};
///     document["rows"] = json::array();
class json {
 public:
  json() = default; ///< null
  json(std::nullptr_t) {}
  json(bool value) : text_(value ? "true" : "false") {}
  template <std::integral T>
  json(T value) : text_(std::to_string(value)) {}
  /// Stores the shortest text from which readers get exactly the same number. Stores null if the
  /// number is not finite.
  json(double value);
  /// Stores a text. Replaces invalid UTF-8 by U+FFFD, because readers refuse documents with invalid
  /// UTF-8.
  json(std::string_view value);
  json(const char* value) : json(std::string_view(value)) {}
  json(const std::string& value) : json(std::string_view(value)) {}
  template <class T>
  json(const std::vector<T>& values) : json(std::span<const T>(values)) {}
  template <class T, std::size_t N>
  json(const std::array<T, N>& values) : json(std::span<const T>(values)) {}
  template <class T>
  json(std::span<const T> values) : json(array()) {
    for (const T& value : values)
      push_back(value);
  }
  /// Makes an object if each item is an array of two values, the first of which is a text. The text
  /// is then the member's key. Otherwise makes an array.
  json(std::initializer_list<json> items);

  [[nodiscard]] static json array();
  /// Makes a value from a text that must already be JSON on one line. Meant for long arrays whose
  /// items the program never accesses.
  [[nodiscard]] static json from_text(std::string text);

  /// Returns the member with this key. If it is missing, adds it with the value null. The reference
  /// is valid until the next member is added. If this value is null, it first becomes an object.
  json& operator[](std::string_view key);
  /// Returns a member of an object. Throws std::out_of_range if the member is missing.
  [[nodiscard]] const json& at(std::string_view key) const;
  void erase(std::string_view key);
  /// Appends an item to this array. If this value is null, it first becomes an array.
  void push_back(json item);

  /// Returns the document as a text. It is on one line if `indent` is negative. Otherwise each
  /// level is indented by `indent` spaces.
  [[nodiscard]] std::string dump(int indent = -1) const;

  friend bool operator==(const json&, const json&) = default;

 private:
  enum class kind : std::uint8_t { scalar, array, object };

  [[nodiscard]] bool is_member() const;
  [[nodiscard]] std::size_t index_of(const std::string& key) const;
  void append(std::string& out, int indent, int depth) const;

  kind kind_ = kind::scalar;
  std::string text_ = "null";     ///< JSON text of a scalar
  std::vector<std::string> keys_; ///< keys of an object, as JSON texts
  std::vector<json> items_;
};

} // namespace farcall::tool
