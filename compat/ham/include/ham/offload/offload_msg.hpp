// SPDX-License-Identifier: Apache-2.0
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

/// Message that calls a functor when it is run. It is for programs that transfer messages by their
/// own means; offloads do not use it.
template <class Functor, template <class> class ExecutionPolicy = msg::default_execution_policy>
class offload_msg : public msg::active_msg<offload_msg<Functor, ExecutionPolicy>, ExecutionPolicy>,
                    public Functor {
 public:
  explicit offload_msg(Functor&& functor) : Functor(std::move(functor)) {}
  void operator()() { Functor::operator()(); }
};

} // namespace ham::offload::detail
