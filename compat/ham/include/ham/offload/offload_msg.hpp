#pragma once

#include <ham/misc/constants.hpp>
#include <ham/misc/types.hpp>
#include <ham/msg/active_msg.hpp>
#include <ham/msg/execution_policy.hpp>
#include <ham/net/communicator.hpp>
#include <ham/util/debug.hpp>
#include <ham/util/log.hpp>

#include <utility>

namespace ham::offload::detail {

/// A functor as a message: running the message calls it. Offloads do not go this way; it is for
/// programs that carry messages by themselves.
template <class Functor, template <class> class ExecutionPolicy = msg::default_execution_policy>
class offload_msg : public msg::active_msg<offload_msg<Functor, ExecutionPolicy>, ExecutionPolicy>,
                    public Functor {
 public:
  explicit offload_msg(Functor&& functor) : Functor(std::move(functor)) {}
  void operator()() { Functor::operator()(); }
};

} // namespace ham::offload::detail
