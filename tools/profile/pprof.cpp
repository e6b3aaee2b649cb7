// SPDX-License-Identifier: Apache-2.0
#include "pprof.hpp"

#include "check.hpp"
#include "protobuf_writer.hpp"
#include "text.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace farcall::tool {

namespace {

// Field numbers of profile.proto.
namespace field {
constexpr unsigned sample_type = 1;
constexpr unsigned sample = 2;
constexpr unsigned mapping = 3;
constexpr unsigned location = 4;
constexpr unsigned function = 5;
constexpr unsigned string_table = 6;
constexpr unsigned time_nanos = 9;
constexpr unsigned duration_nanos = 10;
constexpr unsigned period_type = 11;
constexpr unsigned period = 12;
constexpr unsigned comment = 13;
constexpr unsigned default_sample_type = 14;
} // namespace field

class pprof_writer {
 public:
  explicit pprof_writer(const profile& seen)
      : seen_(seen), locations_of_(seen.stacks.size()), callers_(seen.stacks.size()) {
    (void)text("");
    keys_ = {.thread = text("thread"),
             .process = text("process"),
             .activity = text("activity"),
             .node = text("node"),
             .number = text("number")};
    for (const profile_thread& thread : seen.threads) {
      thread_names_.push_back(text(thread_name(thread)));
      process_names_.push_back(text(process_name(thread)));
    }
  }

  std::string write() {
    // Merge the samples with equal stacks, threads and activities, and count them.
    std::map<std::tuple<std::uint32_t, std::uint32_t, activity>, std::uint64_t> counts;
    for (const profile_sample& sample : seen_.samples)
      ++counts[{sample.thread, sample.stack, sample.does}];

    out_.message(field::sample_type, value_type("samples", "count"));
    out_.message(field::sample_type, value_type("cpu", "nanoseconds"));
    // Add the main program's mapping first, because the format says that the first mapping is the
    // main program.
    if (!seen_.threads.empty()) (void)mapping_of(seen_.threads[0].program);
    for (const auto& [key, count] : counts)
      write_sample(std::get<0>(key), std::get<1>(key), std::get<2>(key), count);
    write_mappings();
    out_.signed_number(field::time_nanos,
                       std::chrono::nanoseconds(seen_.started.time_since_epoch()).count());
    out_.signed_number(field::duration_nanos, seen_.duration.count());
    out_.message(field::period_type, value_type("cpu", "nanoseconds"));
    out_.number(field::period, period());
    std::vector<std::uint64_t> comments{text(valid_text(seen_.command))};
    if (seen_.lost > 0)
      comments.push_back(text("The kernel dropped " + std::to_string(seen_.lost) + " samples."));
    out_.numbers(field::comment, comments);
    out_.number(field::default_sample_type, text("cpu"));
    for (const std::string& string : strings_)
      out_.bytes(field::string_table, string);
    return out_.bytes();
  }

 private:
  /// Keys of labels, as indices in the text table. Every sample has labels with these keys.
  struct label_keys {
    std::uint64_t thread = 0;
    std::uint64_t process = 0;
    std::uint64_t activity = 0;
    std::uint64_t node = 0;
    std::uint64_t number = 0;
  };

  struct mapped_module {
    std::uint64_t number = 0; ///< counts from 1
    std::uint64_t limit = 0;
    bool has_lines = false;
  };

  [[nodiscard]] std::uint64_t period() const {
    return static_cast<std::uint64_t>(std::llround(1e9 * seen_.seconds_per_sample()));
  }

  std::uint64_t text(const std::string& string) {
    const auto [at, is_new] = known_strings_.try_emplace(string, strings_.size());
    if (is_new) strings_.push_back(string);
    return at->second;
  }

  protobuf_writer value_type(const std::string& type, const std::string& unit) {
    protobuf_writer made;
    made.number(1, text(type));
    made.number(2, text(unit));
    return made;
  }

  static void text_label(protobuf_writer& sample, std::uint64_t key, std::uint64_t value) {
    protobuf_writer label;
    label.number(1, key);
    label.number(2, value);
    sample.message(3, label);
  }

  void number_label(protobuf_writer& sample, std::uint64_t key, std::int64_t value) const {
    protobuf_writer label;
    label.number(1, key);
    label.signed_number(3, value);
    // Write a unit, so that readers do not display the value as bytes or time.
    label.number(4, keys_.number);
    sample.message(3, label);
  }

  void write_sample(std::uint32_t thread_number, std::uint32_t stack, activity does,
                    std::uint64_t count) {
    const profile_thread& thread = seen_.threads[thread_number];
    protobuf_writer sample;
    std::vector<std::uint64_t> locations;
    for (; stack != profile_stack::none; stack = callers_[stack]) {
      if (locations_of_[stack] == 0) locate(stack);
      locations.push_back(locations_of_[stack]);
    }
    sample.numbers(1, locations);
    sample.numbers(2, {count, count * period()});
    text_label(sample, keys_.thread, thread_names_[thread_number]);
    text_label(sample, keys_.process, process_names_[thread_number]);
    text_label(sample, keys_.activity, text(std::string(name_of(does))));
    if (thread.node != no_node) number_label(sample, keys_.node, thread.node);
    out_.message(field::sample, sample);
  }

  /// Adds a location for a stack's innermost frame. The location also has all frames into which
  /// this frame was inlined.
  void locate(std::uint32_t innermost) {
    std::uint32_t stack = innermost;
    std::vector<std::uint32_t> frames{seen_.stacks[stack].frame};
    while (seen_.frames[frames.back()].is_inlined &&
           seen_.stacks[stack].caller != profile_stack::none) {
      stack = seen_.stacks[stack].caller;
      frames.push_back(seen_.stacks[stack].frame);
    }
    callers_[innermost] = seen_.stacks[stack].caller;
    const auto [at, is_new] = locations_.try_emplace(frames, locations_.size() + 1);
    locations_of_[innermost] = at->second;
    if (is_new) write_location(at->second, frames);
  }

  void write_location(std::uint64_t number, const std::vector<std::uint32_t>& frames) {
    const profile_frame& outer = seen_.frames[frames.back()];
    protobuf_writer location;
    location.number(1, number);
    if (!outer.module.empty()) {
      mapped_module& module = mapping_of(outer.module);
      module.limit = std::max(module.limit, outer.address + 1);
      for (const std::uint32_t frame : frames)
        module.has_lines = module.has_lines || seen_.frames[frame].line > 0;
      location.number(2, module.number);
    }
    location.number(3, outer.address);
    for (const std::uint32_t frame : frames) {
      protobuf_writer line;
      line.number(1, function_of(seen_.frames[frame]));
      line.number(2, seen_.frames[frame].line);
      location.message(4, line);
    }
    out_.message(field::location, location);
  }

  std::uint64_t function_of(const profile_frame& frame) {
    const auto [at, is_new] = functions_.try_emplace(
        {name_of(frame), valid_text(frame.file), frame.module}, functions_.size() + 1);
    if (is_new) {
      const auto& [name, file, module] = at->first;
      protobuf_writer function;
      function.number(1, at->second);
      // Leave out the system's name of the function (field 3). Otherwise pprof would demangle and
      // shorten the function's name again.
      function.number(2, text(name));
      function.number(4, text(file));
      out_.message(field::function, function);
    }
    return at->second;
  }

  mapped_module& mapping_of(const std::string& module) {
    const auto [at, is_new] = mappings_.try_emplace(module);
    if (is_new) {
      at->second.number = mappings_.size();
      mapping_order_.push_back(module);
    }
    return at->second;
  }

  void write_mappings() {
    for (const std::string& name : mapping_order_) {
      const mapped_module& module = mappings_.at(name);
      protobuf_writer mapping;
      mapping.number(1, module.number);
      mapping.number(3, module.limit);
      mapping.number(5, text(valid_text(name)));
      mapping.number(7, 1); // has_functions
      mapping.number(8, module.has_lines ? 1 : 0);
      mapping.number(9, module.has_lines ? 1 : 0);
      mapping.number(10, 1); // has_inline_frames
      out_.message(field::mapping, mapping);
    }
  }

  const profile& seen_;
  protobuf_writer out_;
  std::map<std::string, std::uint64_t> known_strings_;
  std::vector<std::string> strings_;
  label_keys keys_;
  std::vector<std::uint64_t> thread_names_;
  std::vector<std::uint64_t> process_names_;
  std::map<std::vector<std::uint32_t>, std::uint64_t> locations_; ///< by frames, innermost first
  // For each stack whose innermost frame begins a location, locations_of_ has the number of the
  // location, and callers_ has the stack that called the location's functions.
  std::vector<std::uint64_t> locations_of_;
  std::vector<std::uint32_t> callers_;
  std::map<std::tuple<std::string, std::string, std::string>, std::uint64_t> functions_;
  std::map<std::string, mapped_module> mappings_;
  std::vector<std::string> mapping_order_;
};

} // namespace

std::string pprof_protobuf(const profile& seen) {
  check(seen);
  return pprof_writer(seen).write();
}

} // namespace farcall::tool
