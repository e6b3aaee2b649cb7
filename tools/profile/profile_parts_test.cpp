// SPDX-License-Identifier: Apache-2.0
#include "activity.hpp"
#include "example_profile.hpp"
#include "modules.hpp"
#include "perf_record.hpp"
#include "recording.hpp"
#include "symbolizer.hpp"
#include "write_profile.hpp"
#include <tools/common/elf_file.hpp>

#include <tools/common/outcome.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/auxv.h>
#include <unistd.h>

namespace farcall::tool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// ---- address spaces -----------------------------------------------------------------------------

std::uint32_t module_at(const address_space& space, std::uint64_t address) {
  const auto* const mapping = space.find(address);
  return mapping == nullptr ? modules::none : mapping->module;
}

TEST(address_space, holds_the_latest_mappings) {
  address_space space;
  space.add({.start = 0x1000, .end = 0x5000, .file_offset = 0, .module = 1});
  space.add({.start = 0x2000, .end = 0x3000, .file_offset = 0x700, .module = 2});
  EXPECT_EQ(module_at(space, 0xfff), modules::none);
  EXPECT_EQ(module_at(space, 0x1000), 1U);
  EXPECT_EQ(module_at(space, 0x1fff), 1U);
  EXPECT_EQ(module_at(space, 0x2000), 2U);
  EXPECT_EQ(module_at(space, 0x3000), 1U);
  EXPECT_EQ(space.find(0x3000)->file_offset, 0x2000U);
  EXPECT_EQ(module_at(space, 0x5000), modules::none);
  space.add({.start = 0, .end = 0x4800, .file_offset = 0, .module = 3});
  EXPECT_EQ(module_at(space, 0x2000), 3U);
  EXPECT_EQ(module_at(space, 0x4800), 1U);
  EXPECT_EQ(space.find(0x4800)->file_offset, 0x3800U);
  EXPECT_EQ(space.all().size(), 2U);
}

TEST(address_space, ignores_mappings_that_end_before_they_begin) {
  address_space space;
  space.add({.start = 5, .end = 5, .file_offset = 0, .module = 1});
  space.add({.start = 9, .end = 5, .file_offset = 0, .module = 1});
  EXPECT_TRUE(space.all().empty());
}

// ---- records ------------------------------------------------------------------------------------

template <class T>
void append(std::vector<std::byte>& to, T value) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof value);
}

std::vector<std::byte> with_header(std::uint32_t type, const std::vector<std::byte>& body) {
  std::vector<std::byte> all;
  append(all, perf_event_header{type, 0, static_cast<std::uint16_t>(8 + body.size())});
  all.insert(all.end(), body.begin(), body.end());
  return all;
}

std::vector<std::byte> sample_of(std::uint64_t callers) {
  std::vector<std::byte> body;
  append(body, std::uint64_t{77});
  append(body, std::uint64_t{0x400});
  append(body, std::int32_t{10});
  append(body, std::int32_t{11});
  append(body, std::uint64_t{5000});
  append(body, callers);
  append(body, static_cast<std::uint64_t>(PERF_CONTEXT_USER));
  append(body, std::uint64_t{0x400});
  append(body, std::uint64_t{0x500});
  return with_header(PERF_RECORD_SAMPLE, body);
}

TEST(perf_records, samples_have_their_callers) {
  perf_record record;
  ASSERT_TRUE(read_record(sample_of(3), {.has_callers = true}, record));
  EXPECT_EQ(record.event, 77U);
  EXPECT_EQ(record.process, 10);
  EXPECT_EQ(record.thread, 11);
  EXPECT_EQ(record.time, 5000U);
  EXPECT_THAT(std::get<sample_record>(record.what).addresses, ElementsAre(0x400U, 0x500U));
}

TEST(perf_records, are_refused_if_truncated) {
  perf_record record;
  EXPECT_FALSE(read_record(sample_of(4), {.has_callers = true}, record));
  EXPECT_FALSE(read_record(sample_of(~std::uint64_t{0}), {.has_callers = true}, record));
  const std::vector<std::byte> whole = sample_of(3);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    std::vector<std::byte> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
    EXPECT_FALSE(read_record(part, {.has_callers = true}, record)) << bytes;
    // Also with a header whose size is the truncated one.
    if (bytes < sizeof(perf_event_header)) continue;
    const perf_event_header header{PERF_RECORD_SAMPLE, 0, static_cast<std::uint16_t>(bytes)};
    std::memcpy(part.data(), &header, sizeof header);
    EXPECT_FALSE(read_record(part, {.has_callers = true}, record)) << bytes;
  }
  for (const std::uint32_t type : {PERF_RECORD_MMAP2, PERF_RECORD_COMM, PERF_RECORD_FORK,
                                   PERF_RECORD_EXIT, PERF_RECORD_LOST}) {
    EXPECT_FALSE(read_record(with_header(type, std::vector<std::byte>(16)), {}, record)) << type;
    EXPECT_FALSE(read_record(with_header(type, std::vector<std::byte>(24)), {}, record) &&
                 type != PERF_RECORD_COMM)
        << type;
  }
}

// ---- recordings ---------------------------------------------------------------------------------

noted_record sampled_at(std::uint64_t time, pid_t process, std::vector<std::uint64_t> addresses) {
  noted_record noted;
  noted.record.time = time;
  noted.record.process = noted.record.thread = process;
  noted.record.what =
      sample_record{.addresses = std::move(addresses), .registers = {}, .stack = {}};
  return noted;
}

noted_record forked(std::uint64_t time, pid_t parent, pid_t child) {
  noted_record noted;
  noted.record.time = time;
  noted.record.process = noted.record.thread = child;
  noted.record.what = fork_record{parent, parent};
  return noted;
}

noted_record executed(std::uint64_t time, pid_t process, bool is_target) {
  noted_record noted;
  noted.record.time = time;
  noted.record.process = noted.record.thread = process;
  noted.record.what = name_record{"program", true};
  noted.part = process_part{.is_target = is_target};
  return noted;
}

noted_record mapped(std::uint64_t time, pid_t process, std::uint64_t start, const std::string& path,
                    std::uint32_t module) {
  noted_record noted;
  noted.record.time = time;
  noted.record.process = noted.record.thread = process;
  noted.record.what = map_record{.start = start, .bytes = 0x1000, .path = path};
  noted.module = module;
  return noted;
}

profile finished(recording& from, const modules& files = {}) {
  profile p;
  p.duration = std::chrono::seconds(1);
  add_samples(from.finish(), symbols_of(files), 0, [](std::size_t, std::size_t) {}, p);
  classify_samples(p);
  return p;
}

std::vector<std::string> modules_of(const profile& p) {
  std::vector<std::string> all;
  for (const profile_sample& s : p.samples)
    all.push_back(p.frames[p.stacks[s.stack].frame].module);
  return all;
}

TEST(recordings, resolve_samples_with_mappings_of_their_time) {
  modules files;
  map_record first{.path = "/no/first.so"};
  map_record second{.path = "/no/second.so"};
  const std::uint32_t one = files.add(1, first);
  const std::uint32_t two = files.add(1, second);
  recording recorded;
  recorded.take(sampled_at(1, 9, {0x1010}));
  recorded.take(mapped(2, 9, 0x1000, "/no/first.so", one));
  recorded.take(sampled_at(3, 9, {0x1010}));
  recorded.take(forked(4, 9, 10));
  recorded.take(mapped(5, 9, 0x1000, "/no/second.so", two));
  recorded.take(sampled_at(6, 9, {0x1010}));
  recorded.take(sampled_at(7, 10, {0x1010}));
  recorded.take(executed(8, 10, false));
  recorded.take(sampled_at(9, 10, {0x1010}));
  const profile p = finished(recorded, files);
  EXPECT_THAT(modules_of(p), ElementsAre("", "/no/first.so", "/no/second.so", "/no/first.so", ""));
  EXPECT_EQ(p.frames[p.stacks[p.samples[0].stack].frame].function, "0x1010");
  // One process before its exec, another after it.
  EXPECT_EQ(p.threads.size(), 3U);
}

TEST(recordings, number_targets_in_the_order_of_their_starts) {
  recording recorded;
  recorded.add_process(1, 0, {}, "/bin/farcall");
  recorded.take(sampled_at(1, 1, {1}));
  recorded.take(executed(2, 1, false));
  for (const pid_t child : {7, 5, 6}) {
    recorded.take(forked(3, 1, child));
    recorded.take(executed(4, child, child != 5));
  }
  // A wrapper passes its environment on.
  recorded.take(forked(5, 6, 8));
  recorded.take(executed(6, 8, true));
  // Processes that a target starts itself are no nodes.
  recorded.take(forked(7, 7, 9));
  for (const pid_t process : {1, 7, 5, 6, 8, 9})
    recorded.take(sampled_at(8, process, {1}));
  std::map<pid_t, std::vector<node_id>> nodes;
  for (const profile_thread& t : finished(recorded).threads)
    nodes[t.process].push_back(t.node);
  EXPECT_THAT(nodes[1], ElementsAre(no_node, host_id));
  EXPECT_THAT(nodes[7], ElementsAre(1U));
  EXPECT_THAT(nodes[5], ElementsAre(no_node));
  EXPECT_THAT(nodes[6], ElementsAre(2U));
  EXPECT_THAT(nodes[8], ElementsAre(2U));
  EXPECT_THAT(nodes[9], ElementsAre(no_node));
}

TEST(recordings, number_targets_of_launched_hosts_after_launched_nodes) {
  recording recorded;
  for (const node_id rank : {0U, 1U, 2U}) {
    const pid_t process = 10 + static_cast<pid_t>(rank);
    recorded.add_process(process, 1, {.rank = rank}, "/bin/app");
    recorded.take(sampled_at(1, process, {1}));
  }
  recorded.take(forked(2, 10, 20));
  noted_record begins = executed(3, 20, true);
  begins.part->rank = 0; // inherited from its host's environment
  recorded.take(begins);
  recorded.take(sampled_at(4, 20, {1}));
  std::vector<node_id> nodes;
  for (const profile_thread& t : finished(recorded).threads)
    nodes.push_back(t.node);
  EXPECT_THAT(nodes, ElementsAre(0U, 1U, 2U, 3U));
}

TEST(recordings, omit_callers_outside_code) {
  recording recorded;
  recorded.take(mapped(1, 9, 0x1000, "", modules::none));
  recorded.take(sampled_at(2, 9, {0x99999, 0x7777, 0x1011}));
  const profile p = finished(recorded);
  ASSERT_EQ(p.samples.size(), 1U);
  const profile_stack& inner = p.stacks[p.samples[0].stack];
  EXPECT_EQ(p.frames[inner.frame].function, "0x99999");
  ASSERT_NE(inner.caller, profile_stack::none);
  EXPECT_EQ(p.frames[p.stacks[inner.caller].frame].function, "0x1010");
  EXPECT_EQ(p.stacks[inner.caller].caller, profile_stack::none);
}

TEST(recordings, may_be_empty) {
  recording recorded;
  const profile p = finished(recorded);
  EXPECT_TRUE(p.samples.empty());
}

// ---- what threads do ----------------------------------------------------------------------------

TEST(activity, depends_on_functions_of_farcall_only) {
  EXPECT_EQ(part_of_function("farcall::am::waiter::wait(farcall::am::completion&, long)"),
            function_part::waits);
  EXPECT_EQ(part_of_function("void farcall::am::run_wait_loop<farcall::am::(anonymous "
                             "namespace)::waiting_scope<farcall::am::reply_wait> >("
                             "farcall::am::(anonymous namespace)::waiting_scope<"
                             "farcall::am::reply_wait>&, farcall::am::spin_wait&)"),
            function_part::waits);
  EXPECT_EQ(part_of_function("farcall::am::worker_pool::run(farcall::am::worker&, bool)"),
            function_part::idle);
  EXPECT_EQ(part_of_function("void farcall::am::run_wait_loop<farcall::am::(anonymous "
                             "namespace)::worker_scope>(farcall::am::(anonymous "
                             "namespace)::worker_scope&, farcall::am::spin_wait&)"),
            function_part::idle);
  EXPECT_EQ(part_of_function("farcall::am::(anonymous namespace)::worker_scope::poll("
                             "farcall::am::spin_wait&)"),
            function_part::idle);
  EXPECT_EQ(part_of_function("farcall::future<double>::get(farcall::am::reply_count)"),
            function_part::waits);
  EXPECT_EQ(part_of_function("farcall::future<double>::future()"), function_part::library);
  EXPECT_EQ(part_of_function("user::wait(farcall::am::waiter::wait)"), function_part::any);
  EXPECT_EQ(part_of_function("user::vector<farcall::am::waiter::wait> f<int>()"),
            function_part::any);
  EXPECT_EQ(part_of_function("(anonymous namespace)::farcall::am::waiter::wait()"),
            function_part::any);
  EXPECT_EQ(part_of_function("0x1234"), function_part::any);
  EXPECT_EQ(part_of_function(""), function_part::any);
}

/// Returns the activity for a stack of functions, outermost first, none of them inlined.
activity activity_of(const std::vector<std::string>& functions) {
  profile p;
  for (std::uint32_t i = 0; i < functions.size(); ++i) {
    p.frames.emplace_back().function = functions[i];
    p.frames.back().module = functions[i] == "memcpy" ? "/lib/libc.so.6" : "/home/user/app";
    p.stacks.push_back({.frame = i, .caller = i == 0 ? profile_stack::none : i - 1});
  }
  p.threads.resize(1);
  p.samples.push_back({.stack = static_cast<std::uint32_t>(functions.size() - 1)});
  classify_samples(p);
  return p.samples[0].does;
}

TEST(activity, is_decided_by_the_innermost_known_function) {
  const std::string worker = "farcall::am::worker_pool::run(farcall::am::worker&, bool)";
  const std::string call = "farcall::detail::remote_call<int>::run(farcall::am::request_context&)";
  const std::string wait = "farcall::am::waiter::wait(farcall::am::completion&, long)";
  const std::string spin = "farcall::am::spin_wait::look()";
  EXPECT_EQ(activity_of({worker}), activity::idle);
  EXPECT_EQ(activity_of({worker, spin}), activity::idle);
  EXPECT_EQ(activity_of({worker, call}), activity::computes);
  EXPECT_EQ(activity_of({worker, call, "memcpy"}), activity::computes);
  EXPECT_EQ(activity_of({worker, call, "user::handler()", wait, spin}), activity::waits);
  EXPECT_EQ(activity_of({worker, call, "user::handler()", wait, "memcpy"}), activity::waits);
  // The direct caller is missing.
  EXPECT_EQ(activity_of({worker, "user::handler()"}), activity::computes);
  EXPECT_EQ(activity_of({"main", wait, "user::continuation()"}), activity::computes);
  // Stacks of a single function, as without frame pointers.
  EXPECT_EQ(activity_of({spin}), activity::waits);
  EXPECT_EQ(activity_of({"user::handler()"}), activity::computes);
  EXPECT_EQ(activity_of({"memcpy"}), activity::computes);
}

TEST(activity, is_not_changed_by_inlined_functions_without_namespaces) {
  profile p;
  p.frames.resize(2);
  p.frames[0].function = "farcall::am::worker_pool::run(farcall::am::worker&, bool)";
  p.frames[1].function = "operator()";
  p.frames[1].module = "/home/user/app";
  p.frames[1].is_inlined = true;
  p.stacks = {{.frame = 0}, {.frame = 1, .caller = 0}};
  p.threads.resize(1);
  p.samples = {{.stack = 1}};
  classify_samples(p);
  EXPECT_EQ(p.samples[0].does, activity::idle);
}

TEST(activity, is_taken_from_the_thread_if_a_function_polls) {
  profile p;
  p.frames.resize(3);
  p.frames[0].function = "sched_yield";
  p.frames[1].function = "farcall::am::worker_pool::run(farcall::am::worker&, bool)";
  p.frames[2].function = "farcall::am::waiter::wait(farcall::am::completion&, long)";
  p.stacks = {{.frame = 0}, {.frame = 1}, {.frame = 2}};
  p.threads.resize(2);
  p.samples = {{.thread = 0, .stack = 0},
               {.thread = 0, .stack = 1},
               {.thread = 1, .stack = 0},
               {.thread = 1, .stack = 2}};
  classify_samples(p);
  EXPECT_EQ(p.samples[0].does, activity::idle);
  EXPECT_EQ(p.samples[2].does, activity::waits);
}

// ---- files --------------------------------------------------------------------------------------

/// Returns a file with these bytes, already deleted.
unique_fd file_of(const std::string& bytes) {
  std::string path = std::filesystem::temp_directory_path() / "profile-XXXXXX";
  unique_fd file(mkostemp(path.data(), O_CLOEXEC));
  std::filesystem::remove(path);
  if (write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    throw failed_run("no temporary file");
  return file;
}

std::string bytes_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<symbol> symbols_of(const std::string& bytes, std::vector<std::uint64_t> offsets) {
  module_file module{"/no/such/file", file_of(bytes)};
  return symbolize(module, offsets);
}

TEST(symbols, are_addresses_in_a_truncated_file) {
  const std::string whole = bytes_of(PROFILED_LIBRARY);
  ASSERT_GT(whole.size(), 4096U);
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t offset = 0; offset < whole.size(); offset += 64)
    offsets.push_back(offset);
  bool knows_function = false;
  for (const symbol& s : symbols_of(whole, offsets))
    knows_function = knows_function || s.frames.back().function == "library_work";
  EXPECT_TRUE(knows_function);
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += whole.size() / 61) {
    for (const symbol& s : symbols_of(whole.substr(0, bytes), offsets))
      ASSERT_FALSE(s.frames.back().function.empty());
  }
}

TEST(symbols, are_names_even_in_a_damaged_file) {
  const std::string whole = bytes_of(PROFILED_LIBRARY);
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t offset = 0; offset < whole.size(); offset += 256)
    offsets.push_back(offset);
  // Random bytes from a generator with a fixed seed, so that a failure can be repeated.
  std::uint64_t state = 1;
  for (int round = 0; round < 60; ++round) {
    std::string damaged = whole;
    for (int i = 0; i < 40; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      // Half of the damage goes to the headers at the beginning.
      const std::size_t range = i % 2 == 0 ? 1024 : damaged.size();
      damaged[(state >> 33) % range] = static_cast<char>(state >> 25);
    }
    for (const symbol& s : symbols_of(damaged, offsets))
      ASSERT_FALSE(s.frames.back().function.empty());
  }
}

TEST(symbols, are_names_in_the_kernels_library) {
  const std::uint64_t start = ::getauxval(AT_SYSINFO_EHDR);
  if (start == 0) GTEST_SKIP() << "the kernel maps no library into programs here";
  modules files;
  map_record mapping;
  mapping.start = start;
  mapping.path = "[vdso]";
  const std::uint32_t module = files.add(::getpid(), mapping);
  ASSERT_NE(module, modules::none);
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t at = 0; at < 0x4000; at += 8)
    offsets.push_back(at);
  std::set<std::string> names;
  for (const symbol& s : symbolize(files.all()[module], offsets))
    names.insert(s.frames.back().function);
  EXPECT_TRUE(std::ranges::any_of(names, [](const std::string& name) {
    return name.find("clock_gettime") != std::string::npos;
  }));
  // 32-bit programs have another vDSO.
  mapping.start = 0xf7fc0000;
  EXPECT_EQ(files.add(::getpid(), mapping), modules::none);
}

TEST(symbols, are_addresses_in_files_that_are_no_program) {
  for (const std::string& bytes :
       {std::string(), std::string("#!/bin/sh\n"), std::string(5000, '\177')}) {
    const auto symbols = symbols_of(bytes, {0x10, 0x2000});
    ASSERT_EQ(symbols.size(), 2U);
    EXPECT_EQ(symbols[1].frames.back().function, "0x2000");
  }
}

TEST(formats, separate_threads_if_asked) {
  std::string folder = std::filesystem::temp_directory_path() / "profiles-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  using roots = call_tree_options::roots;
  for (const char* ending : {"/p.collapsed", "/p.txt"}) {
    write_profile(folder + ending, example_profile(), {.root = roots::functions});
    EXPECT_THAT(bytes_of(folder + ending), Not(HasSubstr("node 1"))) << ending;
    write_profile(folder + ending, example_profile(), {.root = roots::processes});
    EXPECT_THAT(bytes_of(folder + ending), HasSubstr("node 1")) << ending;
    write_profile(folder + ending, example_profile(), {.root = roots::threads});
    EXPECT_THAT(bytes_of(folder + ending), HasSubstr("(201)")) << ending;
  }
  std::filesystem::remove_all(folder);
}

TEST(formats, are_chosen_by_the_file_ending) {
  std::string made = std::filesystem::temp_directory_path() / "profiles-XXXXXX";
  ASSERT_NE(::mkdtemp(made.data()), nullptr);
  const std::filesystem::path folder = made;
  try {
    check_profile_file("profile.unknown");
    FAIL() << "not refused";
  } catch (const usage_problem& e) {
    EXPECT_THAT(e.what(), HasSubstr("profile.unknown"));
  }
  for (const char* ending : {"p.svg", "p.collapsed", "p.speedscope.json", "p.firefox.json",
                             "p.pb.gz", "p.pb", "p.txt", "veprof.out"}) {
    EXPECT_NO_THROW(check_profile_file(folder / ending)) << ending;
    EXPECT_THROW(check_profile_file(std::string("/no/such/folder/") + ending), usage_problem);
    EXPECT_THROW(write_profile(std::string("/no/such/folder/") + ending, {}), failed_run) << ending;
  }
  // The check leaves no file behind, and existing files unchanged.
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::ofstream(folder / "kept.svg") << "older";
  check_profile_file(folder / "kept.svg");
  EXPECT_EQ(std::filesystem::file_size(folder / "kept.svg"), 5U);
  std::filesystem::create_directory(folder / "folder.svg");
  EXPECT_THROW(check_profile_file(folder / "folder.svg"), usage_problem);
  std::filesystem::remove_all(folder);
}

} // namespace
} // namespace farcall::tool
