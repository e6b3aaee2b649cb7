// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ham/functor/buffer.hpp>
#include <ham/functor/function.hpp>
#include <ham/misc/constants.hpp>
#include <ham/misc/migratable.hpp>
#include <ham/misc/traits.hpp>
#include <ham/misc/types.hpp>
#include <ham/msg/active_msg.hpp>
#include <ham/msg/active_msg_base.hpp>
#include <ham/msg/execution_policy.hpp>
#include <ham/msg/msg_handler_registry.hpp>
#include <ham/net/communicator.hpp>
#include <ham/offload/future.hpp>
#include <ham/offload/offload.hpp>
#include <ham/offload/offload_msg.hpp>
#include <ham/offload/runtime.hpp>
#include <ham/offload/stored_types.hpp>
#include <ham/util/at_end_of_scope_do.hpp>
#include <ham/util/debug.hpp>
#include <ham/util/log.hpp>

// Standard headers that programs written for HAM use without including them.
#include <cassert>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <string>
#include <tuple>
#include <typeinfo>
#include <vector>

#ifndef HAM_EXPLICIT
#include <ham/offload/main.hpp>
#endif
