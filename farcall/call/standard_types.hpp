// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <concepts>
#include <string_view>
#include <type_traits>

/// Concepts for types of the standard library. They recognise the types by their members and their
/// namespace, so that a program need not include headers of types that it does not use. Derived
/// classes are not in that namespace, so their additional members are never dropped silently.
namespace farcall::detail {

/// Returns the name of a type as this compiler writes it. Works even without RTTI.
template <class T>
consteval std::string_view source_name() {
  // The text of g++ contains "[with T = std::map<…>; std::string_view = …]", and the text of
  // clang++ "[T = std::map<…>]".
  std::string_view name = __PRETTY_FUNCTION__;
  constexpr std::string_view before_name = "T = ";
  name.remove_prefix(name.find(before_name) + before_name.size());
  const auto end = name.find("; std::string_view = ");
  return name.substr(0, end != std::string_view::npos ? end : name.rfind(']'));
}

template <class T>
consteval bool is_named_in_std() {
  return source_name<T>().starts_with("std::");
}

/// True for a class of namespace std.
template <class T>
concept standard_class = std::is_class_v<T> && is_named_in_std<T>();

/// True for set and map, and for their multi and unordered kinds.
template <class T>
concept associative_container = standard_class<T> && requires(T& values, const T& constant) {
  typename T::key_type;
  typename T::value_type;
  constant.size();
  constant.begin();
  values.insert(values.end(), *constant.begin());
};

template <class T>
concept map_container = associative_container<T> && requires { typename T::mapped_type; };

/// True for deque and list. vector and the strings have more specialised packers.
template <class T>
concept sequence_container = standard_class<T> && requires(T& values, const T& constant) {
  typename T::value_type;
  constant.size();
  constant.begin();
  values.pop_back();
  values.resize(0);
};

/// std::filesystem::path.
template <class T>
concept path_class = standard_class<T> && requires(const T& path) {
  typename T::string_type;
  T::preferred_separator;
  path.native();
};

/// True for unique_ptr, of one object or of an array.
template <class T>
concept unique_owner = standard_class<T> && requires(T& owner) {
  typename T::element_type;
  typename T::deleter_type;
  owner.release();
};

template <class Deleter, class Element>
inline constexpr bool is_template_of = false;
template <template <class> class Deleter, class Element>
inline constexpr bool is_template_of<Deleter<Element>, Element> = true;

/// True for default_delete<Element>. The check is needed because other standard classes, such as
/// function and integral_constant, can be deleters, too.
template <class T, class Element>
concept default_deleter = standard_class<T> && std::is_empty_v<T> && is_template_of<T, Element>;

/// True for a unique_ptr to one object with the default deleter.
template <class T>
concept plain_unique_owner =
    unique_owner<T> && default_deleter<typename T::deleter_type, typename T::element_type> &&
    requires(const T& owner) { owner.operator->(); };

/// shared_ptr and weak_ptr.
template <class T>
concept shared_owner = standard_class<T> && requires(const T& owner) {
  typename T::element_type;
  owner.use_count();
};

/// complex.
template <class T>
concept complex_number = standard_class<T> && requires(const T& number) {
  typename T::value_type;
  { number.real() } -> std::convertible_to<typename T::value_type>;
  { number.imag() } -> std::convertible_to<typename T::value_type>;
};

/// reference_wrapper.
template <class T>
concept wrapped_reference = standard_class<T> && requires(const T& wrapper) {
  typename T::type;
  { wrapper.get() } -> std::same_as<typename T::type&>;
};

/// atomic_ref.
template <class T>
concept atomic_reference = standard_class<T> && requires(const T& reference) {
  T::required_alignment;
  reference.load();
};

/// True for source_location, which points to texts of this program.
template <class T>
concept place_in_source = standard_class<T> && requires(const T& place) {
  place.file_name();
  place.line();
};

/// pmr::polymorphic_allocator.
template <class T>
concept resource_allocator = standard_class<T> && requires(const T& allocator) {
  typename T::value_type;
  allocator.resource();
};

/// True for error_code and error_condition, which point to their category.
template <class T>
concept categorised_error = standard_class<T> && requires(const T& e) {
  e.category();
  e.value();
};

} // namespace farcall::detail
