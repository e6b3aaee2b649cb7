// SPDX-License-Identifier: Apache-2.0
#include <farcall/c/convert.hpp>
#include <farcall/c/equals.h>
#include <farcall/c/made_jobs.hpp>
#include <farcall/offload/equals.hpp>
#include <farcall/offload/job.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

using namespace farcall;
using namespace farcall::c;

namespace {

// ---- reductions ---------------------------------------------------------------------------------

/// Returns the operation of the library on values of type T. Its address is the argument of
/// reduction::combine.
template <class T, class Operation>
detail::reduction by_operation() noexcept {
  static Operation operation;
  return detail::reduction_by<T>(operation);
}

template <class T>
detail::reduction operation_on(fc_operation operation) {
  switch (operation) {
  case FC_SUM:
    return by_operation<T, sum>();
  case FC_PRODUCT:
    return by_operation<T, product>();
  case FC_MINIMUM:
    return by_operation<T, minimum>();
  case FC_MAXIMUM:
    return by_operation<T, maximum>();
  case FC_LOGICAL_AND:
    return by_operation<T, logical_and>();
  case FC_LOGICAL_OR:
    return by_operation<T, logical_or>();
  case FC_BIT_AND:
    if constexpr (std::is_integral_v<T>) return by_operation<T, bit_and>();
    break;
  case FC_BIT_OR:
    if constexpr (std::is_integral_v<T>) return by_operation<T, bit_or>();
    break;
  case FC_BIT_XOR:
    if constexpr (std::is_integral_v<T>) return by_operation<T, bit_xor>();
    break;
  case FC_OWN_OPERATION:
    break;
  }
  throw invalid_argument("fc_reduction.operation " + std::to_string(operation) +
                         (operation >= FC_BIT_AND && operation <= FC_BIT_XOR
                              ? " is for integers"
                              : " does not exist; or set `combine` for an operation of your own"));
}

detail::reduction operation_on(fc_type type, fc_operation operation) {
  switch (type) {
  case FC_INT8:
    return operation_on<std::int8_t>(operation);
  case FC_INT16:
    return operation_on<std::int16_t>(operation);
  case FC_INT32:
    return operation_on<std::int32_t>(operation);
  case FC_INT64:
    return operation_on<std::int64_t>(operation);
  case FC_UINT8:
    return operation_on<std::uint8_t>(operation);
  case FC_UINT16:
    return operation_on<std::uint16_t>(operation);
  case FC_UINT32:
    return operation_on<std::uint32_t>(operation);
  case FC_UINT64:
    return operation_on<std::uint64_t>(operation);
  case FC_FLOAT:
    return operation_on<float>(operation);
  case FC_DOUBLE:
    return operation_on<double>(operation);
  case FC_OTHER_TYPE:
    break;
  }
  throw invalid_argument("fc_reduction.type " + std::to_string(type) +
                         " does not exist; or set `combine` for a type of your own");
}

void combine_by_program(void* argument, const std::byte* from, std::byte* to, std::size_t count,
                        bool from_is_left) {
  const auto& by = *static_cast<const fc_reduction*>(argument);
  if (from_is_left) {
    by.combine(from, to, to, count, by.user);
  } else {
    by.combine(to, from, to, count, by.user);
  }
}

/// Returns the reduction `how`, which must live as long as the result. Throws invalid_argument.
detail::reduction reduction_of(const fc_reduction* how) {
  require(how, "how");
  if (how->size < sizeof(fc_reduction)) {
    throw invalid_argument("fc_reduction.size is " + std::to_string(how->size) +
                           "; set it to sizeof(fc_reduction)");
  }
  if (how->combine == nullptr) return operation_on(how->type, how->operation);
  if (how->type != FC_OTHER_TYPE || how->operation != FC_OWN_OPERATION) {
    throw invalid_argument("fc_reduction.combine excludes `type` and `operation`; set value_size");
  }
  if (how->value_size == 0)
    throw invalid_argument("fc_reduction.value_size is 0; set it to the size of a value");
  // The alignment of a C type divides the type's size, so it is at most the largest power of two
  // that divides the size. Types of the program are not over-aligned.
  const std::size_t alignment =
      std::min(how->value_size & (~how->value_size + 1), alignof(std::max_align_t));
  return {how->value_size,
          alignment,
          detail::operation_code::user,
          0,
          &combine_by_program,
          const_cast<fc_reduction*>(how)};
}

/// Returns the size of the values in `mine`. Throws invalid_argument.
std::size_t bytes_of(const void* mine, std::size_t count, std::size_t value_size) {
  if (count > SIZE_MAX / value_size) throw invalid_argument("`count` is too large");
  require_size(count * value_size);
  if (count != 0) require(mine, "mine");
  return count * value_size;
}

/// Copies the values in `mine` to `result`, and returns the result's bytes. Throws
/// invalid_argument.
std::span<std::byte> values_of(const void* mine, void* result, std::size_t count,
                               std::size_t value_size) {
  const std::size_t bytes = bytes_of(mine, count, value_size);
  if (bytes != 0) require(result, "result");
  if (bytes != 0 && mine != result) std::memcpy(result, mine, bytes);
  return {static_cast<std::byte*>(result), bytes};
}

} // namespace

// ---- jobs of equals -----------------------------------------------------------------------------

fc_status fc_job_start_spmd(int* argc, char** argv, const fc_job_options* options, fc_job** job) {
  return guarded([&] {
    require(job, "job");
    given_options o = options_of(options);
    *job = made_jobs::instance().add(
        {std::move(o.output), argc == nullptr ? farcall::job(spmd, o.options)
                                              : farcall::job(spmd, *argc, argv, o.options)});
  });
}

fc_status fc_job_close(fc_job* job) {
  return guarded([&] {
    made_jobs& all = made_jobs::instance();
    fc_job* const handle = job != nullptr ? job : handle_of(job_of(job));
    all.find(handle).close();
    (void)all.take(handle);
  });
}

fc_status fc_barrier(fc_job* job, int64_t timeout_ns) {
  return guarded_wait([&] {
    detail::job_state& state = job_of(job);
    detail::collectives_of(state, "fc_barrier()").barrier(state, deadline_in(timeout_ns));
  });
}

fc_status fc_all_gather(fc_job* job, const void* mine, size_t size, void* all, int64_t timeout_ns) {
  return guarded_wait([&] {
    detail::job_state& state = job_of(job);
    detail::collectives& together = detail::collectives_of(state, "fc_all_gather()");
    const std::size_t nodes = state.members->nodes();
    require_size(size);
    if (size != 0) {
      require(mine, "mine");
      require(all, "all");
      require_size(size > SIZE_MAX / nodes ? SIZE_MAX : size * nodes);
    }
    together.all_gather(state, std::span(static_cast<const std::byte*>(mine), size),
                        std::span(static_cast<std::byte*>(all), size * nodes),
                        deadline_in(timeout_ns));
  });
}

fc_status fc_broadcast(fc_job* job, void* bytes, size_t size, uint32_t root, int64_t timeout_ns) {
  return guarded_wait([&] {
    detail::job_state& state = job_of(job);
    detail::collectives& together = detail::collectives_of(state, "fc_broadcast()");
    require_size(size);
    if (size != 0) require(bytes, "bytes");
    together.broadcast(state, std::span(static_cast<std::byte*>(bytes), size), root,
                       deadline_in(timeout_ns));
  });
}

fc_status fc_all_reduce(fc_job* job, const void* mine, void* result, size_t count,
                        const fc_reduction* how, int64_t timeout_ns) {
  return guarded_wait([&] {
    detail::job_state& state = job_of(job);
    detail::collectives& together = detail::collectives_of(state, "fc_all_reduce()");
    const detail::reduction by = reduction_of(how);
    const auto values = values_of(mine, result, count, by.element_size);
    together.all_reduce(state, values, by, deadline_in(timeout_ns));
  });
}

fc_status fc_reduce(fc_job* job, const void* mine, void* result, size_t count,
                    const fc_reduction* how, uint32_t root, int64_t timeout_ns) {
  return guarded_wait([&] {
    detail::job_state& state = job_of(job);
    detail::collectives& together = detail::collectives_of(state, "fc_reduce()");
    const detail::reduction by = reduction_of(how);
    const std::size_t bytes = bytes_of(mine, count, by.element_size);
    const bool is_root = state.members->self() == root;
    if (is_root && bytes != 0) require(result, "result");
    together.reduce(state, std::span(static_cast<const std::byte*>(mine), bytes),
                    std::span(static_cast<std::byte*>(result), is_root ? bytes : 0), by, root,
                    deadline_in(timeout_ns));
  });
}

fc_status fc_scan(fc_job* job, const void* mine, void* result, size_t count,
                  const fc_reduction* how, int64_t timeout_ns) {
  return guarded_wait([&] {
    detail::job_state& state = job_of(job);
    detail::collectives& together = detail::collectives_of(state, "fc_scan()");
    const detail::reduction by = reduction_of(how);
    const auto values = values_of(mine, result, count, by.element_size);
    together.scan(state, values, by, deadline_in(timeout_ns));
  });
}

fc_status fc_progress_in_place(fc_job* job) {
  return guarded([&] { job_of(job).engine->waiter().poll_all_in_place(); });
}
