// SPDX-License-Identifier: Apache-2.0
#include "errors.hpp"
#include "process.hpp"

#include <array>
#include <cstdio>
#include <cstring>
#include <string>

using namespace farcall::am2;

const amx_stats_t AMX_initial_stats{};

namespace {

constexpr std::size_t words = sizeof(amx_stats_t) / sizeof(std::uint64_t);
static_assert(sizeof(amx_stats_t) % sizeof(std::uint64_t) == 0);

using counts = std::array<std::uint64_t, words>;

counts read(const amx_stats_t& from) noexcept {
  counts c{};
  std::memcpy(c.data(), &from, sizeof from);
  return c;
}

void write_line(std::string& to, const char* what, const uint64_t* by_category) {
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(), " %-20s %12llu short %12llu medium %12llu long\n", what,
                static_cast<unsigned long long>(by_category[0]),
                static_cast<unsigned long long>(by_category[1]),
                static_cast<unsigned long long>(by_category[2]));
  to += line.data();
}

} // namespace

int AMX_GetEndpointStatistics(ep_t ep, amx_stats_t* stats) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(ep != nullptr && stats != nullptr, AM_ERR_BAD_ARG, "an argument is NULL");
  counts c{};
  for (std::size_t i = 0; i < words; ++i)
    c[i] = ep->statistics[i].load(std::memory_order_relaxed);
  std::memcpy(stats, c.data(), sizeof *stats);
  return AM_OK;
}

int AMX_ResetEndpointStatistics(ep_t ep) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(ep != nullptr, AM_ERR_BAD_ARG, "the endpoint is NULL");
  for (auto& word : ep->statistics)
    word.store(0, std::memory_order_relaxed);
  return AM_OK;
}

int AMX_AggregateStatistics(amx_stats_t* running_sum, amx_stats_t* newvalues) {
  AM2_REQUIRE_INIT();
  AM2_REQUIRE(running_sum != nullptr && newvalues != nullptr, AM_ERR_BAD_ARG,
              "an argument is NULL");
  counts sum = read(*running_sum);
  const counts more = read(*newvalues);
  for (std::size_t i = 0; i < words; ++i)
    sum[i] += more[i];
  std::memcpy(running_sum, sum.data(), sizeof *running_sum);
  return AM_OK;
}

const char* AMX_DumpStatistics(void* fp, amx_stats_t* stats, int is_of_all) {
  static thread_local std::string text;
  text.clear();
  if (stats == nullptr) return text.c_str();
  text += "--------------------------------------------------------------------\n";
  text += is_of_all != 0 ? "Messages of all endpoints:\n" : "Messages of an endpoint:\n";
  write_line(text, "requests sent", stats->requests_sent);
  write_line(text, "requests received", stats->requests_received);
  write_line(text, "replies sent", stats->replies_sent);
  write_line(text, "replies received", stats->replies_received);
  write_line(text, "bytes sent", stats->bytes_sent);
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(), " %-20s %12llu\n %-20s %12llu\n", "returned",
                static_cast<unsigned long long>(stats->returned), "waits for a slot",
                static_cast<unsigned long long>(stats->slot_waits));
  text += line.data();
  if (is_of_all != 0) {
    // The sums over all endpoints agree: each message that was sent was also received, unless it
    // has not arrived yet or was refused.
    std::uint64_t sent = 0;
    std::uint64_t come = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      sent += stats->requests_sent[i] + stats->replies_sent[i];
      come += stats->requests_received[i] + stats->replies_received[i];
    }
    std::snprintf(line.data(), line.size(), " %-20s %12lld\n", "not received",
                  static_cast<long long>(sent - come));
    text += line.data();
  }
  text += "--------------------------------------------------------------------\n";
  if (fp != nullptr) {
    std::fputs(text.c_str(), static_cast<std::FILE*>(fp));
    std::fflush(static_cast<std::FILE*>(fp));
  }
  return text.c_str();
}
