// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "message.hpp"

#include <farcall_am2.h>

/// Functions that take endpoint names in the library's own type. api_names.inc.hpp converts between
/// this type and the types that programs use.
namespace farcall::am2 {

int allocate_endpoint(eb_t bundle, ep_t* endp, endpoint_name* name);
int map(ep_t ea, int index, endpoint_name name, tag_t tag);
int map_any(ep_t ea, int* index, endpoint_name name, tag_t tag);
int translation_name(ep_t ea, int i, endpoint_name* name);
int source_endpoint(void* token, endpoint_name* name);

} // namespace farcall::am2
