#pragma once

#include "message.hpp"

#include <farcall_am2.h>

/// The functions that take endpoint names, whatever type these have for the program.
namespace farcall::am2 {

int allocate_endpoint(eb_t bundle, ep_t* endp, endpoint_name* name);
int map(ep_t ea, int index, endpoint_name name, tag_t tag);
int map_any(ep_t ea, int* index, endpoint_name name, tag_t tag);
int translation_name(ep_t ea, int i, endpoint_name* name);
int source_endpoint(void* token, endpoint_name* name);

} // namespace farcall::am2
