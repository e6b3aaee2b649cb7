// SPDX-License-Identifier: Apache-2.0

// Tests of the plugin without libomptarget: the tests call its functions as libomptarget does.
#include "loaded_plugin.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::openmp::plugin_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void* word(std::uint64_t value) { return reinterpret_cast<void*>(value); }

/// Two devices of this machine, or of a server.
class openmp_plugin : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (std::getenv("FARCALL_TARGETS") == nullptr) ::setenv("FARCALL_TARGETS", "shm:2", 1);
    plugin = new loaded_plugin(OPENMP_PLUGIN, OPENMP_IMAGE);
    ASSERT_EQ(plugin->number_of_devices(), 2);
    for (int d = 0; d < 2; ++d) {
      ASSERT_EQ(plugin->init_device(d), success);
      tables[d] = plugin->load(d);
      ASSERT_NE(tables[d], nullptr);
    }
  }

  static void* entry(int device, const std::string& name) {
    return loaded_plugin::entry(*tables[device], name);
  }

  static inline loaded_plugin* plugin = nullptr;
  static inline entry_list* tables[2] = {};
};

TEST_F(openmp_plugin, runs_regions_in_processes_of_their_own) {
  std::int64_t processes[2] = {};
  for (int d = 0; d < 2; ++d) {
    void* const there = plugin->data_alloc(d, sizeof(std::int64_t), nullptr, 0);
    ASSERT_NE(there, nullptr);
    EXPECT_EQ(plugin->run(d, entry(d, "tell_process_l4"), {there}), success);
    EXPECT_EQ(plugin->data_retrieve(d, &processes[d], there, sizeof(std::int64_t)), success);
    EXPECT_EQ(plugin->data_delete(d, there), success);
  }
  EXPECT_NE(processes[0], ::getpid());
  EXPECT_NE(processes[0], processes[1]);
}

TEST_F(openmp_plugin, passes_pointers_with_offsets_and_values) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{1} << 20}) {
    std::vector<double> values(count);
    std::iota(values.begin(), values.end(), 0.5);
    const auto bytes = static_cast<std::int64_t>(count * sizeof(double));
    void* const there = plugin->data_alloc(0, bytes, values.data(), 0);
    ASSERT_NE(there, nullptr);
    EXPECT_EQ(plugin->data_submit(0, there, values.data(), bytes), success);
    // libomptarget passes a base address and an offset, which may be negative.
    std::vector<void*> arguments{static_cast<char*>(there) + 4096, word(count), word(7)};
    std::vector<std::ptrdiff_t> offsets{-4096, 0, 0};
    EXPECT_EQ(plugin->run_target_region(0, entry(0, "add_l2"), arguments.data(), offsets.data(), 3),
              success);
    std::vector<double> result(count);
    EXPECT_EQ(plugin->data_retrieve(0, result.data(), there, bytes), success);
    EXPECT_EQ(plugin->data_delete(0, there), success);
    for (double& v : values)
      v += 7;
    EXPECT_EQ(result, values);
  }
}

TEST_F(openmp_plugin, variables_of_an_image_are_memory_of_the_device) {
  void* const table = entry(1, "table");
  void* const there = plugin->data_alloc(1, sizeof(std::int64_t), nullptr, 0);
  const int changed[4] = {10, 20, 30, 40};
  int read[4] = {};
  std::int64_t sum = 0;
  EXPECT_EQ(plugin->data_retrieve(1, read, table, sizeof read), success);
  EXPECT_EQ(std::accumulate(read, read + 4, 0), 10);
  EXPECT_EQ(plugin->data_submit(1, table, const_cast<int*>(changed), sizeof changed), success);
  EXPECT_EQ(plugin->run(1, entry(1, "sum_of_table_l3"), {there}), success);
  EXPECT_EQ(plugin->data_retrieve(1, &sum, there, sizeof sum), success);
  EXPECT_EQ(sum, 100);
  EXPECT_EQ(plugin->data_retrieve(0, read, entry(0, "table"), sizeof read), success);
  EXPECT_EQ(read[3], 4) << "each device has its own variables";
  EXPECT_EQ(plugin->data_delete(1, there), success);
}

TEST_F(openmp_plugin, copies_between_devices_and_inside_one) {
  constexpr std::int64_t bytes = 5 << 20;
  std::vector<unsigned char> sent(bytes);
  for (std::size_t i = 0; i < sent.size(); ++i)
    sent[i] = static_cast<unsigned char>(i * 7 + i / 251);
  void* const from = plugin->data_alloc(0, bytes, nullptr, 0);
  void* const beside = plugin->data_alloc(0, bytes, nullptr, 0);
  void* const to = plugin->data_alloc(1, bytes, nullptr, 0);
  EXPECT_EQ(plugin->data_submit(0, from, sent.data(), bytes), success);
  EXPECT_EQ(plugin->data_exchange(0, from, 0, beside, bytes), success);
  EXPECT_EQ(plugin->data_exchange(0, beside, 1, to, bytes), success);
  std::vector<unsigned char> got(bytes);
  EXPECT_EQ(plugin->data_retrieve(1, got.data(), to, bytes), success);
  EXPECT_EQ(got, sent);
  plugin->data_delete(0, from);
  plugin->data_delete(0, beside);
  plugin->data_delete(1, to);
}

/// A pipe with a name, which is removed at the end.
class named_pipe {
 public:
  named_pipe() : path_(testing::TempDir() + "farcall_openmp_pipe-" + std::to_string(::getpid())) {
    if (::mkfifo(path_.c_str(), 0600) != 0) throw std::runtime_error("no pipe " + path_);
  }
  named_pipe(const named_pipe&) = delete;
  named_pipe& operator=(const named_pipe&) = delete;
  ~named_pipe() { std::filesystem::remove(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST_F(openmp_plugin, a_task_goes_on_while_its_region_runs) {
  const named_pipe pipe;
  const auto bytes = static_cast<std::int64_t>(pipe.path().size() + 1);
  void* paths[2] = {};
  async_info tasks[2] = {};
  std::vector<double> values(10, 1.0);
  std::vector<double> results(10);
  const auto length = static_cast<std::int64_t>(values.size() * sizeof(double));
  void* const there = plugin->data_alloc(0, length, nullptr, 0);
  // Each region waits for the other one, and the operations behind the first one wait for it.
  for (std::uint64_t d = 0; d < 2; ++d) {
    const auto device = static_cast<std::int32_t>(d);
    paths[d] = plugin->data_alloc(device, bytes, nullptr, 0);
    EXPECT_EQ(plugin->data_submit_async(device, paths[d], const_cast<char*>(pipe.path().c_str()),
                                        bytes, &tasks[d]),
              success);
    EXPECT_EQ(plugin->run(device, entry(device, "meet_l6"), {paths[d], word(d)}, &tasks[d]),
              success);
    if (d == 0) {
      EXPECT_EQ(plugin->data_submit_async(0, there, values.data(), length, &tasks[0]), success);
      EXPECT_EQ(
          plugin->run(0, entry(0, "add_l2"), {there, word(values.size()), word(2)}, &tasks[0]),
          success);
      EXPECT_EQ(plugin->data_retrieve_async(0, results.data(), there, length, &tasks[0]), success);
      EXPECT_EQ(plugin->query_async(0, &tasks[0]), success);
      EXPECT_NE(tasks[0].queue, nullptr) << "the other region has not begun";
    }
  }
  EXPECT_EQ(plugin->synchronize(1, &tasks[1]), success);
  EXPECT_EQ(tasks[1].queue, nullptr);
  while (tasks[0].queue != nullptr) {
    ASSERT_EQ(plugin->query_async(0, &tasks[0]), success);
    std::this_thread::yield();
  }
  EXPECT_EQ(results, std::vector<double>(10, 3.0));
  plugin->data_delete(0, there);
  for (int d = 0; d < 2; ++d)
    plugin->data_delete(d, paths[d]);
}

TEST_F(openmp_plugin, the_ways_of_both_versions_run_the_same_region) {
  void* const empty = entry(0, "empty_l1");
  async_info info{};
  EXPECT_EQ(plugin->run(0, empty, {}), success);
  EXPECT_EQ(plugin->run_target_region(0, empty, nullptr, nullptr, 0), success);
  EXPECT_EQ(plugin->run_target_team_region_async(0, empty, nullptr, nullptr, 0, 1, 1, 0, &info),
            success);
  EXPECT_EQ(plugin->synchronize(0, &info), success);
}

TEST_F(openmp_plugin, threads_use_devices_at_the_same_time) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      const int device = t % 2;
      for (int i = 0; i < 50; ++i) {
        double value = t;
        void* const there = plugin->data_alloc(device, sizeof value, nullptr, 0);
        async_info info{};
        plugin->data_submit_async(device, there, &value, sizeof value, &info);
        plugin->run(device, entry(device, "add_l2"), {there, word(1), word(5)}, &info);
        plugin->data_retrieve_async(device, &value, there, sizeof value, &info);
        EXPECT_EQ(plugin->synchronize(device, &info), success);
        EXPECT_EQ(plugin->data_delete(device, there), success);
        EXPECT_EQ(value, t + 5);
      }
    });
  }
}

TEST_F(openmp_plugin, entries_that_an_image_lacks_are_null) {
  EXPECT_EQ(entry(0, "absent_l9"), nullptr);
  testing::internal::CaptureStderr();
  EXPECT_EQ(plugin->run(0, entry(0, "absent_l9"), {}), failure);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("device 0 (node 1), start of a region: the image lacks the region"));
}

std::string refusal_of(device_image image, loaded_plugin& plugin) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(plugin.is_valid_binary(&image), 0);
  return testing::internal::GetCapturedStderr();
}

TEST_F(openmp_plugin, images_for_other_machines_are_named) {
  EXPECT_EQ(plugin->is_valid_binary(&plugin->image), 1);
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_machine = EM_PPC64;
  EXPECT_THAT(refusal_of({&header, &header + 1, nullptr, nullptr}, *plugin),
              AllOf(HasSubstr("is for ppc64"), HasSubstr("-fopenmp-targets=")));
  header.e_machine = 999;
  EXPECT_THAT(refusal_of({&header, &header + 1, nullptr, nullptr}, *plugin),
              HasSubstr("ELF number 999"));
  char text[] = "no ELF file";
  EXPECT_EQ(refusal_of({text, text + sizeof text, nullptr, nullptr}, *plugin), "");
}

TEST_F(openmp_plugin, an_image_that_cannot_be_loaded_is_told) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  device_image damaged{&header, &header + 1, nullptr, nullptr};
  testing::internal::CaptureStderr();
  EXPECT_EQ(plugin->load_binary(1, &damaged), nullptr);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("device 1 (node 2), load of an image"), HasSubstr("cannot load")));

  std::int64_t process = 0;
  void* const there = plugin->data_alloc(1, sizeof process, nullptr, 0);
  EXPECT_EQ(plugin->run(1, entry(1, "tell_process_l4"), {there}), success);
  EXPECT_EQ(plugin->data_retrieve(1, &process, there, sizeof process), success);
  EXPECT_EQ(plugin->data_delete(1, there), success);
  const std::filesystem::path open = "/proc/" + std::to_string(process) + "/fd";
  if (!std::filesystem::exists(open)) return; // the target is on another machine
  const auto count = [&] { return std::distance(std::filesystem::directory_iterator(open), {}); };
  const auto before = count();
  testing::internal::CaptureStderr();
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(plugin->load_binary(1, &damaged), nullptr);
  (void)testing::internal::GetCapturedStderr();
  EXPECT_EQ(count(), before);
}

TEST_F(openmp_plugin, memory_for_host_and_device_is_refused) {
  for (const std::int32_t kind : {1, 2}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(plugin->data_alloc(0, 8, nullptr, kind), nullptr);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("host and devices share"));
  }
  testing::internal::CaptureStderr();
  plugin->init_requires(requires_shared_memory);
  EXPECT_EQ(plugin->init_device(0), failure);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("unified_shared_memory"));
  plugin->init_requires(0);
}

TEST_F(openmp_plugin, more_memory_than_there_is_is_told) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(plugin->data_alloc(0, std::int64_t{1} << 60, nullptr, 0), nullptr);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("device 0 (node 1), allocation"));
}

TEST_F(openmp_plugin, large_memory_is_kept_for_the_next_allocation) {
  constexpr std::int64_t bytes = std::int64_t{64} << 20;
  void* const there = plugin->data_alloc(0, bytes, nullptr, 0);
  ASSERT_NE(there, nullptr);
  std::uint64_t mark = 0x1234567890abcdef;
  EXPECT_EQ(plugin->data_submit(0, there, &mark, sizeof mark), success);
  EXPECT_EQ(plugin->data_delete(0, there), success);
  void* const again = plugin->data_alloc(0, bytes, nullptr, 0);
  EXPECT_EQ(again, there);
  std::uint64_t found = 0;
  EXPECT_EQ(plugin->data_retrieve(0, &found, again, sizeof found), success);
  EXPECT_EQ(found, mark) << "the pages have been given back";
  EXPECT_EQ(plugin->data_delete(0, again), success);
}

/// The last test, because it ends a device.
TEST_F(openmp_plugin, an_end_is_told_with_its_region) {
  testing::internal::CaptureStderr();
  async_info info{};
  EXPECT_EQ(plugin->run(1, entry(1, "fault_l5"), {}, &info), success);
  EXPECT_EQ(plugin->synchronize(1, &info), failure);
  EXPECT_EQ(info.queue, nullptr);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(
      text, AllOf(HasSubstr("device 1 (node 2), region in fault, line 5: "), HasSubstr("SIGSEGV")));
  EXPECT_EQ(plugin->data_alloc(1, 8, nullptr, 0), nullptr);
  EXPECT_EQ(plugin->run(0, entry(0, "empty_l1"), {}), success) << "the other device";
}

} // namespace
} // namespace farcall::openmp::plugin_test
