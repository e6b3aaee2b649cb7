// SPDX-License-Identifier: Apache-2.0

// Defines the functions that take endpoint names. Two source files include this file, one for each
// type en_t. They define to_name() and from_name(), which convert between their en_t and the
// library's type.

namespace {

template <class F>
int with_name(en_t* to, const F& f) {
  if (to == nullptr) return f(nullptr);
  farcall::am2::endpoint_name name;
  const int status = f(&name);
  if (status == AM_OK) *to = from_name(name);
  return status;
}

} // namespace

// NOLINTBEGIN(misc-definitions-in-headers): see above.

int AM_AllocateEndpoint(eb_t bundle, ep_t* endp, en_t* endpoint_name) {
  return with_name(endpoint_name, [&](farcall::am2::endpoint_name* name) {
    return farcall::am2::allocate_endpoint(bundle, endp, name);
  });
}
int AM_Map(ep_t ea, int index, en_t name, tag_t tag) {
  return farcall::am2::map(ea, index, to_name(name), tag);
}
int AM_MapAny(ep_t ea, int* index, en_t name, tag_t tag) {
  return farcall::am2::map_any(ea, index, to_name(name), tag);
}
int AM_GetTranslationName(ep_t ea, int i, en_t* gan) {
  return with_name(gan, [&](farcall::am2::endpoint_name* name) {
    return farcall::am2::translation_name(ea, i, name);
  });
}
int AM_GetSourceEndpoint(void* token, en_t* gan) {
  return with_name(gan, [&](farcall::am2::endpoint_name* name) {
    return farcall::am2::source_endpoint(token, name);
  });
}
int AMX_enEqual(en_t a, en_t b) { return to_name(a) == to_name(b) ? 1 : 0; }

// NOLINTEND(misc-definitions-in-headers)
