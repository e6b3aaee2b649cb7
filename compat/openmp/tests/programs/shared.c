/* SPDX-License-Identifier: Apache-2.0 */

// Requires memory that host and device share.
#pragma omp requires unified_shared_memory

int main(void) {
#pragma omp target
  {
  }
  return 0;
}
