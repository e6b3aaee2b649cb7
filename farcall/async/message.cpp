// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/message.hpp>
#include <farcall/base/error.hpp>
#include <farcall/job/members.hpp>

namespace farcall {

void detail::set_message_handler(const node& here, std::uint32_t number, void (*run)(),
                                 void* context) {
  if (here.job() == nullptr) throw_no_node();
  const job_core& job = usable(*here.job());
  if (here.id() != job.members->self()) {
    throw error("a message handler is set on the node that runs it; this is " +
                    node_text(job.members->self()) + ", and it was to be set on " +
                    node_text(here.id()),
                here.id());
  }
  job.context.messages->set(number, run, context);
}

} // namespace farcall
