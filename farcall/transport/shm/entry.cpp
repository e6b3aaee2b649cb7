// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/local_port.hpp>
#include <farcall/transport/shm/entry.hpp>
#include <farcall/transport/shm/shm.hpp>

#include <utility>

namespace farcall::shm {
namespace {

std::vector<availability> available() {
  try {
    (void)segment::create("farcall-probe", page_bytes());
    return {{"shm", true, "processes on this machine, through shared memory"}};
  } catch (const error& e) {
    return {{"shm", false, std::string("needs memory files (memfd): ") + e.what()}};
  }
}

std::unique_ptr<transport> make_here(transport_site& site) {
  options o;
  o.self = site.self;
  o.nodes = site.nodes;
  o.machine = site.machine;
  o.own_receive_segment = receive_segment::view(*site.receive_segment);
  o.files = site.memory_files;
  return shm::make(std::move(o));
}

} // namespace

transport_entry entry() {
  transport_entry row;
  row.scheme = "shm";
  row.example = "shm, shm:4, shm:2?workers=2&cpu=1&program=./app";
  row.options = {cpu_option(), program_option()};
  row.maps_memory = true;
  row.read_place = &read_count;
  row.available = &available;
  row.make = &make_here;
  row.connect_port = &connect_local_port;
  return row;
}

} // namespace farcall::shm
