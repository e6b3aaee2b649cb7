/* Names of products. -lveproductinfo. */
#ifndef FARCALL_COMPAT_VEO_PRODUCTINFO_H
#define FARCALL_COMPAT_VEO_PRODUCTINFO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The name of every model and type, with a zero behind it, as far as there is room. 0, -EFAULT for
 * a NULL, -EINVAL for no room. */
int get_ve_product_name(char* model, char* type, char* buffer, size_t size);

#ifdef __cplusplus
}
#endif

#endif
