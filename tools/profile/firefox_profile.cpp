// SPDX-License-Identifier: Apache-2.0
#include "firefox_profile.hpp"

#include "check.hpp"
#include "text.hpp"

#include <tools/common/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace farcall::tool {

namespace {

constexpr int processed_version = 55;
// Version of the format in which Firefox itself writes profiles. Firefox used this version while
// the processed format had version 55.
constexpr int unprocessed_version = 31;
constexpr int library_resource = 1;

double milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

/// Gives each key, for instance a text, a number. Numbers count from 0 in the order in which keys
/// are first used.
template <class Key>
class numbering {
 public:
  std::uint32_t of(const Key& key) {
    const auto next = static_cast<std::uint32_t>(keys_.size());
    const auto [at, is_new] = known_.try_emplace(key, next);
    if (is_new) keys_.push_back(key);
    return at->second;
  }
  [[nodiscard]] const std::vector<Key>& keys() const { return keys_; }

 private:
  std::map<Key, std::uint32_t> known_;
  std::vector<Key> keys_;
};

/// A column of a JSON table. Its values are kept as JSON text, which takes less memory.
class json_column {
 public:
  void add(const json& value) { written_.push_back(value.dump()); }
  template <class Number>
  void add(const std::optional<Number>& value) {
    written_.push_back(value ? std::to_string(*value) : "null");
  }
  [[nodiscard]] json list() const { return json_list(written_); }

 private:
  std::vector<std::string> written_;
};

json repeated(std::string_view value, std::size_t times) {
  return json_list(std::vector<std::string>(times, std::string(value)));
}

using frame_key = std::tuple<std::uint32_t, std::uint8_t, std::uint32_t, std::uint32_t,
                             std::optional<std::uint32_t>, std::uint64_t>;
using function_key = std::tuple<std::string, std::string, std::string>;
using symbol_key = std::pair<std::uint32_t, std::string>; ///< library, name

/// The tables of one thread. In this format, each thread has stacks, frames and functions of its
/// own.
class thread_tables {
 public:
  thread_tables(const profile& seen, numbering<std::string>& libraries)
      : seen_(seen), libraries_(libraries) {}

  void add(const profile_sample& sample) { samples_.push_back(&sample); }

  json document(const profile_thread& thread) {
    // Sort the samples by time, because the format requires it.
    std::sort(samples_.begin(), samples_.end(),
              [](const auto* a, const auto* b) { return std::tie(a->at, a) < std::tie(b->at, b); });
    std::vector<std::uint32_t> stacks;
    std::vector<double> times;
    for (const profile_sample* sample : samples_) {
      stacks.push_back(number_stack(sample->stack, sample->does));
      times.push_back(milliseconds(sample->at));
    }
    json document{{"processType", "default"},
                  {"processName", process_name(thread)},
                  {"processStartupTime", 0},
                  {"processShutdownTime", nullptr},
                  {"registerTime", 0},
                  {"unregisterTime", nullptr},
                  {"pausedRanges", json::array()},
                  {"name", thread_name(thread)},
                  {"isMainThread", thread.is_main},
                  {"pid", std::to_string(thread.process) +
                              (thread.machine.empty() ? "" : "@" + valid_text(thread.machine))},
                  {"tid", thread.thread}};
    document["samples"] = {{"stack", json_numbers(stacks)},
                           {"time", json_numbers(times)},
                           {"weight", nullptr},
                           {"weightType", "samples"},
                           {"length", stacks.size()}};
    document["markers"] = {{"data", json::array()},
                           {"name", json::array()},
                           {"startTime", json::array()},
                           {"endTime", json::array()},
                           {"phase", json::array()},
                           {"category", json::array()},
                           {"length", 0}};
    document["stackTable"] = {{"frame", json_numbers(stack_frames_)},
                              {"prefix", stack_prefixes_.list()},
                              {"length", stack_frames_.size()}};
    // Write the tables in this order. Writing a table adds entries to the tables that follow it,
    // and all tables add texts.
    document["frameTable"] = frame_table();
    document["funcTable"] = function_table_json();
    document["nativeSymbols"] = symbol_table();
    document["resourceTable"] = resource_table();
    json_column texts;
    for (const std::string& text : strings_.keys())
      texts.add(text);
    document["stringArray"] = texts.list();
    return document;
  }

 private:
  struct numbered_stack {
    std::uint32_t number = 0;
    std::uint32_t inline_depth = 0;
    std::optional<std::uint32_t> symbol;
    std::uint64_t address = 0;
  };

  std::uint32_t number_stack(std::uint32_t stack, activity does) {
    const auto key = [&](std::uint32_t s) { return std::uint64_t{s} << 8U | std::uint8_t(does); };
    std::vector<std::uint32_t> chain;
    for (; stack != profile_stack::none; stack = seen_.stacks[stack].caller) {
      if (known_.contains(key(stack))) break;
      chain.push_back(stack);
    }
    std::optional<numbered_stack> caller;
    if (stack != profile_stack::none) caller = known_.at(key(stack));
    for (; !chain.empty(); chain.pop_back()) {
      caller = add_stack(seen_.stacks[chain.back()].frame, caller, does);
      known_.emplace(key(chain.back()), *caller);
    }
    return caller->number;
  }

  numbered_stack add_stack(std::uint32_t frame_number, const std::optional<numbered_stack>& caller,
                           activity does) {
    const profile_frame& frame = seen_.frames[frame_number];
    numbered_stack made{.number = static_cast<std::uint32_t>(stack_frames_.size()),
                        .symbol = {},
                        .address = frame.address};
    if (frame.is_inlined && caller) {
      // An inlined function has no machine code of its own, so use the symbol and the address of
      // the function into which it was inlined.
      made.inline_depth = caller->inline_depth + 1;
      made.symbol = caller->symbol;
      made.address = caller->address;
    } else if (!frame.module.empty()) {
      made.symbol = symbol_of(frame_number);
      symbol_addresses_.resize(symbols_.keys().size(), frame.address);
      auto& lowest = symbol_addresses_[*made.symbol];
      lowest = std::min(lowest, frame.address);
    }
    stack_frames_.push_back(frames_.of({function_of(frame_number), static_cast<std::uint8_t>(does),
                                        frame.line, made.inline_depth, made.symbol, made.address}));
    stack_prefixes_.add(caller ? std::optional(caller->number) : std::nullopt);
    return made;
  }

  std::uint32_t function_of(std::uint32_t frame_number) {
    const auto [at, is_new] = functions_of_.try_emplace(frame_number, 0);
    const profile_frame& frame = seen_.frames[frame_number];
    if (is_new) {
      at->second =
          functions_.of({name_of(frame), valid_text(frame.module), valid_text(frame.file)});
    }
    return at->second;
  }

  std::uint32_t symbol_of(std::uint32_t frame_number) {
    const auto [at, is_new] = symbols_of_.try_emplace(frame_number, 0);
    const profile_frame& frame = seen_.frames[frame_number];
    if (is_new) at->second = symbols_.of({libraries_.of(valid_text(frame.module)), name_of(frame)});
    return at->second;
  }

  json frame_table() {
    json_column address;
    json_column depth;
    json_column category;
    json_column function;
    json_column symbol;
    json_column line;
    const std::size_t count = frames_.keys().size();
    for (const auto& [func, does, at_line, inlined, native, at] : frames_.keys()) {
      if (native)
        address.add(json(at));
      else
        address.add(json(-1)); // -1: in no library
      depth.add(inlined);
      category.add(does + 1); // after "Other"
      function.add(func);
      symbol.add(native);
      line.add(at_line == 0 ? std::nullopt : std::optional(at_line));
    }
    return {{"address", address.list()},
            {"inlineDepth", depth.list()},
            {"category", category.list()},
            {"subcategory", repeated("0", count)},
            {"func", function.list()},
            {"nativeSymbol", symbol.list()},
            {"innerWindowID", repeated("null", count)},
            {"line", line.list()},
            {"column", repeated("null", count)},
            {"length", count}};
  }

  json function_table_json() {
    json_column name;
    json_column resource;
    json_column file;
    const std::size_t count = functions_.keys().size();
    for (const auto& [function, module, source] : functions_.keys()) {
      name.add(strings_.of(function));
      if (module.empty())
        resource.add(json(-1));
      else
        resource.add(resources_.of(module));
      file.add(source.empty() ? std::nullopt : std::optional(strings_.of(source)));
    }
    return {{"name", name.list()},
            {"isJS", repeated("false", count)},
            {"relevantForJS", repeated("false", count)},
            {"resource", resource.list()},
            {"fileName", file.list()},
            {"lineNumber", repeated("null", count)},
            {"columnNumber", repeated("null", count)},
            {"length", count}};
  }

  json symbol_table() {
    json_column library;
    json_column name;
    const std::size_t count = symbols_.keys().size();
    for (const auto& [of_library, symbol] : symbols_.keys()) {
      library.add(of_library);
      name.add(strings_.of(symbol));
    }
    return {{"libIndex", library.list()},
            {"address", json_numbers(symbol_addresses_)},
            {"name", name.list()},
            {"functionSize", repeated("null", count)},
            {"length", count}};
  }

  json resource_table() {
    json_column library;
    json_column name;
    const std::size_t count = resources_.keys().size();
    for (const std::string& module : resources_.keys()) {
      library.add(libraries_.of(module));
      name.add(strings_.of(std::string(base_name(module))));
    }
    return {{"lib", library.list()},
            {"name", name.list()},
            {"host", repeated("null", count)},
            {"type", repeated(std::to_string(library_resource), count)},
            {"length", count}};
  }

  const profile& seen_;
  numbering<std::string>& libraries_;
  std::vector<const profile_sample*> samples_;
  std::unordered_map<std::uint64_t, numbered_stack> known_;       ///< by stack and activity
  std::unordered_map<std::uint32_t, std::uint32_t> functions_of_; ///< by the profile's frame
  std::unordered_map<std::uint32_t, std::uint32_t> symbols_of_;   ///< by the profile's frame
  std::vector<std::uint32_t> stack_frames_;
  json_column stack_prefixes_;
  numbering<frame_key> frames_;
  numbering<function_key> functions_;
  numbering<symbol_key> symbols_;
  /// For each symbol, the lowest address that was sampled.
  std::vector<std::uint64_t> symbol_addresses_;
  numbering<std::string> resources_;
  numbering<std::string> strings_;
};

json category(std::string_view name, std::string_view color) {
  return {{"name", name}, {"color", color}, {"subcategories", json_list({"\"Other\""})}};
}

json meta_of(const profile& seen) {
  json meta{{"version", unprocessed_version},
            {"preprocessedProfileVersion", processed_version},
            {"interval", 1000 * seen.seconds_per_sample()},
            {"startTime", milliseconds(seen.started.time_since_epoch())},
            {"profilingStartTime", 0},
            {"profilingEndTime", milliseconds(seen.duration)},
            {"processType", 0},
            {"product", valid_text(seen.command)},
            {"importedFrom", "farcall " FARCALL_TOOL_VERSION},
            {"stackwalk", 1},
            {"debug", false},
            {"symbolicated", true},
            {"sourceCodeIsNotOnSearchfox", true},
            {"markerSchema", json::array()}};
  // The format requires a grey category, and takes the first grey one as the default.
  json categories = json::array();
  categories.push_back(category("Other", "grey"));
  categories.push_back(category(name_of(activity::computes), "green"));
  categories.push_back(category(name_of(activity::waits), "orange"));
  categories.push_back(category(name_of(activity::idle), "transparent"));
  meta["categories"] = std::move(categories);
  if (seen.lost > 0) {
    json entries = json::array();
    entries.push_back({{"label", "Samples dropped"}, {"format", "integer"}, {"value", seen.lost}});
    json section{{"label", "Sampling"}};
    section["entries"] = std::move(entries);
    json extra = json::array();
    extra.push_back(std::move(section));
    meta["extra"] = std::move(extra);
  }
  return meta;
}

json library_json(const std::string& path) {
  const std::string_view name = base_name(path);
  return {{"arch", ""},        {"name", name},     {"path", path},     {"debugName", name},
          {"debugPath", path}, {"breakpadId", ""}, {"codeId", nullptr}};
}

} // namespace

std::string firefox_profile_json(const profile& seen) {
  check(seen);
  numbering<std::string> libraries;
  std::vector<thread_tables> tables(seen.threads.size(), thread_tables(seen, libraries));
  for (const profile_sample& sample : seen.samples)
    tables[sample.thread].add(sample);
  json threads = json::array();
  for (std::size_t i = 0; i < tables.size(); ++i)
    threads.push_back(tables[i].document(seen.threads[i]));
  json libs = json::array();
  for (const std::string& path : libraries.keys())
    libs.push_back(library_json(path));

  json file;
  file["meta"] = meta_of(seen);
  file["libs"] = std::move(libs);
  file["threads"] = std::move(threads);
  return file.dump() + '\n';
}

} // namespace farcall::tool
