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

/// A JSON document to be written: a scalar, an array, or an object whose members keep their order.
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
  /// Shortest text that reads back as the same number; null when it is not finite.
  json(double value);
  /// What is no UTF-8 becomes U+FFFD: readers refuse a document that holds it.
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
  /// An object when each item is an array of two that begins with a text, else an array.
  json(std::initializer_list<json> items);

  [[nodiscard]] static json array();
  /// What is JSON text already, on one line: long arrays whose items need not be looked at.
  [[nodiscard]] static json from_text(std::string text);

  /// The member of an object, made null if there is none; valid until the next one is made. What is
  /// null becomes an object.
  json& operator[](std::string_view key);
  /// The member of an object; throws std::out_of_range when there is none.
  [[nodiscard]] const json& at(std::string_view key) const;
  void erase(std::string_view key);
  /// To an array. What is null becomes one.
  void push_back(json item);

  /// On one line, or with `indent` blanks for each level.
  [[nodiscard]] std::string dump(int indent = -1) const;

  friend bool operator==(const json&, const json&) = default;

 private:
  enum class kind : std::uint8_t { scalar, array, object };

  [[nodiscard]] bool is_member() const;
  [[nodiscard]] std::size_t index_of(const std::string& key) const;
  void append(std::string& out, int indent, int depth) const;

  kind kind_ = kind::scalar;
  std::string text_ = "null";     ///< of a scalar, as it is written
  std::vector<std::string> keys_; ///< of an object, as they are written
  std::vector<json> items_;
};

} // namespace farcall::tool
