#pragma once

#include <ham/net/communicator.hpp>

#include <farcall/farcall.hpp>

#include <cstddef>

namespace ham::offload {

/// The one job of a program that speaks HAM. The only state of this face.
class runtime {
 public:
  [[nodiscard]] static runtime& instance();

  /// On a target: serves until the job ends; then false. On the host: starts the targets; true.
  /// Leaves argv as it is. Throws what farcall::job throws.
  bool start(int argc, char** argv);
  /// Host: ends the targets.
  void stop();

  [[nodiscard]] bool initialised() const noexcept;
  [[nodiscard]] node_t this_node() const;
  [[nodiscard]] int num_nodes() const;
  [[nodiscard]] bool is_host() const { return this_node() == 0; }
  [[nodiscard]] const net::node_descriptor& node_description(node_t node);
  [[nodiscard]] farcall::node node(node_t number) const;
  /// Ends the program at once.
  [[noreturn]] void abort();

 private:
  runtime() = default;
};

} // namespace ham::offload
