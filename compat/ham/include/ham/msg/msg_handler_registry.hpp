// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ham/misc/types.hpp>
#include <ham/util/debug.hpp>
#include <ham/util/log.hpp>

#include <cassert>
#include <cstddef>
#include <map>
#include <ostream>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

namespace ham::msg {

/// Handlers of the program's messages, indexed by their keys. The keys of two programs agree if the
/// programs have the same message types. Offloads do not use this registry, because farcall finds
/// their code by name.
class msg_handler_registry_abi {
 public:
  using key_type = std::size_t;
  using handler_type = void (*)(void* buffer);
  using set_key_type = void (*)(key_type key);
  using handler_map_type = std::map<std::string, std::pair<handler_type, set_key_type>>;
  using handler_vector_type = std::vector<handler_type>;

  /// Assigns a key to each message type. It must be called once, before the first message is
  /// created.
  static void init() {
    handlers().clear();
    for (const auto& [name, entry] : by_name()) {
      entry.second(handlers().size());
      handlers().push_back(entry.first);
    }
  }

  static handler_type get_handler(key_type key) {
    assert(key < handlers().size() && "ham: call msg_handler_registry::init() first");
    return handlers()[key];
  }

  /// Adds a message type to the registry. It is called for each message type during static
  /// initialisation, before main() runs.
  template <class Message>
  static bool register_handler(const char* name, handler_type handler) {
    by_name()[name] = {handler, &Message::set_key};
    return true;
  }

  static void print_handler_map(std::ostream& out) {
    for (const auto& [name, entry] : by_name())
      out << name << " -> " << reinterpret_cast<void*>(entry.first) << '\n';
  }
  static void print_handler_vector(std::ostream& out) {
    for (std::size_t key = 0; key < handlers().size(); ++key)
      out << key << " -> " << reinterpret_cast<void*>(handlers()[key]) << '\n';
  }

 private:
  static handler_map_type& by_name() {
    static handler_map_type map;
    return map;
  }
  static handler_vector_type& handlers() {
    static handler_vector_type vector;
    return vector;
  }
};

using msg_handler_registry = msg_handler_registry_abi;

} // namespace ham::msg
