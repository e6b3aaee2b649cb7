// SPDX-License-Identifier: Apache-2.0
#include "environment.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>

#include <sys/utsname.h>

namespace farcall::tool {

namespace {

std::string text_after_colon(const std::string& line) {
  const auto colon = line.find(':');
  if (colon == std::string::npos) return {};
  const auto begin = line.find_first_not_of(" \t", colon + 1);
  return begin == std::string::npos ? std::string{} : line.substr(begin);
}

std::string cpu_model() {
  std::ifstream file{"/proc/cpuinfo"};
  for (std::string line; std::getline(file, line);) {
    // Fields of /proc/cpuinfo that may hold the processor's name. On x86 the name is in "model
    // name". On ARM, some kernels have the name in "Model" or "Hardware", and others have only
    // numbers.
    if (line.starts_with("model name") || line.starts_with("Hardware") ||
        line.starts_with("Model")) {
      return text_after_colon(line);
    }
  }
  return "unknown";
}

bool cpu_flag_present(const std::string& flag) {
  std::ifstream file{"/proc/cpuinfo"};
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("flags")) return (line + ' ').find(' ' + flag + ' ') != std::string::npos;
  }
  return false;
}

std::string hypervisor() {
  if (!cpu_flag_present("hypervisor")) return {};
  std::string name = first_line_of("/sys/hypervisor/type");
  if (name.empty()) name = first_line_of("/sys/class/dmi/id/sys_vendor");
  return name.empty() ? "hypervisor unknown" : name;
}

std::string version_text(int major, int minor, int patch) {
  return std::to_string(major) + '.' + std::to_string(minor) + '.' + std::to_string(patch);
}

std::string compiler_text() {
#if defined(__clang__)
  return "clang " + version_text(__clang_major__, __clang_minor__, __clang_patchlevel__);
#elif defined(__GNUC__)
  return "gcc " + version_text(__GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#else
  return "unknown compiler";
#endif
}

std::string build_type_text() {
#if defined(FARCALL_TOOL_BUILD_TYPE)
  const std::string type = FARCALL_TOOL_BUILD_TYPE;
  return type.empty() ? "no build type" : type;
#else
  return "unknown build type";
#endif
}

} // namespace

std::string first_line_of(const std::string& path) {
  std::ifstream file{path};
  std::string line;
  std::getline(file, line);
  return line;
}

std::string bracketed_choice(const std::string& text) {
  const auto open = text.find('[');
  const auto close = text.find(']', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || close == std::string::npos) return text;
  return text.substr(open + 1, close - open - 1);
}

long value_in_file(const std::string& path, const std::string& key) {
  std::ifstream file{path};
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key + ':')) continue;
    const std::string text = text_after_colon(line);
    long value = -1;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }
  return -1;
}

environment read_environment() {
  environment env;
  utsname name{};
  uname(&name);
  env.cpu_model = cpu_model();
  env.architecture = name.machine;
  env.kernel = std::string(name.sysname) + ' ' + name.release;
  env.compiler = compiler_text();
  env.build_type = build_type_text();
  env.hypervisor = hypervisor();
  env.governor = first_line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  const std::string load = first_line_of("/proc/loadavg");
  env.load = load.substr(0, load.find(' '));
  env.clock_source =
      first_line_of("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  env.cpus = allowed_cpus();
  env.transparent_huge_pages =
      bracketed_choice(first_line_of("/sys/kernel/mm/transparent_hugepage/enabled"));
  env.transparent_huge_pages_shmem =
      bracketed_choice(first_line_of("/sys/kernel/mm/transparent_hugepage/shmem_enabled"));
  env.huge_pages_total = std::max(0L, value_in_file("/proc/meminfo", "HugePages_Total"));
  env.huge_pages_free = std::max(0L, value_in_file("/proc/meminfo", "HugePages_Free"));
  env.memory_mib = value_in_file("/proc/meminfo", "MemTotal") / 1024;
  env.memory_available_mib = value_in_file("/proc/meminfo", "MemAvailable") / 1024;
  return env;
}

json environment_json(const environment& env, std::optional<core_pair> cores) {
  json document = {
      {"cpu", env.cpu_model},
      {"architecture", env.architecture},
      {"kernel", env.kernel},
      {"compiler", env.compiler},
      {"build_type", env.build_type},
      {"hypervisor", env.hypervisor},
      {"governor", env.governor},
      {"load_average", env.load},
      {"clock_source", env.clock_source},
      {"cpus_allowed", cpu_list_text(env.cpus)},
      {"thp", env.transparent_huge_pages},
      {"thp_shmem", env.transparent_huge_pages_shmem},
      {"huge_pages_total", env.huge_pages_total},
      {"huge_pages_free", env.huge_pages_free},
      {"memory_mib", env.memory_mib},
  };
  if (cores) {
    document["host_cpu"] = cores->host;
    document["target_cpu"] = cores->target;
    if (cores->target == no_core) document["target_cpu"] = nullptr;
  }
  return document;
}

std::string environment_text(const environment& env, std::optional<core_pair> cores) {
  std::string text = env.cpu_model + " (" + std::to_string(env.cpus.size()) +
                     " of its processors may be used: " + cpu_list_text(env.cpus) + ')';
  if (!env.hypervisor.empty()) text += ", virtual machine (" + env.hypervisor + ')';
  text += '\n' + env.kernel + ", built by " + env.compiler + ", " + env.build_type + ", governor " +
          (env.governor.empty() ? "unknown" : env.governor) + ", load average " + env.load + '\n';
  if (!cores) return text;
  const std::string host = std::to_string(cores->host);
  if (cores->shared()) {
    return text + "host and target SHARE processor " + host +
           ": the figures say what switching costs, not what an offload costs\n";
  }
  text += "host on processor " + host;
  if (cores->target != no_core) text += ", target on processor " + std::to_string(cores->target);
  return text + '\n';
}

} // namespace farcall::tool
