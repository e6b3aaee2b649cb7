/* SPDX-License-Identifier: Apache-2.0 */

/* Functions that take or return names of endpoints. Only am2.h, amudp.h and ammpi.h include this
   file. These headers define `en_t` before, and their include guards also protect this file. */

#ifdef __cplusplus
extern "C" {
#endif

AM2_API int AM_AllocateEndpoint(eb_t bundle, ep_t* endp, en_t* endpoint_name);
AM2_API int AM_Map(ep_t ea, int index, en_t name, tag_t tag);
AM2_API int AM_MapAny(ep_t ea, int* index, en_t name, tag_t tag);
AM2_API int AM_GetTranslationName(ep_t ea, int i, en_t* gan);
AM2_API int AM_GetSourceEndpoint(void* token, en_t* gan);
AM2_API int AMX_enEqual(en_t a, en_t b);

#ifdef __cplusplus
} /* extern "C" */
#endif
