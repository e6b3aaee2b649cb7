// SPDX-License-Identifier: Apache-2.0

// Tests of RMA engines: map, put and get.

#include <tests/conformance/conformance.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <thread>

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

namespace farcall::conformance {
namespace {

constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

void fill_with(std::span<std::byte> memory, std::uint64_t n) {
  for (std::size_t at = 0; at < memory.size(); ++at)
    memory[at] = test::content(n, at);
}

bool holds(std::span<const std::byte> memory, std::uint64_t n) {
  for (std::size_t at = 0; at < memory.size(); ++at) {
    if (memory[at] != test::content(n, at)) return false;
  }
  return true;
}

memory_window window_of(const card& c) {
  return c.windows.empty() ? memory_window{} : c.windows[0];
}

/// True if the system lets this process read the peer's memory; reads one byte.
bool may_attach(const card& peer, std::uint64_t address) {
  std::byte to{};
  const iovec local{&to, 1};
  const iovec remote{reinterpret_cast<void*>(address), 1};
  return ::process_vm_readv(static_cast<pid_t>(peer.pid), &local, 1, &remote, 1, 0) == 1;
}

TEST_P(transport_conformance, shared_memory_can_be_used_in_place) {
  make_pair();
  if (!node_0().has_rma_engine()) GTEST_SKIP() << "it has no RMA engine";
  if (!node_0().shares_memory()) GTEST_SKIP() << "it shares no memory";
  run(
      [](side& s) {
        const memory_window w = window_of(s.peer_card());
        rma_engine& m = *s.link().rma_engine();
        const held_bytes held = m.map(s.peer(), w.address, w.bytes);
        std::byte* const whole = held.here;
        ASSERT_NE(whole, nullptr);
        s.step();
        EXPECT_TRUE(holds({whole, 4096}, 1));
        EXPECT_EQ(m.map(s.peer(), w.address + 4096, 100).here, whole + 4096);
        EXPECT_EQ(m.map(s.peer(), w.address + w.bytes - 1, 1).here, whole + w.bytes - 1);
        fill_with({whole + w.bytes - 4096, 4096}, 2);
        s.step();
      },
      [](side& s) {
        fill_with(s.window().first(4096), 1);
        s.step();
        s.step();
        EXPECT_TRUE(holds(s.window().last(4096), 2));
      });
}

TEST_P(transport_conformance, memory_in_use_stays_mapped_behind_its_peer) {
  make_pair();
  if (!node_0().has_rma_engine()) GTEST_SKIP() << "it has no RMA engine";
  if (!node_0().shares_memory()) GTEST_SKIP() << "it shares no memory";
  run(
      [](side& s) {
        const memory_window w = window_of(s.peer_card());
        rma_engine& m = *s.link().rma_engine();
        const held_bytes held = m.map(s.peer(), w.address, 4096);
        ASSERT_NE(held.here, nullptr);
        s.step();
        s.link().forget(s.peer());
        EXPECT_TRUE(holds({held.here, 4096}, 1));
        EXPECT_EQ(m.map(s.peer(), w.address, 4096).here, nullptr);
        s.step();
      },
      [](side& s) {
        fill_with(s.window().first(4096), 1);
        s.step();
        s.step();
      });
}

TEST_P(transport_conformance, map_fails_outside_the_shared_memory) {
  make_pair();
  if (!node_0().has_rma_engine()) GTEST_SKIP() << "it has no RMA engine";
  run(
      [](side& s) {
        const auto [address, bytes] = window_of(s.peer_card());
        rma_engine& m = *s.link().rma_engine();
        const memory_window outside[] = {{0, 8},
                                         {8, 8},
                                         {address - 1, 1},
                                         {address - 8, 16},
                                         {address - 1, bytes + 2},
                                         {address, bytes + 1},
                                         {address + 1, bytes},
                                         {address + bytes, 1},
                                         {address + bytes - 8, 16},
                                         {address + 8, most},
                                         {address + 8, most - 8},
                                         {address, most},
                                         {most, 1},
                                         {most, 2},
                                         {most - 7, 8},
                                         {std::uint64_t{1} << 63, 8}};
        for (const memory_window& w : outside) {
          EXPECT_EQ(m.map(s.peer(), w.address, w.bytes).here, nullptr)
              << w.address << ", " << w.bytes;
        }
        for (const node_id stranger : {s.id(), node_id{2}, node_id{1000}, no_node}) {
          EXPECT_EQ(m.map(stranger, address, 8).here, nullptr) << stranger;
        }
        s.step();
      },
      [](side& s) { s.step(); });
}

TEST_P(transport_conformance, any_length_is_copied_to_and_from_shared_memory) {
  make_pair();
  if (!node_0().has_rma_engine()) GTEST_SKIP() << "it has no RMA engine";
  if (node_0().window().empty()) GTEST_SKIP() << "it shares no memory";
  constexpr std::size_t guard = 64;
  static constexpr std::size_t lengths[] = {
      0, 1, 7, 8, 63, 64, 65, 4095, 4096, 4097, 100'000, (1 << 20) + 1, 12 << 20};
  run(
      [](side& s) {
        const memory_window w = window_of(s.peer_card());
        rma_engine& m = *s.link().rma_engine();
        std::uint64_t n = 0;
        for (const std::size_t bytes : lengths) {
          std::vector<std::byte> local(bytes);
          fill_with(local, ++n);
          EXPECT_TRUE(m.put(s.peer(), w.address + guard, local.data(), bytes, no_deadline))
              << bytes;
          s.step();
          s.step();
          std::vector<std::byte> back(bytes);
          EXPECT_TRUE(m.get(s.peer(), w.address + guard, back.data(), bytes, no_deadline)) << bytes;
          EXPECT_TRUE(holds(back, n + 1000)) << bytes;
          s.step();
        }
      },
      [](side& s) {
        std::uint64_t n = 0;
        for (const std::size_t bytes : lengths) {
          const auto part = s.window().subspan(guard, bytes);
          s.step();
          EXPECT_TRUE(holds(part, ++n)) << bytes;
          EXPECT_EQ(s.window()[guard - 1], std::byte{0});
          EXPECT_TRUE(n > 1 || s.window()[guard + bytes] == std::byte{0});
          fill_with(part, n + 1000);
          s.step();
          s.step();
        }
      });
}

TEST_P(transport_conformance, copies_by_several_threads_do_not_mix) {
  make_pair();
  if (!node_0().has_rma_engine()) GTEST_SKIP() << "it has no RMA engine";
  if (node_0().window().empty()) GTEST_SKIP() << "it shares no memory";
  constexpr std::size_t threads = 4;
  constexpr std::size_t part = 100'000;
  run(
      [](side& s) {
        const memory_window w = window_of(s.peer_card());
        const auto work = [&](std::uint64_t t) {
          std::vector<std::byte> memory(part);
          for (std::uint64_t round = 0; round < 10; ++round) {
            fill_with(memory, t * 1000 + round);
            EXPECT_TRUE(s.link().rma_engine()->put(s.peer(), w.address + t * part, memory.data(),
                                                   part, no_deadline));
            std::fill(memory.begin(), memory.end(), std::byte{0});
            EXPECT_TRUE(s.link().rma_engine()->get(s.peer(), w.address + t * part, memory.data(),
                                                   part, no_deadline));
            EXPECT_TRUE(holds(memory, t * 1000 + round));
          }
        };
        std::vector<std::thread> all;
        for (std::uint64_t t = 0; t < threads; ++t)
          all.emplace_back(work, t);
        for (std::thread& t : all)
          t.join();
        s.step();
      },
      [](side& s) {
        s.step();
        for (std::uint64_t t = 0; t < threads; ++t) {
          EXPECT_TRUE(holds(s.window().subspan(t * part, part), t * 1000 + 9));
        }
      });
}

TEST_P(transport_conformance, unshared_memory_is_copied_where_the_system_allows_it) {
  make_pair();
  if (!node_0().has_rma_engine()) GTEST_SKIP() << "it has no RMA engine";
  if (!node_0().shares_memory()) GTEST_SKIP() << "it copies windows only";
  bool refused = false;
  node_id peer = no_node;
  std::uint64_t address = 0;
  run(
      [&](side& s) {
        rma_engine& m = *s.link().rma_engine();
        address = s.receive_number();
        const std::uint64_t bytes = s.receive_number();
        peer = s.peer();
        refused = !may_attach(s.peer_card(), address);
        s.tell(refused ? 0 : 1);
        if (refused) return;
        EXPECT_EQ(m.map(s.peer(), address, bytes).here, nullptr);
        std::vector<std::byte> local(bytes);
        EXPECT_TRUE(m.get(s.peer(), address, local.data(), bytes, no_deadline));
        EXPECT_TRUE(holds(local, 1));
        fill_with(local, 2);
        EXPECT_TRUE(m.put(s.peer(), address, local.data(), bytes, no_deadline));
        EXPECT_TRUE(m.put(s.peer(), address, local.data(), 0, no_deadline));
        s.step();
        s.step();
        // Copies fail after forget(), even if the other side is a thread and its memory exists:
        // the pid of a dead process may soon belong to another one.
        s.link().forget(s.peer());
        EXPECT_FALSE(m.get(s.peer(), address, local.data(), bytes, no_deadline));
        EXPECT_FALSE(m.put(s.peer(), address, local.data(), bytes, no_deadline));
        s.step();
      },
      [](side& s) {
        std::vector<std::byte> own(300'001);
        fill_with(own, 1);
        s.tell(reinterpret_cast<std::uintptr_t>(own.data()));
        s.tell(own.size());
        if (s.receive_number() == 0) return;
        s.step();
        EXPECT_TRUE(holds(own, 2));
        s.step();
        s.step();
      });
  if (refused) GTEST_SKIP() << "the system does not allow cross-memory attach";
}

TEST_P(transport_conformance, copies_of_unmapped_memory_fail) {
  make_pair();
  if (!node_0().has_rma_engine()) GTEST_SKIP() << "it has no RMA engine";
  run(
      [](side& s) {
        rma_engine& m = *s.link().rma_engine();
        const std::uint64_t half_there = s.receive_number();
        const auto page = static_cast<std::uint64_t>(::getpagesize());
        std::vector<std::byte> local(2 * page);
        const memory_window nowhere[] = {{0, 1},
                                         {16, 8},
                                         {half_there + page, 1},
                                         {half_there, 2 * page},
                                         {std::uint64_t{1} << 63, 8},
                                         {most - 7, 8}};
        for (const memory_window& w : nowhere) {
          EXPECT_FALSE(m.get(s.peer(), w.address, local.data(), w.bytes, no_deadline)) << w.address;
          EXPECT_FALSE(m.put(s.peer(), w.address, local.data(), w.bytes, no_deadline)) << w.address;
        }
        for (const node_id stranger : {node_id{2}, node_id{1000}, no_node}) {
          EXPECT_FALSE(m.get(stranger, half_there, local.data(), 1, no_deadline)) << stranger;
          EXPECT_FALSE(m.put(stranger, half_there, local.data(), 1, no_deadline)) << stranger;
        }
        s.step();
      },
      [](side& s) {
        // Two pages, the second of which is inaccessible.
        const auto page = static_cast<std::size_t>(::getpagesize());
        void* const pages =
            ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(pages, MAP_FAILED);
        ASSERT_EQ(::mprotect(static_cast<std::byte*>(pages) + page, page, PROT_NONE), 0);
        s.tell(reinterpret_cast<std::uintptr_t>(pages));
        s.step();
        ::munmap(pages, 2 * page);
      });
}

} // namespace
} // namespace farcall::conformance
