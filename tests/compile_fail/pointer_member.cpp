// SPDX-License-Identifier: Apache-2.0

// expect: a member of this type is a pointer, which means nothing on another node
// names: image
// first: not_packable<image>|is_free_of<image
#include <farcall/farcall.hpp>

struct image {
  int width;
  int height;
  const float* pixels;
};

float sum(const std::vector<image>& images);

float f(const farcall::node& where, const std::vector<image>& images) {
  return farcall::sync(where, sum, images);
}
