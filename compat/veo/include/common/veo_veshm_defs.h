/* SPDX-License-Identifier: Apache-2.0 */

/* Bits of the parameter `mode` of the functions in veo_veshm.h. */
#ifndef FARCALL_COMPAT_VEO_VEO_VESHM_DEFS_H
#define FARCALL_COMPAT_VEO_VEO_VESHM_DEFS_H

enum VESHM_mode_flag {
  VE_SHM_RO = 0x1,
  VE_PCISYNC = 0x2,
  VE_REGISTER_PCI = 0x4,
  VE_MAP_256MB = 0x10
};

enum VESHM_additional_mode_flag {
  VE_REGISTER_NONE = 0x1000,
  VE_REGISTER_VEMVA = 0x2000,
  VE_REGISTER_VEHVA = 0x4000,
  VE_MEM_LOCAL = 0x8000
};

#endif
