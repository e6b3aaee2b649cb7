// SPDX-License-Identifier: Apache-2.0

// Searches for cards like programs that do not leave this to libveo. The argument is the number of
// cards to find.
#include <productinfo.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include <dirent.h>
#include <sys/stat.h>

#include "check.h"

extern "C" {
struct udev;
struct udev_device;
udev_device* udev_device_new_from_devnum(udev* context, char type, dev_t number);
const char* udev_device_get_syspath(udev_device* device);
udev_device* udev_device_unref(udev_device* device);
}

static int cards_in_dev() {
  int cards = 0;
  int others = 0;
  DIR* const folder = opendir("/dev/");
  while (const dirent* const entry = readdir(folder))
    ++(std::strncmp(entry->d_name, "veslot", 6) == 0 ? cards : others);
  closedir(folder);
  CHECK(others > 2);
  return cards;
}

static std::string path_of(const std::string& device) {
  struct stat about{};
  if (stat(device.c_str(), &about) != 0 || !S_ISCHR(about.st_mode)) return "";
  udev_device* const found = udev_device_new_from_devnum(nullptr, 'c', about.st_rdev);
  if (found == nullptr) return "";
  const std::string path = udev_device_get_syspath(found);
  udev_device_unref(found);
  return path;
}

static long value(int card, const std::string& name) {
  long read = -1;
  std::ifstream file("/sys/class/ve/ve" + std::to_string(card) + "/" + name, std::ios::binary);
  if (name == "cores_enable") file >> std::hex;
  if (!(file >> read)) return -1;
  return read;
}

// Returns the number of files in the card's folder, all of which must be readable.
static int values_of(int card) {
  int values = 0;
  DIR* const folder = opendir(("/sys/class/ve/ve" + std::to_string(card)).c_str());
  if (folder == nullptr) return -1;
  while (const dirent* const entry = readdir(folder)) {
    std::ifstream file("/sys/class/ve/ve" + std::to_string(card) + "/" + entry->d_name);
    std::string text;
    CHECK(file >> text);
    ++values;
  }
  closedir(folder);
  return values;
}

int main(int argc, char** argv) {
  const int expected = argc > 1 ? std::atoi(argv[1]) : 0;
  CHECK(cards_in_dev() == expected);
  CHECK(cards_in_dev() == expected);
  for (int card = 0; card < expected; ++card) {
    const std::string path = path_of("/dev/veslot" + std::to_string(card));
    CHECK(!path.empty() && path.back() == '0' + card);
    CHECK(value(card, "partitioning_mode") == 0);
    CHECK(value(card, "memory_size") > 0);
    CHECK(value(card, "cores_enable") > 0);
    CHECK(value(card, "no_such_value") == -1);
    CHECK(values_of(card) > 10);
  }
  CHECK(path_of("/dev/veslot" + std::to_string(expected)).empty());
  CHECK(value(expected, "memory_size") == -1);
  CHECK(values_of(expected) == -1);
  // Other files are unchanged.
  struct stat about{};
  CHECK(stat("/dev/null", &about) == 0 && S_ISCHR(about.st_mode));
  CHECK(std::ifstream("/dev/null").good());
  CHECK(!std::ifstream("/no/such/file").good());

  char model[] = "1";
  char type[] = "2";
  char name[4] = "";
  CHECK(get_ve_product_name(model, type, name, sizeof name) == 0 && std::strlen(name) == 3);
  CHECK(get_ve_product_name(nullptr, type, name, sizeof name) < 0);
  return failures();
}
