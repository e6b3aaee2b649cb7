/* The functions whose arguments are endpoint names, with `en_t` as the including header has it. No
   include guard of its own. */

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
