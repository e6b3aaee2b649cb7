#pragma once

#include <ham/functor/buffer.hpp>
#include <ham/functor/function.hpp>
#include <ham/misc/constants.hpp>
#include <ham/misc/migratable.hpp>
#include <ham/misc/traits.hpp>
#include <ham/misc/types.hpp>
#include <ham/net/communicator.hpp>
#include <ham/offload/future.hpp>
#include <ham/offload/offload.hpp>
#include <ham/offload/runtime.hpp>
#include <ham/util/debug.hpp>
#include <ham/util/log.hpp>

// What programs have come to rely on.
#include <cassert>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <tuple>
#include <typeinfo>
#include <vector>

#ifndef HAM_EXPLICIT
#include <ham/offload/main.hpp>
#endif
