#pragma once

#include <farcall/base/language.hpp>

#include <concepts>
#include <string_view>
#include <type_traits>

/// Types of the standard library, recognised by what they offer and by their namespace, so that
/// their headers need not be included: a program compiles only those that it uses. Classes derived
/// from them are not in that namespace, and what such a class adds is never lost without a word.
namespace farcall::detail {

/// The name of a type as this compiler writes it, also without RTTI.
template <class T>
consteval std::string_view source_name() {
  // g++ writes "[with T = std::map<…>; std::string_view = …]", clang++ "[T = std::map<…>]".
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

/// A class of namespace std.
template <class T>
concept standard_class = std::is_class_v<T> && is_named_in_std<T>();

/// set, map, and their multi and unordered kinds.
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

/// deque and list. vector and the strings have packers that are more special.
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

/// unique_ptr, of one object or of an array.
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

/// default_delete<Element>. Other classes of the standard library can be deleters, too, as function
/// and integral_constant are.
template <class T, class Element>
concept default_deleter = standard_class<T> && std::is_empty_v<T> && is_template_of<T, Element>;

/// unique_ptr with the default deleter, to one object.
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

/// source_location, whose texts are those of this program.
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

/// error_code and error_condition, which point to their category.
template <class T>
concept categorised_error = standard_class<T> && requires(const T& e) {
  e.category();
  e.value();
};

} // namespace farcall::detail
