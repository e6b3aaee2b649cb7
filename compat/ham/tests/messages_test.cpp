// The message layer alone: headers only, no job and no library of HAM's. The program supplies what
// the headers only declare.

#include <ham/msg/active_msg.hpp>
#include <ham/msg/active_msg_base.hpp>
#include <ham/msg/execution_policy.hpp>
#include <ham/net/communicator.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <sstream>

namespace ham::net {
node_t this_node() { return 0; }
bool initialised() { return true; }
} // namespace ham::net

namespace {

using namespace ham::msg;

int sum = 0;

class add : public active_msg<add> {
 public:
  explicit add(int v) : value_(v) {}
  void operator()() const { sum += value_; }

 private:
  int value_;
};
class negate_sum : public active_msg<negate_sum> {
 public:
  void operator()() const { sum = -sum; }
};
template <class Derived>
// NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility): as programs write it
struct twice_policy {
  static void handler(void* buffer) {
    (*static_cast<Derived*>(buffer))();
    (*static_cast<Derived*>(buffer))();
  }
};
class add_twice : public active_msg<add_twice, twice_policy> {
 public:
  void operator()() const { sum += 100; }
};

/// Memory as a channel: the bytes arrive, and are run without knowing the type.
template <class Message>
void send_and_run(const Message& m) {
  alignas(Message) unsigned char channel[sizeof(Message)];
  std::memcpy(channel, static_cast<const void*>(&m), sizeof m);
  auto* arrived = reinterpret_cast<active_msg_base*>(channel);
  (*arrived)(channel);
}

TEST(messages, run_where_they_arrive) {
  msg_handler_registry::init();
  sum = 0;
  send_and_run(add(5));
  EXPECT_EQ(sum, 5);
  send_and_run(negate_sum());
  EXPECT_EQ(sum, -5);
  send_and_run(add_twice());
  EXPECT_EQ(sum, 195);
}

TEST(messages, registry_can_be_printed) {
  msg_handler_registry::init();
  std::ostringstream out;
  msg_handler_registry::print_handler_map(out);
  msg_handler_registry::print_handler_vector(out);
  EXPECT_NE(out.str().find("add_twice"), std::string::npos);
  EXPECT_NE(out.str().find("2 -> "), std::string::npos);
  EXPECT_NE(msg_handler_registry::get_handler(0), nullptr);
}

} // namespace
