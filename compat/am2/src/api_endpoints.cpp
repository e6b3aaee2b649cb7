// SPDX-License-Identifier: Apache-2.0

// Functions of the AM-2 interface for bundles, endpoints and their tables, for polling, and for
// tokens.
#include "errors.hpp"
#include "process.hpp"

#include <algorithm>

using namespace farcall::am2;

namespace {

constexpr const char* no_bundle = "this is no bundle";
constexpr const char* no_endpoint = "the endpoint is NULL";
constexpr const char* no_result = "the pointer for the result is NULL";
constexpr const char* no_index = "the translation table has no such index";
constexpr const char* not_mapped = "nothing is mapped at this index";
constexpr const char* no_name = "the name belongs to no process of this job";
constexpr const char* is_settled = "the table cannot change after AM_SetExpectedResources";
constexpr const char* no_token = "the token is NULL, or its handler has ended";

bool has_index(const am2_endpoint& ep, int index) noexcept {
  return index >= 0 && static_cast<std::size_t>(index) < ep.table.size();
}
translation& entry_of(am2_endpoint& ep, int index) noexcept {
  return ep.table[static_cast<std::size_t>(index)];
}
/// True if the process that the name contains exists in the job. The check is needed because
/// programs may receive names as bytes, so a name can contain any value.
bool is_of_job(endpoint_name name) noexcept {
  return name.node >= 0 && name.node < process::instance().network().size();
}

} // namespace

// ---- process and limits ------------------------------------------------------------------------

int AM_Init() {
  process::instance().initialise();
  return AM_OK;
}

int AM_Terminate() {
  AM2_REQUIRE(process::thread().running == 0, AM_ERR_RESOURCE,
              "handlers may not free the endpoint that they run for");
  AM2_REQUIRE(process::instance().terminate(), AM_ERR_NOT_INIT, not_initialised);
  return AM_OK;
}

// AM_MaxMedium() and AM_MaxLong() return moderate sizes although longer payloads can be sent,
// because programs allocate buffers of these sizes and store the sizes in an int.
int AM_MaxShort() { return max_arguments; }
int AM_MaxMedium() { return 1 << 16; }
int AM_MaxLong() { return 1 << 20; }
int AM_MaxNumHandlers() { return static_cast<int>(handler_count); }

int AM_MaxNumTranslations(int* ntrans) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(ntrans != nullptr, AM_ERR_BAD_ARG, no_result);
  *ntrans = static_cast<int>(max_translations);
  return AM_OK;
}

int AM_MaxSegLength(uintptr_t* nbytes) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(nbytes != nullptr, AM_ERR_BAD_ARG, no_result);
  *nbytes = UINTPTR_MAX;
  return AM_OK;
}

// ---- bundles and endpoints ---------------------------------------------------------------------

int AM_AllocateBundle(int type, eb_t* endb) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(type >= 0 && type < AM_NUM_BUNDLE_MODES, AM_ERR_BAD_ARG, "no such kind of bundle");
  AM2_REQUIRE(endb != nullptr, AM_ERR_BAD_ARG, no_result);
  am2_bundle* const made = process::instance().add_bundle(type == AM_PAR);
  AM2_REQUIRE(made != nullptr, AM_ERR_RESOURCE, "there are 254 bundles already");
  *endb = made;
  return AM_OK;
}

int AM_FreeBundle(eb_t bundle) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(process::thread().running == 0, AM_ERR_RESOURCE,
              "handlers may not free bundles: their own is being polled");
  AM2_REQUIRE(process::instance().remove(bundle), AM_ERR_BAD_ARG, no_bundle);
  return AM_OK;
}

namespace farcall::am2 {

int allocate_endpoint(eb_t bundle, ep_t* endp, endpoint_name* name) {
  process& p = process::instance();
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(bundle != nullptr && p.knows(bundle), AM_ERR_BAD_ARG, no_bundle);
  AM2_REQUIRE(endp != nullptr && name != nullptr, AM_ERR_BAD_ARG, no_result);
  *endp = p.add_endpoint(*bundle);
  *name = (*endp)->name;
  return AM_OK;
}

int map(ep_t ea, int index, endpoint_name name, tag_t tag) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(ea != nullptr, AM_ERR_BAD_ARG, no_endpoint);
  AM2_REQUIRE(has_index(*ea, index), AM_ERR_BAD_ARG, no_index);
  AM2_REQUIRE(is_of_job(name), AM_ERR_BAD_ARG, no_name);
  AM2_REQUIRE(!ea->is_ready(), AM_ERR_RESOURCE, is_settled);
  translation& t = entry_of(*ea, index);
  AM2_REQUIRE(!t.is_in_use, AM_ERR_RESOURCE, "the index is in use");
  t.is_in_use = true;
  t.name = name;
  t.tag.store(tag, std::memory_order_relaxed);
  return AM_OK;
}

int map_any(ep_t ea, int* index, endpoint_name name, tag_t tag) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(ea != nullptr, AM_ERR_BAD_ARG, no_endpoint);
  AM2_REQUIRE(index != nullptr, AM_ERR_BAD_ARG, no_result);
  AM2_REQUIRE(is_of_job(name), AM_ERR_BAD_ARG, no_name);
  AM2_REQUIRE(!ea->is_ready(), AM_ERR_RESOURCE, is_settled);
  const auto free = std::find_if(ea->table.begin(), ea->table.end(),
                                 [](const translation& t) { return !t.is_in_use; });
  AM2_REQUIRE(free != ea->table.end(), AM_ERR_RESOURCE, "the translation table is full");
  *index = static_cast<int>(free - ea->table.begin());
  return map(ea, *index, name, tag);
}

int translation_name(ep_t ea, int i, endpoint_name* name) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(ea != nullptr, AM_ERR_BAD_ARG, no_endpoint);
  AM2_REQUIRE(name != nullptr, AM_ERR_BAD_ARG, no_result);
  AM2_REQUIRE(has_index(*ea, i), AM_ERR_BAD_ARG, no_index);
  AM2_REQUIRE(entry_of(*ea, i).is_in_use, AM_ERR_RESOURCE, not_mapped);
  *name = entry_of(*ea, i).name;
  return AM_OK;
}

} // namespace farcall::am2

int AM_FreeEndpoint(ep_t ea) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(process::instance().remove(ea), AM_ERR_BAD_ARG, "this is no endpoint");
  return AM_OK;
}

int AM_MoveEndpoint(ep_t ea, eb_t from_bundle, eb_t to_bundle) {
  process& p = process::instance();
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(ea != nullptr, AM_ERR_BAD_ARG, no_endpoint);
  AM2_REQUIRE(p.knows(from_bundle) && p.knows(to_bundle), AM_ERR_BAD_ARG, no_bundle);
  AM2_REQUIRE(p.move(ea, from_bundle, to_bundle), AM_ERR_RESOURCE,
              "the endpoint is in another bundle");
  return AM_OK;
}

int AM_SetExpectedResources(ep_t ea, int /*n_endpoints*/, int n_outstanding_requests) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(ea != nullptr, AM_ERR_BAD_ARG, no_endpoint);
  AM2_REQUIRE(!ea->is_ready(), AM_ERR_RESOURCE, "the endpoint's resources are set already");
  AM2_REQUIRE(n_outstanding_requests >= 1 && n_outstanding_requests <= max_outstanding,
              AM_ERR_BAD_ARG, "there may be 1 to 1048576 outstanding requests");
  process::instance().make_card(*ea);
  ea->set_resources(static_cast<std::uint32_t>(n_outstanding_requests));
  // Run messages now that arrived before the endpoint's resources were set.
  process::instance().wake();
  return AM_OK;
}

// ---- tag and segment ---------------------------------------------------------------------------

int AM_SetTag(ep_t ea, tag_t tag) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(ea != nullptr, AM_ERR_BAD_ARG, no_endpoint);
  ea->tag.store(tag, std::memory_order_relaxed);
  ea->write_card();
  return AM_OK;
}

int AM_GetTag(ep_t ea, tag_t* tag) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(ea != nullptr, AM_ERR_BAD_ARG, no_endpoint);
  AM2_REQUIRE(tag != nullptr, AM_ERR_BAD_ARG, no_result);
  *tag = ea->tag.load(std::memory_order_relaxed);
  return AM_OK;
}

int AM_SetSeg(ep_t ea, void* addr, uintptr_t nbytes) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(ea != nullptr, AM_ERR_BAD_ARG, no_endpoint);
  ea->segment_bytes.store(0, std::memory_order_relaxed);
  ea->segment.store(static_cast<std::byte*>(addr), std::memory_order_relaxed);
  ea->segment_bytes.store(nbytes, std::memory_order_relaxed);
  ea->write_card();
  return AM_OK;
}

int AM_GetSeg(ep_t ea, void** addr, uintptr_t* nbytes) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(ea != nullptr, AM_ERR_BAD_ARG, no_endpoint);
  AM2_REQUIRE(addr != nullptr && nbytes != nullptr, AM_ERR_BAD_ARG, no_result);
  *addr = ea->segment.load(std::memory_order_relaxed);
  *nbytes = ea->segment_bytes.load(std::memory_order_relaxed);
  return AM_OK;
}

// ---- translation table -------------------------------------------------------------------------

int AM_UnMap(ep_t ea, int index) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(ea != nullptr, AM_ERR_BAD_ARG, no_endpoint);
  AM2_REQUIRE(has_index(*ea, index), AM_ERR_BAD_ARG, no_index);
  AM2_REQUIRE(!ea->is_ready(), AM_ERR_RESOURCE, is_settled);
  AM2_REQUIRE(entry_of(*ea, index).is_in_use, AM_ERR_RESOURCE, not_mapped);
  entry_of(*ea, index).is_in_use = false;
  return AM_OK;
}

int AM_GetTranslationInuse(ep_t ea, int i) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(ea != nullptr, AM_ERR_BAD_ARG, no_endpoint);
  AM2_REQUIRE(has_index(*ea, i), AM_ERR_BAD_ARG, no_index);
  // Return the status directly, because it is the result of the query. AM2_FAIL would report it as
  // an error.
  return entry_of(*ea, i).is_in_use ? AM_OK : AM_ERR_RESOURCE;
}

int AM_GetTranslationTag(ep_t ea, int i, tag_t* tag) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(ea != nullptr, AM_ERR_BAD_ARG, no_endpoint);
  AM2_REQUIRE(tag != nullptr, AM_ERR_BAD_ARG, no_result);
  AM2_REQUIRE(has_index(*ea, i), AM_ERR_BAD_ARG, no_index);
  AM2_REQUIRE(entry_of(*ea, i).is_in_use, AM_ERR_RESOURCE, not_mapped);
  *tag = entry_of(*ea, i).tag.load(std::memory_order_relaxed);
  return AM_OK;
}

int AMX_SetTranslationTag(ep_t ea, int index, tag_t tag) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(ea != nullptr, AM_ERR_BAD_ARG, no_endpoint);
  AM2_REQUIRE(has_index(*ea, index), AM_ERR_BAD_ARG, no_index);
  AM2_REQUIRE(entry_of(*ea, index).is_in_use, AM_ERR_RESOURCE, not_mapped);
  entry_of(*ea, index).tag.store(tag, std::memory_order_relaxed);
  return AM_OK;
}

int AM_GetNumTranslations(ep_t ep, int* pntrans) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(ep != nullptr, AM_ERR_BAD_ARG, no_endpoint);
  AM2_REQUIRE(pntrans != nullptr, AM_ERR_BAD_ARG, no_result);
  *pntrans = static_cast<int>(ep->table.size());
  return AM_OK;
}

int AM_SetNumTranslations(ep_t ep, int ntrans) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(ep != nullptr, AM_ERR_BAD_ARG, no_endpoint);
  AM2_REQUIRE(ntrans >= 0, AM_ERR_BAD_ARG, "the number is negative");
  AM2_REQUIRE(static_cast<std::size_t>(ntrans) <= max_translations, AM_ERR_RESOURCE,
              "more than AM_MaxNumTranslations");
  AM2_REQUIRE(!ep->is_ready(), AM_ERR_RESOURCE, is_settled);
  const std::size_t size = std::max(static_cast<std::size_t>(ntrans), min_translations);
  for (std::size_t i = size; i < ep->table.size(); ++i)
    AM2_REQUIRE(!ep->table[i].is_in_use, AM_ERR_RESOURCE, "entries in use would be removed");
  ep->table.resize(size);
  return AM_OK;
}

// ---- handler table -----------------------------------------------------------------------------

int AM2_SetHandler(ep_t ea, handler_t handler, amx_handler_fn_t function) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(ea != nullptr, AM_ERR_BAD_ARG, no_endpoint);
  AM2_REQUIRE(function != nullptr, AM_ERR_BAD_ARG, "the handler is NULL");
  ea->handlers[handler].store(function, std::memory_order_relaxed);
  // Let the job continue when a process ends, because handler 0 is called for such an end.
  if (handler == 0) process::instance().network().survive_ends();
  return AM_OK;
}

int AM2_SetHandlerAny(ep_t ea, handler_t* handler, amx_handler_fn_t function) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(ea != nullptr, AM_ERR_BAD_ARG, no_endpoint);
  AM2_REQUIRE(handler != nullptr, AM_ERR_BAD_ARG, no_result);
  AM2_REQUIRE(function != nullptr, AM_ERR_BAD_ARG, "the handler is NULL");
  const auto free = std::find_if(ea->handlers.begin() + 1, ea->handlers.end(), [](const auto& h) {
    return h.load(std::memory_order_relaxed) == nullptr;
  });
  AM2_REQUIRE(free != ea->handlers.end(), AM_ERR_RESOURCE, "the handler table is full");
  *handler = static_cast<handler_t>(free - ea->handlers.begin());
  free->store(function, std::memory_order_relaxed);
  return AM_OK;
}

int AM_GetNumHandlers(ep_t ep, int* n_handlers) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(ep != nullptr, AM_ERR_BAD_ARG, no_endpoint);
  AM2_REQUIRE(n_handlers != nullptr, AM_ERR_BAD_ARG, no_result);
  *n_handlers = static_cast<int>(handler_count);
  return AM_OK;
}

int AM_SetNumHandlers(ep_t ep, int n_handlers) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(ep != nullptr, AM_ERR_BAD_ARG, no_endpoint);
  AM2_REQUIRE(n_handlers == static_cast<int>(handler_count), AM_ERR_RESOURCE,
              "a handler table has 256 entries");
  return AM_OK;
}

// ---- progress ----------------------------------------------------------------------------------

int AM_GetEventMask(eb_t eb, int* mask) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(eb != nullptr, AM_ERR_BAD_ARG, no_bundle);
  AM2_REQUIRE(mask != nullptr, AM_ERR_BAD_ARG, no_result);
  *mask = eb->event_mask.load(std::memory_order_relaxed);
  return AM_OK;
}

int AM_SetEventMask(eb_t eb, int mask) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(eb != nullptr, AM_ERR_BAD_ARG, no_bundle);
  AM2_REQUIRE(mask >= 0 && mask < AM_NUMEVENTMASKS, AM_ERR_BAD_ARG, "no such event mask");
  eb->event_mask.store(mask, std::memory_order_relaxed);
  return AM_OK;
}

int AM_WaitSema(eb_t eb) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(eb != nullptr, AM_ERR_BAD_ARG, no_bundle);
  if (eb->event_mask.load(std::memory_order_relaxed) == AM_NOEVENTS)
    fatal("AM_WaitSema would never return: the bundle's event mask is AM_NOEVENTS");
  if (process::thread().running != 0) {
    eb->event_mask.store(AM_NOEVENTS, std::memory_order_relaxed);
    return AM2_FAIL(AM_ERR_RESOURCE, "handlers may not wait");
  }
  process::instance().wait_for_message(*eb);
  return AM_OK;
}

int AM2_PostSema(eb_t eb) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(eb != nullptr, AM_ERR_BAD_ARG, no_bundle);
  // Release pairs with the acquire exchange in wait_for_message(), so that the thread whose wait
  // ends sees the caller's earlier writes.
  eb->posts.fetch_add(1, std::memory_order_release);
  process::instance().wake();
  return AM_OK;
}

int AM_Poll(eb_t bundle) {
  process& p = process::instance();
  AM2_REQUIRE(p.is_initialised(), AM_ERR_NOT_INIT, not_initialised);
  AM2_REQUIRE(bundle != nullptr, AM_ERR_BAD_ARG, no_bundle);
  thread_state& t = process::thread();
  AM2_REQUIRE(t.running == 0, AM_ERR_RESOURCE, "handlers may not poll");
  (void)p.poll(t, *bundle);
  return AM_OK;
}

// ---- tokens ------------------------------------------------------------------------------------

namespace farcall::am2 {

int source_endpoint(void* at, endpoint_name* name) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(at != nullptr && name != nullptr, AM_ERR_BAD_ARG, no_token);
  const token& t = *static_cast<const token*>(at);
  AM2_REQUIRE(t.is_running, AM_ERR_RESOURCE, no_token);
  *name = t.from;
  return AM_OK;
}

} // namespace farcall::am2

int AM_GetDestEndpoint(void* token, ep_t* endp) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(token != nullptr && endp != nullptr, AM_ERR_BAD_ARG, no_token);
  const auto& t = *static_cast<const farcall::am2::token*>(token);
  AM2_REQUIRE(t.is_running, AM_ERR_RESOURCE, no_token);
  *endp = t.at;
  return AM_OK;
}

int AM_GetMsgTag(void* token, tag_t* tagp) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(token != nullptr && tagp != nullptr, AM_ERR_BAD_ARG, no_token);
  const auto& t = *static_cast<const farcall::am2::token*>(token);
  AM2_REQUIRE(t.is_running, AM_ERR_RESOURCE, no_token);
  *tagp = t.tag;
  return AM_OK;
}

int AMX_GetSourceId(void* token, int* srcid) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(token != nullptr && srcid != nullptr, AM_ERR_BAD_ARG, no_token);
  const auto& t = *static_cast<const farcall::am2::token*>(token);
  AM2_REQUIRE(t.is_running, AM_ERR_RESOURCE, no_token);
  *srcid = t.source != nullptr ? t.source->index : -1;
  return AM_OK;
}

int AMX_GetTokenInfo(void* token, handler_t* handler, amx_category_t* category, int* is_request) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(token != nullptr, AM_ERR_BAD_ARG, no_token);
  const auto& t = *static_cast<const farcall::am2::token*>(token);
  AM2_REQUIRE(t.is_running, AM_ERR_RESOURCE, no_token);
  if (handler != nullptr) *handler = t.handler;
  if (category != nullptr) *category = amx_category_t(t.payload);
  if (is_request != nullptr) *is_request = t.is_request ? 1 : 0;
  return AM_OK;
}

// ---- hooks -------------------------------------------------------------------------------------

int AMX_SetHandlerCallbacks(ep_t ep, amx_handler_prefn_t pre, amx_handler_postfn_t post) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(ep != nullptr, AM_ERR_BAD_ARG, no_endpoint);
  ep->before.store(pre, std::memory_order_relaxed);
  ep->after.store(post, std::memory_order_relaxed);
  return AM_OK;
}

// ---- segments ----------------------------------------------------------------------------------

void* AM2_AllocateSegment(size_t nbytes) { return process::instance().network().allocate(nbytes); }

void AM2_FreeSegment(void* segment) {
  if (segment != nullptr) process::instance().network().release(segment);
}
