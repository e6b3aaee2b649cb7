// SPDX-License-Identifier: Apache-2.0
#include <farcall/c/balanced.h>
#include <farcall/c/convert.hpp>
#include <farcall/c/errors.hpp>
#include <farcall/c/queue.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

using namespace farcall;
using namespace farcall::c;

namespace {

/// Number of calls that are under way to each node. With two, the next one has arrived when the
/// node has run one.
constexpr std::size_t per_node = 2;
/// Size up to which several elements share a message, so that the cost of a message hardly counts.
constexpr std::size_t message_bytes = 2048;

struct queue_closer {
  void operator()(fc_queue* queue) const noexcept { fc_queue_close(queue); }
};
struct future_dropper {
  void operator()(fc_future* future) const noexcept { fc_future_drop(future); }
};

/// Sequence of calls to one node. Each call is made when the one before has ended.
struct stream {
  fc_node where;
  std::size_t first = 0; ///< first element of the call that is under way
  std::size_t count = 0;
  fc_future* call = nullptr; ///< null if no call is under way; owned by the queue
};

/// The calls of one fc_call_balanced(), on the thread that waits for them.
class balanced_calls {
 public:
  balanced_calls(std::span<const fc_node> nodes, fc_function function, const void* elements,
                 std::size_t count, std::size_t element_size, void* results,
                 std::size_t result_size)
      : function_(function), elements_(static_cast<const std::byte*>(elements)), count_(count),
        element_size_(element_size), results_(static_cast<std::byte*>(results)),
        result_size_(result_size) {
    streams_.reserve(per_node * nodes.size());
    for (std::size_t turn = 0; turn < per_node; ++turn) {
      for (const fc_node& n : nodes)
        streams_.push_back({n});
    }
  }
  balanced_calls(const balanced_calls&) = delete;
  balanced_calls& operator=(const balanced_calls&) = delete;
  /// Stops the calls that are under way. There are some only after a failure.
  ~balanced_calls() { stop_all(); }

  [[nodiscard]] fc_status run() {
    fc_queue* opened = nullptr;
    fc_status status = fc_queue_open(streams_.front().where.job, &opened);
    queue_.reset(opened);
    for (std::size_t i = 0; status == FC_OK && i < streams_.size(); ++i)
      status = send_next(i);
    while (status == FC_OK && under_way_ != 0)
      status = take_one();
    return status;
  }

 private:
  [[nodiscard]] fc_status send_next(std::size_t index) {
    if (sent_ == count_) return FC_OK;
    stream& s = streams_[index];
    const std::size_t most = std::max<std::size_t>(1, message_bytes / element_size_);
    s.first = sent_;
    s.count = std::clamp<std::size_t>((count_ - sent_) / (2 * streams_.size()), 1, most);
    const fc_bytes part{elements_ + s.first * element_size_, s.count * element_size_};
    fc_future* made = nullptr;
    fc_status status = fc_call_asyncv(s.where, function_, &part, 1, &made);
    if (status != FC_OK) return status;
    std::unique_ptr<fc_future, future_dropper> call(made);
    status = fc_queue_add(queue_.get(), made, index);
    if (status != FC_OK) return status;
    s.call = call.release();
    sent_ += s.count;
    ++under_way_;
    return FC_OK;
  }

  /// Waits for a call, stores its results, and makes the next call to the same node.
  [[nodiscard]] fc_status take_one() {
    fc_completion taken{};
    std::size_t number = 0;
    fc_status status = fc_queue_take(queue_.get(), &taken, 1, -1, &number);
    if (status != FC_OK) return status;
    const std::unique_ptr<fc_future, future_dropper> call(taken.future);
    stream& s = streams_[taken.tag];
    s.call = nullptr;
    --under_way_;
    const void* bytes = nullptr;
    std::size_t size = 0;
    status = fc_future_get(taken.future, &bytes, &size);
    if (status != FC_OK) return status;
    if (size != s.count * result_size_) {
      throw error("the handler has replied with " + std::to_string(size) + " bytes to " +
                      std::to_string(s.count) + " elements, and each of them has a result of " +
                      std::to_string(result_size_) + " bytes",
                  s.where.id);
    }
    if (size != 0) std::memcpy(results_ + s.first * result_size_, bytes, size);
    return send_next(taken.tag);
  }

  void stop_all() noexcept {
    for (const stream& s : streams_) {
      if (s.call != nullptr && (s.where.flags & stoppable_flag) != 0) (void)fc_future_stop(s.call);
    }
  }

  const fc_function function_;
  const std::byte* const elements_;
  const std::size_t count_;
  const std::size_t element_size_;
  std::byte* const results_;
  const std::size_t result_size_;
  std::vector<stream> streams_;
  std::unique_ptr<fc_queue, queue_closer> queue_;
  std::size_t sent_ = 0; ///< number of elements that were sent
  std::size_t under_way_ = 0;
};

/// Throws invalid_argument if `count` objects of `size` bytes are larger than any object can be.
void require_array(std::size_t count, std::size_t size) {
  require_size(count);
  require_size(size);
  if (size != 0 && count > std::numeric_limits<std::ptrdiff_t>::max() / size)
    require_size(std::numeric_limits<std::size_t>::max());
}

} // namespace

fc_status fc_call_balanced(const fc_node* nodes, size_t node_count, fc_function function,
                           const void* elements, size_t count, size_t element_size, void* results,
                           size_t result_size) {
  return guarded([&]() -> fc_status {
    if (node_count == 0) throw invalid_argument("fc_call_balanced() needs at least one node");
    require(nodes, "nodes");
    const std::span all(nodes, node_count);
    for (const fc_node& n : all) {
      require_node(n);
      if (n.job != nodes->job) throw invalid_argument("these nodes belong to different jobs", n.id);
    }
    if (element_size == 0) throw invalid_argument("element_size must not be 0");
    require_array(count, element_size);
    require_array(count, result_size);
    if (count == 0) return FC_OK;
    require(elements, "elements");
    if (result_size != 0) require(results, "results");
    return balanced_calls(all, function, elements, count, element_size, results, result_size).run();
  });
}
