/* SPDX-License-Identifier: Apache-2.0 */

/* Product names of Vector Engines. Link with -lveproductinfo. */
#ifndef FARCALL_COMPAT_VEO_PRODUCTINFO_H
#define FARCALL_COMPAT_VEO_PRODUCTINFO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Stores the product name, cut to `size` bytes including the terminating zero. The name is the same
 * for all models and types. Returns 0, -EFAULT if a pointer is NULL, or -EINVAL if `size` is 0. */
int get_ve_product_name(char* model, char* type, char* buffer, size_t size);

#ifdef __cplusplus
}
#endif

#endif
