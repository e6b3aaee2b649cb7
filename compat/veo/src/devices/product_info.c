/* SPDX-License-Identifier: Apache-2.0 */
#include <productinfo.h>

#include <errno.h>
#include <stdio.h>

int get_ve_product_name(char* model, char* type, char* buffer, size_t size) {
  if (model == NULL || type == NULL || buffer == NULL) return -EFAULT;
  if (size == 0) return -EINVAL;
  snprintf(buffer, size, "farcall");
  return 0;
}
